"""The runner for Dataflow jobs and templates."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING

from beam_tfrecords.beam_pipelines.runners.jobs import JobRecord
from beam_tfrecords.beam_pipelines.runners.runner import Runner
from beam_tfrecords.errors import RequestError
from beam_tfrecords.extras import install_hint

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineResult, PipelineRunner

# Bytes of memory per core of a standard machine, and of a worker in addition to its image.
_MEMORY_OF_CORE, _MEMORY_OF_WORKER = 4 * 10**9, 10**9
# Largest length of a label value.
_MOST_LETTERS = 63
# Distribution that Beam calls the service with.
_CLIENT = "google-cloud-dataflow-client"
_PAGE = "https://console.cloud.google.com/dataflow/jobs"


class DataflowRunner(Runner):
    """The Dataflow service, which runs jobs independently of this process."""

    is_detached = True

    @property
    def lists_in_job(self) -> bool:
        # A template's launcher may not wait for jobs.
        return self.arguments.given["template_location"] is not None

    def complete(self) -> list[str]:
        # Labels identify a job on the service's page and in bills.
        labels = [f"--labels=beam-tfrecords-dataset={self.dataset[:_MOST_LETTERS]}"] if self.dataset else []
        return [*self.arguments.add({"job_name": self.name_job()}), *labels]

    def create(self, options: PipelineOptions) -> PipelineRunner:
        try:
            importlib.metadata.version(_CLIENT)
        except importlib.metadata.PackageNotFoundError as error:
            raise RequestError(
                f"`runner={self.name}` needs an extra: {install_hint('dataflow')}", code="missing_extra"
            ) from error
        return super().create(options)

    def least_memory(self, image_memory: int) -> int:
        needed = image_memory + _MEMORY_OF_WORKER
        # A memory hint makes Dataflow choose the machines, which FlexRS does not support.
        is_left = self.arguments.given["resource_hints"] or self.arguments.given["flexrs_goal"]
        return 0 if is_left or needed <= _MEMORY_OF_CORE else needed

    def describe_job(self, result: PipelineResult, options: PipelineOptions) -> JobRecord:
        from apache_beam.options.pipeline_options import GoogleCloudOptions

        cloud = options.view_as(GoogleCloudOptions)
        if result.has_job:
            page = f"{_PAGE}/{cloud.region}/{result.job_id()}?project={cloud.project}"
            return JobRecord(self.name, result.job_id(), page)
        # With a template, the service starts the job after this process ends; until then it has only a name.
        return JobRecord(self.name, cloud.job_name, f"{_PAGE}?project={cloud.project}")
