"""Dataflow: its jobs, and the templates that make jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beam_pipelines.execution.jobs import JobRecord
from transforms.errors import RequestError

if TYPE_CHECKING:
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


def refuse_template(options: PipelineOptions) -> None:
    """Refuses an input that is listed by a job of its own, where this process may not wait for one.

    Raises:
      RequestError: this process makes a template.
    """
    from apache_beam.options.pipeline_options import GoogleCloudOptions

    template = options.view_as(GoogleCloudOptions).template_location
    if template:
        raise RequestError(
            f"`template_location={template}`: archives are listed by a job of their own, which a template cannot wait "
            "for; unpack them, or run `convert` without the template"
        )
