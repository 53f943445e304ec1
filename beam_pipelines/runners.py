"""Beam's options and runners: what the user said, and what we add where the user said nothing."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Sequence

from apache_beam.options.pipeline_options import DirectOptions, GoogleCloudOptions, PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineRunner, create_runner

from beam_pipelines.options import refuse_unknown

# Names under which Beam knows runners that run in this process; here they all mean the local one.
_LOCAL = frozenset({"", "DirectRunner", "LocalRunner", "FnApiRunner", "SwitchingDirectRunner"})


def read_options(arguments: Sequence[str], *, verbose: bool) -> PipelineOptions:
    """Reads Beam's own options, and says how much of Beam's log is shown.

    Raises:
      RequestError: if Beam does not know one of them.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for options in sorted(PipelineOptions.__subclasses__(), key=lambda one: one.__name__):
        options._add_argparse_args(parser)
    _, unknown = parser.parse_known_args(list(arguments))
    if unknown:
        known = [flag[2:] for action in parser._actions for flag in action.option_strings]
        refuse_unknown(unknown, known)
    logging.getLogger().setLevel(logging.INFO if verbose else logging.ERROR)
    return PipelineOptions(list(arguments))


def is_local(options: PipelineOptions) -> bool:
    """Whether the build runs on this machine, in processes of our own."""
    return (options.view_as(StandardOptions).runner or "") in _LOCAL


def temporary_location(options: PipelineOptions) -> str | None:
    """The folder for temporary files that the user gave to the cluster."""
    location: str | None = options.view_as(GoogleCloudOptions).temp_location
    return location


def choose_runner(options: PipelineOptions) -> PipelineRunner:
    """The runner that was asked for; the local one with one process per core where nothing was said."""
    if not is_local(options):
        return create_runner(options.view_as(StandardOptions).runner)
    given = options.get_all_options(drop_default=True)
    direct = options.view_as(DirectOptions)
    if "direct_running_mode" not in given:
        direct.direct_running_mode = "multi_processing"
    if "direct_num_workers" not in given:
        direct.direct_num_workers = usable_cores()
    return FnApiRunner()


def usable_cores() -> int:
    """Cores that this process may use; fewer than the machine has in a container."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
