"""What is known of a Dataflow job, and what a template cannot do."""

from __future__ import annotations

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.dataflow.dataflow_runner import DataflowPipelineResult

from beam_tfrecords.beam_pipelines.execution.arguments import BeamArguments
from beam_tfrecords.beam_pipelines.execution.dataflow import DataflowRunner, refuse_template
from beam_tfrecords.errors import RequestError

OPTIONS = ("--project=project", "--region=europe-west4", "--job_name=photos")


def test_the_job_of_a_template_has_no_number_yet():
    result = DataflowPipelineResult(None, runner=None)
    runner = DataflowRunner(BeamArguments.parse(["--runner=DataflowRunner", *OPTIONS]))
    job = runner.find_job(result, PipelineOptions(OPTIONS)).record
    assert job.job_id == "photos"
    assert job.url == "https://console.cloud.google.com/dataflow/jobs?project=project"


def test_a_template_waits_for_no_other_job():
    refuse_template(None)
    with pytest.raises(RequestError, match="archives are listed by a job of their own"):
        refuse_template("gs://bucket/job_object")
