"""What is known of a Dataflow job, and what a template does."""

from __future__ import annotations

import importlib.metadata

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.dataflow.dataflow_runner import DataflowPipelineResult

from beam_tfrecords.beam_pipelines.runners.arguments import BeamArguments
from beam_tfrecords.beam_pipelines.runners.dataflow_runner import DataflowRunner
from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner
from tests.refusals import refuses

OPTIONS = ("--project=project", "--region=europe-west4", "--job_name=photos")


def test_the_job_of_a_template_has_no_number_yet():
    result = DataflowPipelineResult(None, runner=None)
    runner = DataflowRunner(BeamArguments.parse(["--runner=DataflowRunner", *OPTIONS]))
    job = runner.describe_job(result, PipelineOptions(OPTIONS))
    assert job.job_id == "photos"
    assert job.url == "https://console.cloud.google.com/dataflow/jobs?project=project"


TEMPLATE = "--template_location=gs://bucket/job_object"


def test_the_job_of_a_template_lists_the_input_and_there_always_is_one():
    runner = find_runner(["--runner=DataflowRunner", *OPTIONS, TEMPLATE])
    assert runner.lists_in_job


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ([], 9 * 10**9),
        # What the user asks of the machines stays.
        (["--resource_hints=min_ram=4GB"], 0),
        # Dataflow cannot do both.
        (["--flexrs_goal=COST_OPTIMIZED"], 0),
    ],
)
def test_machines_are_asked_for_the_memory_of_large_images(words, asked):
    runner = find_runner(["--runner=DataflowRunner", *OPTIONS, *words])
    assert runner.least_memory(8 * 10**9) == asked
    # A core of a standard machine has enough for usual ones.
    assert runner.least_memory(10**9) == 0
    runner.arguments.check_known()


def test_no_memory_is_asked_of_other_runners():
    assert find_runner(["--runner=FlinkRunner"]).least_memory(8 * 10**9) == 0


@pytest.mark.parametrize("words", [[], ["--runner=DataflowRunner", *OPTIONS], ["--runner=FlinkRunner"]])
def test_without_a_template_a_job_of_its_own_lists_the_input(words):
    runner = find_runner(words)
    assert not runner.lists_in_job


def test_the_runner_without_its_extra_is_refused_with_the_command_that_installs_it(monkeypatch):
    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    with refuses("missing_extra", "runner", says=["pip install '.[dataflow]' in the clone"]):
        find_runner(["--runner=DataflowRunner", *OPTIONS]).create(PipelineOptions(OPTIONS))
