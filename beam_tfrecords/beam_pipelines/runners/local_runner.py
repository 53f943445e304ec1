"""The local runner: runs the pipeline in this process, and the work in worker processes on this machine."""

from __future__ import annotations

import tempfile
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from beam_tfrecords.beam_pipelines.runners.arguments import JOB_LABELS, BeamArguments
from beam_tfrecords.beam_pipelines.runners.runner import Runner
from beam_tfrecords.transforms.processes.fork_server import start_fork_server
from beam_tfrecords.transforms.processes.worker import usable_cores

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineRunner

# For local builds with remote stores: at the end of each block, a process waits almost 0.1 s for the store.
_PROCESSES_PER_CORE = 2
_OF_CLUSTERS = {
    **dict.fromkeys(
        ("max_slots", "parallelism", "sdk_worker_parallelism"),
        "counts workers of a cluster; expected --direct_num_workers=NUMBER",
    ),
    "flink_master": "names a cluster of Flink; add --runner=FlinkRunner",
    "spark_master_url": "names a cluster of Spark; add --runner=SparkRunner",
    **dict.fromkeys(
        JOB_LABELS,
        "names a job of Dataflow; the classes of images come from folders, `label_column` or `label_pattern`",
    ),
    **dict.fromkeys(
        ("num_workers", "max_num_workers"), "counts machines of Dataflow; expected --direct_num_workers=NUMBER"
    ),
}


class LocalRunner(Runner):
    """Runs the pipeline in this process, and the work in worker processes on this machine.

    If the user selects one of Beam's local modes, Beam's own workers do the work.

    Raises:
      RequestError: the number of workers is not a whole number.
    """

    resubmits = False
    idle_flags = _OF_CLUSTERS

    def __init__(self, arguments: BeamArguments) -> None:
        super().__init__(arguments)
        workers = arguments.number("direct_num_workers")
        processes = workers or usable_cores()
        self.processes = 0 if arguments.given["direct_running_mode"] else processes
        # Avoids importing Beam if possible, because that takes longer than finding that nothing has changed.
        self.needs_answers = bool(arguments.others or not self.processes)
        self._may_add_processes = not workers

    def create(self, options: PipelineOptions) -> PipelineRunner:
        from apache_beam.options.pipeline_options import DirectOptions
        from apache_beam.runners.portability.fn_api_runner import FnApiRunner

        if self.processes:
            direct = options.view_as(DirectOptions)
            direct.direct_running_mode, direct.direct_num_workers = "in_memory", 1
        return FnApiRunner()

    def start_workers(self, *modules: str) -> None:
        if modules and self._may_add_processes:
            self.processes *= _PROCESSES_PER_CORE
            self._may_add_processes = False
        if self.processes:
            start_fork_server(*modules)

    def shared_folder(self) -> AbstractContextManager[str]:
        return tempfile.TemporaryDirectory(prefix="beam-tfrecords-")
