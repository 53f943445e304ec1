"""Finds the runner of a request by name, without importing Beam or other runners."""

from __future__ import annotations

from collections.abc import Sequence

from beam_tfrecords.beam_pipelines.runners.arguments import BeamArguments
from beam_tfrecords.beam_pipelines.runners.runner import Runner


def find_runner(words: Sequence[str]) -> Runner:
    """Returns the runner that Beam's arguments select.

    Raises:
      RequestError: an argument of the runner is invalid, or would have no effect.
    """
    arguments = BeamArguments.parse(words)
    name = str(arguments.given["runner"] or "")
    runner = _find_class(name.rpartition(".")[2].lower())(arguments)
    arguments.check_used(runner.idle_flags)
    return runner


def _find_class(name: str) -> type[Runner]:
    match name:
        case "" | "direct" | "directrunner" | "localrunner" | "fnapirunner" | "switchingdirectrunner":
            from beam_tfrecords.beam_pipelines.runners.local_runner import LocalRunner

            return LocalRunner
        case "dataflowrunner":
            from beam_tfrecords.beam_pipelines.runners.dataflow_runner import DataflowRunner

            return DataflowRunner
        case "flinkrunner":
            from beam_tfrecords.beam_pipelines.runners.flink_runner import FlinkRunner

            return FlinkRunner
        case _:
            from beam_tfrecords.beam_pipelines.runners.portable_runner import PortableRunner

            return PortableRunner
