"""The pipeline of `convert` as a Dataflow job: translated by Beam's own runner, without an account."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options import pipeline_options
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner

from beam_tfrecords.beam_pipelines.execution.runners import Execution, find_runner
from beam_tfrecords.beam_pipelines.holding import hold_output
from beam_tfrecords.beam_pipelines.pipeline import build_pipeline
from beam_tfrecords.beam_pipelines.preparing import prepare_build
from beam_tfrecords.beam_pipelines.settings.definitions import read_build_spec
from beam_tfrecords.beam_pipelines.source_opening import open_spec_source

PHOTOS = Path(__file__).parents[1] / "data" / "photos"
IMAGE = "europe-docker.pkg.dev/project/repository/beam-tfrecords:tag"
DATAFLOW = (
    *("--runner=DataflowRunner", "--project=project", "--region=europe-west4", "--job_name=photos"),
    *("--temp_location=gs://bucket/temp", f"--sdk_container_image={IMAGE}"),
)


@pytest.fixture(scope="module")
def runner(tmp_path_factory) -> Iterator[DataflowRunner]:
    """The runner, after it has translated a build and not submitted it."""
    output = tmp_path_factory.mktemp("dataflow") / "out"
    words = {
        "input": str(PHOTOS),
        "output": str(output),
        "image_size": "64",
        "splits": "train=0.8,test=0.2",
        "duplicates": "drop",
    }
    execution = Execution.prepare(find_runner(DATAFLOW), verbose=False)
    execution.options.view_as(pipeline_options.TestOptions).dry_run = True
    spec, source = open_spec_source(read_build_spec(words))
    with hold_output(spec, execution.runner) as held:
        plan = prepare_build(spec, source, execution, output=held)
        pipeline = beam.Pipeline(runner=execution.beam_runner, options=execution.options)
        build_pipeline(pipeline, plan, processes=execution.runner.processes, cleans=True)
        pipeline.run()
        yield execution.beam_runner


@pytest.fixture(scope="module")
def components(runner) -> beam_runner_api_pb2.Components:
    return runner.proto_pipeline.components


def test_the_steps_have_the_names_of_the_stages(runner, components):
    (root,) = runner.proto_pipeline.root_transform_ids
    names = [components.transforms[step].unique_name for step in components.transforms[root].subtransforms]
    assert names == [
        "ListSource",
        "AssignOrder",
        "GroupByKey",
        "ConvertBlocks",
        "TakeParts",
        "WithoutHashes",
        "FindDuplicates",
        "DropDuplicates",
        "CountBlocks",
        "CountDuplicates",
        "CountBytes",
        "AllStats",
        "MergeStats",
        "OpenOutput",
        "IfPublished",
        "PlanShards",
        "ComposeShards",
        "FailureFiles",
        "DuplicateFiles",
        "ChangeFiles",
        "PublishDataset",
        "RemoveTemporary",
    ]


def test_side_inputs_are_those_that_dataflow_has(components):
    supported = {common_urns.side_inputs.ITERABLE.urn, common_urns.side_inputs.MULTIMAP.urn}
    consumers = set()
    for transform in components.transforms.values():
        if transform.spec.urn == common_urns.primitives.PAR_DO.urn:
            payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
            assert {one.access_pattern.urn for one in payload.side_inputs.values()} <= supported
            if payload.side_inputs:
                consumers.add("/".join(transform.unique_name.split("/")[:2]))
    assert consumers == {
        "IfPublished",
        "PlanShards/PlaceParts",
        "PlanShards/EveryGroup",
        "PublishDataset/WriteMetadata",
    }


def test_keys_that_are_grouped_have_coders_that_always_write_the_same_bytes(components):
    grouped = [one for one in components.transforms.values() if one.spec.urn == common_urns.primitives.GROUP_BY_KEY.urn]
    assert grouped
    for transform in grouped:
        (source,) = transform.inputs.values()
        coder = components.coders[components.pcollections[source].coder_id]
        assert coder.spec.urn == common_urns.coders.KV.urn, transform.unique_name
        key = components.coders[coder.component_coder_ids[0]]
        assert b"pickle" not in key.spec.payload.lower(), transform.unique_name


def test_workers_run_the_image_and_install_nothing(components):
    (environment,) = components.environments.values()
    assert environment.urn == common_urns.environments.DOCKER.urn
    payload = beam_runner_api_pb2.DockerPayload.FromString(environment.payload)
    assert payload.container_image == IMAGE
    roles = [
        beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(one.role_payload)
        for one in environment.dependencies
    ]
    # No archive of a package: the names in the launcher's main module, and for information the launcher's versions.
    assert {role.staged_name for role in roles} == {"pickled_main_session", "submission_environment_dependencies.txt"}


def test_the_job_is_a_batch_job_of_its_name(runner):
    assert runner.job.proto.name == "photos"
    assert runner.job.proto.type_.name == "JOB_TYPE_BATCH"
