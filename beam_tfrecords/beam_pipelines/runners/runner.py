"""What every runner does, and the runners that need little more: the local one, Spark, and others by their name."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import sysconfig
import tempfile
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.runners.arguments import JOB_LABELS, BeamArguments
from beam_tfrecords.beam_pipelines.runners.forking import JOB_VARIABLE
from beam_tfrecords.beam_pipelines.runners.jar_files import find_jar
from beam_tfrecords.beam_pipelines.runners.job_server import ServerJob
from beam_tfrecords.beam_pipelines.runners.jobs import Job, JobRecord, PipelineJob, is_advancing
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.processes.descendants import find_children
from beam_tfrecords.transforms.processes.fork_server import start_fork_server
from beam_tfrecords.transforms.processes.pool import usable_cores
from beam_tfrecords.transforms.settings import whole_number

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineResult, PipelineRunner

WORKER = "beam-tfrecords-worker"
# Of a local build from or to a store: at the end of a block, a process waits for the store most of a tenth of a second.
_PROCESSES_PER_CORE = 2
_OF_FLINK = {"max_slots": "counts task slots of Flink; it is taken with --runner=FlinkRunner and --flink_master"}
_OF_CLUSTERS = {
    "max_slots": "counts task slots of Flink; expected --direct_num_workers=NUMBER",
    **dict.fromkeys(
        JOB_LABELS,
        "names a job of Dataflow; the classes of images come from folders, `label_column` or `label_pattern`",
    ),
    **dict.fromkeys(
        ("num_workers", "max_num_workers"), "counts machines of Dataflow; expected --direct_num_workers=NUMBER"
    ),
}


class Runner:
    """A runner that Beam knows by its name, such as Prism or a job server; the others build on it.

    Attributes:
      is_detached: whether its jobs need neither this process nor one that it starts.
      resubmits: whether a failed job is submitted again, because it may have lost its workers.
      idle_flags: flags of Beam that look as if they did something here -> what they are, and what does it.
      needs_answers: whether Beam or a cluster is asked something before a pipeline is planned.
      processes: worker processes of `MapInProcesses`; 0 leaves the work to the runner.
      workers: processes of a cluster that do the work; 0 if nobody knows how many, or they are those.
      dataset: name of the dataset that is built, for the name of its job.
      has_job: whether a job writes to the output already; it is followed, so that this request submits none.
      note: what `complete` has filled in, for a person; empty if nothing was.
    """

    is_detached = False
    resubmits = True
    idle_flags: Mapping[str, str] = MappingProxyType(_OF_FLINK)
    needs_answers = True
    processes = 0
    workers = 0
    dataset = ""
    has_job = False

    def __init__(self, arguments: BeamArguments) -> None:
        self.arguments = arguments
        self.name = str(arguments.given["runner"] or "")
        self.note = ""

    def complete(self) -> list[str]:
        """Completes Beam's arguments from the cluster; what the user has set stays.

        Raises:
          RequestError: the cluster does not answer, does not fit, or something that it needs is not installed.
        """
        return list(self.arguments.words)

    def name_job(self) -> str:
        """The name of a job: the user's, or that of the dataset with what no other job has in its name."""
        words = filter(None, ["beam-tfrecords", self.dataset.replace("_", "-"), uuid.uuid4().hex[:12]])
        return self.arguments.given["job_name"] or "-".join(words)

    def create(self, options: PipelineOptions) -> PipelineRunner:
        """Beam's runner.

        Raises:
          RequestError: there is none of this name, or it cannot be used.
        """
        from apache_beam.runners.runner import create_runner

        try:
            return create_runner(self.name)
        except (ValueError, ImportError, AttributeError) as error:
            raise RequestError(f"--runner={self.name}: {error}") from error

    def find_job(self, result: PipelineResult, options: PipelineOptions) -> Job:
        """The job that was made of a pipeline."""
        job_id, endpoint = getattr(result, "job_id", None), self.arguments.given["job_endpoint"]
        if endpoint:
            return PipelineJob(ServerJob(endpoint, str(getattr(result, "_job_id", ""))).record, result)
        return PipelineJob(JobRecord(self.name, str(job_id()), "") if callable(job_id) else None, result)

    def least_memory(self, image_memory: int) -> int:
        """Bytes of memory that the machines which convert are asked to have; 0 leaves it to the runner.

        Args:
          image_memory: bytes that one image may take.
        """
        return 0

    def before(self) -> JobRecord | None:
        """Called before a pipeline is submitted.

        Returns:
          What is known of its job by then, if the job can be found by that should this process end now.
        """
        return None

    def start_workers(self, *modules: str) -> None:
        """Starts what the worker processes of this machine are made from, if the runner has some.

        Args:
          modules: that they need for stores; none if they read and write on disks only.
        """

    def shared_folder(self) -> AbstractContextManager[str]:
        """A folder that this process and all workers reach.

        Raises:
          RequestError: the user has to name it, and has not.
        """
        location = self.arguments.given["temp_location"]
        if location is None:
            raise RequestError("`temp_location` is missing; expected a folder that all workers can write to")
        return contextlib.nullcontext(location)

    def check_listing_job(self) -> None:
        """Checks that an input can be listed by a job of its own, before that of the build.

        Raises:
          RequestError: it cannot.
        """

    def most_listed_here(self, most: float) -> float:
        """Samples that this process lists itself, if jobs list the inputs that have more than `most`."""
        return most

    def add_nothing(self) -> Callable[[beam.Pipeline], Any] | None:
        """The stages of a build for which there is nothing to do; None if it needs no job."""
        return None

    def find_running(self, record: JobRecord) -> Job | None:
        """The job of an earlier launcher, if the runner says that it still runs."""
        job = ServerJob.of(record) if record.url else None
        return job if job and job.is_running() else None

    def is_alive(self, record: JobRecord, last_block: float | None) -> bool | None:
        """Whether a job still runs; None if nobody knows.

        Args:
          last_block: when it last finished a block, in seconds since the epoch.
        """
        if not self.is_detached:
            return ServerJob.of(record).is_running() if record.url else False
        return True if is_advancing(last_block) else None

    def find_end(self, record: JobRecord) -> str | None:
        """Why a job has ended, in one line; None if it has not, or nobody knows."""
        return ServerJob.of(record).find_end() if record.url and not self.is_detached else None

    def check_detached(self, flag: str) -> None:
        """Checks that a job ends without the process that submitted it.

        Args:
          flag: that asks for it.

        Raises:
          RequestError: it does not.
        """
        if not self.is_detached:
            raise RequestError(
                f"`{flag}`: with `runner={self.name or 'DirectRunner'}` the job needs this process until it ends; "
                "leave it out, or use FlinkRunner or DataflowRunner"
            )

    def worker_environment(self, job_name: str) -> dict[str, str]:
        """Workers are processes of the environment that runs this program, unless the user says what they are."""
        if any(word is not None for name, word in self.arguments.given.items() if name.startswith("environment_")):
            return {}
        command = os.path.join(sysconfig.get_path("scripts"), WORKER)
        if not storage.exists(command):
            raise RequestError(
                f"{command} is missing, by which the cluster would start Python workers; install beam-tfrecords with "
                "pip, or set `environment_type` and `environment_config`"
            )
        config = {"command": command, "env": {JOB_VARIABLE: job_name}}
        return {"environment_type": "PROCESS", "environment_config": json.dumps(config)}


