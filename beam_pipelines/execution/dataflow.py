"""Dataflow: its jobs, and the templates that make jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beam_pipelines.execution.jobs import JobRecord
from beam_tfrecords.errors import RequestError

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

_PAGE = "https://console.cloud.google.com/dataflow/jobs"


def describe_dataflow_job(runner: str, result: Any, options: PipelineOptions) -> JobRecord:
    """The job, as the build's folder remembers it.

    Args:
      runner: name of the runner.
      result: what the runner returned.
      options: Beam's options.
    """
    from apache_beam.options.pipeline_options import GoogleCloudOptions

    cloud = options.view_as(GoogleCloudOptions)
    if result.has_job:
        return JobRecord(runner, result.job_id(), f"{_PAGE}/{cloud.region}/{result.job_id()}?project={cloud.project}")
    # A template: the service starts the job once this process has ended. Until then it has a name only.
    return JobRecord(runner, cloud.job_name, f"{_PAGE}?project={cloud.project}")


def find_template(options: PipelineOptions) -> str | None:
    """The file that this process writes a job to, for a service that starts it later; None if it starts jobs itself."""
    from apache_beam.options.pipeline_options import GoogleCloudOptions

    template: str | None = options.view_as(GoogleCloudOptions).template_location
    return template


def add_nothing(root: beam.Pipeline) -> None:
    """Adds a stage that does nothing: a template has to leave a job, or the service takes it for failed."""
    import apache_beam as beam

    root | "NothingHasChanged" >> beam.Create([])


def refuse_template(options: PipelineOptions) -> None:
    """Refuses an input that is listed by a job of its own, where this process may not wait for one.

    Raises:
      RequestError: this process makes a template.
    """
    template = find_template(options)
    if template:
        raise RequestError(
            f"`template_location={template}`: archives are listed by a job of their own, which a template cannot wait "
            "for; unpack them, or run `convert` without the template"
        )
