"""The base class of all runners."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING

from beam_tfrecords.beam_pipelines.runners.arguments import BeamArguments
from beam_tfrecords.beam_pipelines.runners.jobs import (
    FollowedJob,
    Job,
    JobRecord,
    PipelineJob,
)
from beam_tfrecords.errors import RequestError

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineResult, PipelineRunner

_OF_FLINK = {"max_slots": "counts task slots of Flink; it is taken with --runner=FlinkRunner and --flink_master"}


class Runner:
    """Base class of all runners.

    Attributes:
      is_detached: whether its jobs need neither this process nor a process that it starts.
      resubmits: whether to submit a failed job again, because it may have lost its workers.
      idle_flags: Beam flag that has no effect here -> explanation and alternative.
      needs_answers: whether to query Beam or a cluster before a pipeline is planned.
      processes: number of worker processes of `MapInProcesses`; 0 leaves the work to the runner.
      dataset: name of the dataset to build, for the job name.
      has_job: whether a job already writes to the output; this request follows that job and submits none.
      note: note on the flags that `complete` has set; empty if there are none.
    """

    is_detached = False
    resubmits = True
    idle_flags: Mapping[str, str] = MappingProxyType(_OF_FLINK)
    needs_answers = True
    processes = 0
    dataset = ""
    has_job = False

    def __init__(self, arguments: BeamArguments) -> None:
        self.arguments = arguments
        self.name = str(arguments.given["runner"] or "")
        self.note = ""

    def complete(self) -> list[str]:
        """Completes Beam's arguments with values from the cluster; keeps what the user has set.

        Raises:
          RequestError: the cluster does not answer or is unsuitable, or a requirement is not installed.
        """
        return list(self.arguments.words)

    def name_job(self) -> str:
        """Returns the job name: the user's, or the dataset's name with a unique suffix."""
        words = filter(None, ["beam-tfrecords", self.dataset.replace("_", "-"), uuid.uuid4().hex[:12]])
        return self.arguments.given["job_name"] or "-".join(words)

    def create(self, options: PipelineOptions) -> PipelineRunner:
        """Creates Beam's runner.

        Raises:
          RequestError: there is no runner with this name, or it cannot be used.
        """
        from apache_beam.runners.runner import create_runner

        try:
            return create_runner(self.name)
        except (ValueError, ImportError, AttributeError) as error:
            raise RequestError(f"--runner={self.name}: {error}", code="invalid_value") from error

    def submit(self, pipeline: beam.Pipeline, remember: Callable[[JobRecord], None]) -> Job:
        """Submits a pipeline as a job.

        Args:
          pipeline: the pipeline.
          remember: called with the job's record as soon as another process can find the job by it.
        """
        result = pipeline.run()
        job = PipelineJob(self.describe_job(result, pipeline.options), result)
        if job.record is not None:
            remember(job.record)
        return job

    def describe_job(self, result: PipelineResult, options: PipelineOptions) -> JobRecord | None:
        """Returns the record of a job that Beam has submitted; None if the job ends with this process."""
        job_id = getattr(result, "job_id", None)
        return JobRecord(self.name, str(job_id()), "") if callable(job_id) else None

    def least_memory(self, image_memory: int) -> int:
        """Returns the memory to request for converting machines, in bytes; 0 leaves it to the runner.

        Args:
          image_memory: largest memory for one image, in bytes.
        """
        return 0

    def start_workers(self, *modules: str) -> None:
        """Starts the fork server of the worker processes on this machine, if the runner uses any.

        Args:
          modules: modules to preload for remote stores; none if workers use only local disks.
        """

    def shared_folder(self) -> AbstractContextManager[str]:
        """Returns a folder that this process and all workers can access.

        Raises:
          RequestError: the user must name the folder, and has not.
        """
        location = self.arguments.given["temp_location"]
        if location is None:
            raise RequestError(
                "`temp_location` is missing; expected a folder that all workers can write to", code="missing_setting"
            )
        return contextlib.nullcontext(location)

    @property
    def lists_in_job(self) -> bool:
        """Whether the job of a build lists a large input itself, because no process can wait for another job."""
        return False

    def open_job(self, record: JobRecord) -> FollowedJob | None:
        """Returns the job for a record; None if the runner cannot be queried, as Dataflow without credentials.

        Raises:
          UnreachableError: the runner must be queried and does not answer.
        """
        return None

    def check_detached(self, flag: str) -> None:
        """Checks that jobs do not need the process that submitted them.

        Args:
          flag: flag that requires this.

        Raises:
          RequestError: jobs need the process.
        """
        if not self.is_detached:
            raise RequestError(
                f"`{flag}`: with `runner={self.name or 'DirectRunner'}` the job needs this process until it ends; "
                "leave it out, or use FlinkRunner or DataflowRunner",
                code="setting_not_applicable",
            )