class PrismRunner(Runner):
    """Beam's portable runner in Go, in a process of its own for each pipeline."""

    def complete(self) -> list[str]:
        """See `Runner.complete`."""
        # Otherwise Beam takes the one of any earlier pipeline of this process, whatever `prism_location` says now.
        experiment = "--experiments=disable_prism_server_singleton"
        # What Prism writes to its console, Beam shows whatever level is asked for.
        return [*self.arguments.add({"prism_log_kind": "text"}), experiment]


class LocalRunner(Runner):
    """Runs the pipeline in this process; processes of this machine do the work.

    If the user asks for another of Beam's local modes, Beam's own workers do.

    Raises:
      RequestError: the number of workers is not one.
    """

    resubmits = False
    idle_flags = _OF_CLUSTERS

    def __init__(self, arguments: BeamArguments) -> None:
        super().__init__(arguments)
        workers = arguments.given["direct_num_workers"]
        try:
            processes = whole_number(0)(workers or 0) or usable_cores()
        except ValueError as error:
            raise RequestError(f"--direct_num_workers={workers}: {error}") from error
        self.processes = 0 if arguments.given["direct_running_mode"] else processes
        # Importing Beam takes longer than to find that nothing has changed.
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

    def find_job(self, result: PipelineResult, options: PipelineOptions) -> Job:
        return PipelineJob(None, result)


class SparkRunner(Runner):
    """Spark, by Beam's job server, which is a process of this machine."""

    _children: frozenset[int] = frozenset()

    def complete(self) -> list[str]:
        given = self.arguments.given
        if given["job_endpoint"] is not None:
            return super().complete()
        if shutil.which("java") is None:
            raise RequestError(
                "`runner=SparkRunner` needs Java, and there is no `java` on the PATH; install Java 11 or 17"
            )
        job_name = self.name_job()
        filled = self.worker_environment(job_name)
        if given["spark_job_server_jar"] is None:
            filled["spark_job_server_jar"] = find_jar("spark-3-job-server/spark-3-job-server.jar", "spark:3")
        master = str(given["spark_master_url"] or "local[4]")
        cores = re.fullmatch(r"local\[(\d+)\]", master)
        if cores:
            filled["sdk_worker_parallelism"] = cores[1]
            self.workers = int(cores[1])
        self.note = f"Spark at {master}; set: {self.arguments.describe(filled)}"
        return self.arguments.add({**filled, "job_name": job_name})

    def before(self) -> JobRecord | None:
        self._children = find_children()
        return None

    def find_job(self, result: PipelineResult, options: PipelineOptions) -> Job:
        job = super().find_job(result, options)
        started = find_children() - self._children
        return dataclasses.replace(job, companions=started) if isinstance(job, PipelineJob) else job
