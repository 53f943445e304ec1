"""Beam's options and runners, and whether the work is done by processes of this machine.

Beam is imported when a pipeline is about to run: a request that is refused does not wait for it.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from beam_pipelines.settings.beam_flags import add_beam_flags, flag_names
from beam_pipelines.settings.command_line import Parser, refuse_unknown
from transforms.errors import BuildError, RequestError
from transforms.processes.pool import usable_cores
from transforms.settings import whole_number

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineRunner

# Names of the runner that runs in this process.
_LOCAL = frozenset({"", "direct", "directrunner", "localrunner", "fnapirunner", "switchingdirectrunner"})

_BUILD_ERROR = re.compile(r"^(?:transforms\.errors\.)?BuildError: (.*?)(?: \[while running .*\])?$", re.MULTILINE)
_WHILE_RUNNING = re.compile(r" \[while running .*\]")


@dataclasses.dataclass(frozen=True)
class LocalWork:
    """How much of the work this machine does.

    Attributes:
      is_local: whether the pipeline runs in this process.
      processes: number of worker processes of `MapInProcesses`; 0 leaves the work to the runner.
    """

    is_local: bool
    processes: int


@dataclasses.dataclass(frozen=True)
class Execution:
    """Where a pipeline runs.

    Attributes:
      runner: Beam's runner.
      options: Beam's options.
      local: how much of the work this machine does.
      temp_location: the folder for temporary files that the user gave to the cluster, or None.
    """

    runner: PipelineRunner
    options: PipelineOptions
    local: LocalWork
    temp_location: str | None

    def run(self, add_stages: Callable[[beam.Pipeline], Any]) -> None:
        """Runs a pipeline to its end.

        Args:
          add_stages: adds the stages to the pipeline.

        Raises:
          BuildError: a worker raised one, or the runner failed.
        """
        import apache_beam as beam

        pipeline = beam.Pipeline(runner=self.runner, options=self.options)
        add_stages(pipeline)
        try:
            pipeline.run().wait_until_finish()
        except Exception as error:  # each runner raises errors of its own
            # Beam makes a RuntimeError of the KeyboardInterrupt that Ctrl-C raises in its local runner.
            if isinstance(error.__context__, KeyboardInterrupt):
                raise
            # Shown with `verbose` alone.
            logging.getLogger(__name__).error("the pipeline failed", exc_info=error)
            raise BuildError(describe_error(error)) from error


def describe_error(error: Exception) -> str:
    """One line about the failure of a pipeline; runners pass on a worker's exception as text, with its traceback."""
    text = str(error)
    message = _BUILD_ERROR.search(text)
    if message:
        return message[1]
    if isinstance(error, BuildError):  # the local runner keeps the type
        return _WHILE_RUNNING.sub("", text)
    lines = [line.strip() for line in _WHILE_RUNNING.sub("", text).splitlines() if line.strip()]
    if len(lines) < 2 and not isinstance(error, RuntimeError):  # no traceback that ends with the type
        lines = [": ".join([type(error).__name__, *lines])]
    return f"{lines[-1] if lines else type(error).__name__} (`verbose` shows more)"


def decide_local_work(arguments: Sequence[str]) -> LocalWork:
    """Decides, from Beam's arguments alone, whether processes of this machine do the work.

    They do for the local runner, unless the user asks for another of its modes: then Beam's own workers do.

    Raises:
      RequestError: the number of workers is not one.
    """
    parser = Parser(prog="beam-tfrecords convert", add_help=False, allow_abbrev=False)
    for name in ("runner", "direct_running_mode", "direct_num_workers"):
        parser.add_argument(f"--{name}", default="")
    given, _ = parser.parse_known_args(list(arguments))
    if given.runner.lower() not in _LOCAL:
        return LocalWork(is_local=False, processes=0)
    try:
        processes = whole_number(0)(given.direct_num_workers or 0) or usable_cores()
    except ValueError as error:
        raise RequestError(f"--direct_num_workers={given.direct_num_workers}: {error}") from error
    return LocalWork(is_local=True, processes=0 if given.direct_running_mode else processes)


def choose_execution(arguments: Sequence[str], *, verbose: bool) -> Execution:
    """Reads Beam's arguments.

    Args:
      arguments: for Beam.
      verbose: whether Beam's own log is shown.

    Raises:
      RequestError: Beam does not know an argument, or not the runner, or what it needs is not installed.
    """
    local = decide_local_work(arguments)
    from apache_beam.options.pipeline_options import DirectOptions, GoogleCloudOptions, PipelineOptions, StandardOptions
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    from apache_beam.runners.runner import create_runner

    _check_known(arguments)
    logging.getLogger().setLevel(logging.INFO if verbose else logging.CRITICAL)
    options = PipelineOptions(list(arguments))
    if local.is_local:
        runner = FnApiRunner()
        if local.processes:
            direct = options.view_as(DirectOptions)
            direct.direct_running_mode, direct.direct_num_workers = "in_memory", 1
    else:
        name = options.view_as(StandardOptions).runner
        try:
            runner = create_runner(name)
        except (ValueError, ImportError, AttributeError) as error:
            raise RequestError(f"--runner={name}: {error}") from error
    return Execution(runner, options, local, options.view_as(GoogleCloudOptions).temp_location)


def _check_known(arguments: Sequence[str]) -> None:
    parser = add_beam_flags(Parser(prog="beam-tfrecords convert", add_help=False, allow_abbrev=False))
    _, unknown = parser.parse_known_args(list(arguments))
    if unknown:
        refuse_unknown(unknown, flag_names(parser))
