"""What every runner does; enough for those that Beam knows by their name, such as a job server."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from beam_tfrecords.beam_pipelines.runners.arguments import BeamArguments
from beam_tfrecords.beam_pipelines.runners.job_server import ServerJob
from beam_tfrecords.beam_pipelines.runners.jobs import (
    FollowedJob,
    Job,
    JobRecord,
    JobState,
    Phase,
    PipelineJob,
    UnreachableError,
    is_advancing,
)
from beam_tfrecords.errors import RequestError

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineResult, PipelineRunner

_OF_FLINK = {"max_slots": "counts task slots of Flink; it is taken with --runner=FlinkRunner and --flink_master"}


class Runner:
    """A runner that Beam knows by its name, such as that of a job server; the others build on it.

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

    def submit(self, pipeline: beam.Pipeline, remember: Callable[[JobRecord], None]) -> Job:
        """Makes a job of a pipeline.

        Args:
          remember: is told what is known of the job, as soon as the job can be found by it should this process end.
        """
        result = pipeline.run()
        job = PipelineJob(self.describe_job(result, pipeline.options), result)
        if job.record is not None:
            remember(job.record)
        return job

    def describe_job(self, result: PipelineResult, options: PipelineOptions) -> JobRecord | None:
        """What is known of a job that Beam has submitted; None of one that ends with this process."""
        job_id, endpoint = getattr(result, "job_id", None), self.arguments.given["job_endpoint"]
        if endpoint:
            return ServerJob(endpoint, str(getattr(result, "_job_id", ""))).record
        return JobRecord(self.name, str(job_id()), "") if callable(job_id) else None

    def least_memory(self, image_memory: int) -> int:
        """Bytes of memory that the machines which convert are asked to have; 0 leaves it to the runner.

        Args:
          image_memory: bytes that one image may take.
        """
        return 0

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

    def open_job(self, record: JobRecord) -> FollowedJob | None:
        """The job that a build's folder remembers; None if the runner cannot be asked about it.

        Raises:
          UnreachableError: the runner does not answer, and has to.
        """
        return ServerJob.of(record) if record.url else None

    def find_state(self, record: JobRecord, last_block: float | None) -> JobState | None:
        """What is known of a job; None if nobody knows whether it runs.

        Args:
          last_block: when it last finished a block, in seconds since the epoch.
        """
        try:
            job = self.open_job(record)
            if job is not None:
                return job.state()
        except UnreachableError:
            return None
        if not self.is_detached:  # it has ended with its launcher
            return JobState(Phase.STOPPED)
        return JobState(Phase.RUNNING) if is_advancing(last_block) else None

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
