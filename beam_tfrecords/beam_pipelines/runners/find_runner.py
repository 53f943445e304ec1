"""Finds the runner of a request by its name; imports nothing of Beam."""

from __future__ import annotations

from collections.abc import Sequence

from beam_tfrecords.beam_pipelines.runners.arguments import BeamArguments
from beam_tfrecords.beam_pipelines.runners.dataflow_runner import DataflowRunner
from beam_tfrecords.beam_pipelines.runners.flink_runner import FlinkRunner
from beam_tfrecords.beam_pipelines.runners.local_runner import LocalRunner
from beam_tfrecords.beam_pipelines.runners.prism_runner import PrismRunner
from beam_tfrecords.beam_pipelines.runners.runner import Runner
from beam_tfrecords.beam_pipelines.runners.spark_runner import SparkRunner

# Names of the runner that runs in this process.
_LOCAL = ("", "direct", "directrunner", "localrunner", "fnapirunner", "switchingdirectrunner")
_RUNNERS: dict[str, type[Runner]] = {
    **dict.fromkeys(_LOCAL, LocalRunner),
    "dataflowrunner": DataflowRunner,
    "flinkrunner": FlinkRunner,
    "prismrunner": PrismRunner,
    "sparkrunner": SparkRunner,
}


def find_runner(words: Sequence[str]) -> Runner:
    """The runner that Beam's arguments ask for.

    Raises:
      RequestError: an argument of it is wrong, or would do nothing.
    """
    arguments = BeamArguments.parse(words)
    name = str(arguments.given["runner"] or "")
    runner = _RUNNERS.get(name.rpartition(".")[2].lower(), Runner)(arguments)
    arguments.check_used(runner.idle_flags)
    return runner
