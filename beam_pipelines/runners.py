"""Beam's options and runners: what the user said, and what we add where the user said nothing."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from apache_beam.options.pipeline_options import DirectOptions, GoogleCloudOptions, PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineRunner, create_runner

from beam_pipelines.options import Parser, refuse_unknown
from transforms.errors import RequestError
from transforms.pool import usable_cores

# Names under which Beam knows runners that run in this process; here they all mean the local one.
_LOCAL = frozenset({"", "DirectRunner", "LocalRunner", "FnApiRunner", "SwitchingDirectRunner"})


def read_options(arguments: Sequence[str], *, verbose: bool) -> PipelineOptions:
    """Reads Beam's own options, and says how much of Beam's log is shown.

    Raises:
      RequestError: if Beam does not know one of them, or not the runner.
    """
    parser = Parser(prog="beam-tfrecords convert", add_help=False, allow_abbrev=False)
    for options in sorted(PipelineOptions.__subclasses__(), key=lambda one: one.__name__):
        options._add_argparse_args(parser)
    _, unknown = parser.parse_known_args(list(arguments))
    if unknown:
        known = [flag[2:] for action in parser._actions for flag in action.option_strings]
        refuse_unknown(unknown, known)
    logging.getLogger().setLevel(logging.INFO if verbose else logging.CRITICAL)
    options = PipelineOptions(list(arguments))
    if not is_local(options):
        choose_runner(options)
        return options
    # One process per core, unless the user says something else: of two flags the last one counts.
    ours = ["--direct_running_mode=multi_processing", f"--direct_num_workers={usable_cores()}"]
    return PipelineOptions([*ours, *arguments])


def is_local(options: PipelineOptions) -> bool:
    """Whether the build runs on this machine, in processes of our own."""
    return (options.view_as(StandardOptions).runner or "") in _LOCAL


def temporary_location(options: PipelineOptions) -> str | None:
    """The folder for temporary files that the user gave to the cluster."""
    location: str | None = options.view_as(GoogleCloudOptions).temp_location
    return location


def choose_runner(options: PipelineOptions) -> tuple[PipelineRunner, int]:
    """The runner that was asked for, and in how many processes of ours the work is to be done.

    The local runner works in this process and leaves the work that counts to `MapInProcesses`, unless
    the user asks for another of Beam's own modes.

    Args:
      options: from `read_options`.

    Raises:
      RequestError: if there is no such runner, or what it needs is not installed.
    """
    if not is_local(options):
        name = options.view_as(StandardOptions).runner
        try:
            return create_runner(name), 0
        except (ValueError, ImportError, AttributeError) as error:
            raise RequestError(f"--runner={name}: {error}") from error
    direct = options.view_as(DirectOptions)
    if direct.direct_running_mode != "multi_processing":
        return FnApiRunner(), 0
    processes = direct.direct_num_workers or usable_cores()
    direct.direct_running_mode, direct.direct_num_workers = "in_memory", 1
    return FnApiRunner(), processes
