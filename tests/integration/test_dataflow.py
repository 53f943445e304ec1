"""The pipeline of `convert` as a Dataflow job: translated by Beam's own runner, without an account."""

from __future__ import annotations

from pathlib import Path

import pytest
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner
from apache_beam.runners.dataflow.internal.apiclient import Environment
from google.protobuf import json_format

from tests.core.runners.make_golden_graph import IMAGE, describe_graphs, translate

pytestmark = pytest.mark.nightly

GOLDEN = Path(__file__).parents[1] / "data" / "dataflow_graph.txt"
# What an operator asks of the machines.
ASKED = (
    *("--labels=team=vision", "--subnetwork=regions/europe-west4/subnetworks/private", "--no_use_public_ips"),
    *("--dataflow_kms_key=projects/p/locations/l/keyRings/r/cryptoKeys/k", "--flexrs_goal=COST_OPTIMIZED"),
    *("--disk_size_gb=50", "--machine_type=n2-highmem-8", "--max_num_workers=7", "--resource_hints=min_ram=8GB"),
)


@pytest.fixture(scope="module")
def runner(tmp_path_factory) -> DataflowRunner:
    """The runner, after it has translated a build and not submitted it."""
    return translate(tmp_path_factory.mktemp("dataflow") / "out", *ASKED)


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
        "ListFiles",
        "DuplicateFiles",
        "PublishDataset",
        "FailUnpublished",
        "AfterPublishing",
        "FinishDataset",
        "RemoveTemporary",
    ]


def test_the_stages_are_fused_as_they_were(tmp_path):
    assert describe_graphs(tmp_path) == GOLDEN.read_text(), (
        "say: python -m tests.core.runners.make_golden_graph > tests/data/dataflow_graph.txt"
    )


def test_what_is_asked_of_the_machines_is_in_the_job(runner, components):
    job = json_format.MessageToDict(runner.job.proto._pb)
    made = Environment([], runner.job.options, "2", "gs://bucket/pipeline.pb", proto_pipeline=runner.proto_pipeline)
    environment = json_format.MessageToDict(made.proto._pb)
    (pool,) = environment["workerPools"]
    assert job["labels"]["team"] == "vision"
    assert environment["serviceKmsKeyName"].endswith("/cryptoKeys/k")
    assert environment["flexResourceSchedulingGoal"] == "FLEXRS_COST_OPTIMIZED"
    assert (pool["subnetwork"], pool["ipConfiguration"]) == (
        "regions/europe-west4/subnetworks/private",
        "WORKER_IP_PRIVATE",
    )
    assert (pool["diskSizeGb"], pool["machineType"]) == (50, "n2-highmem-8")
    assert pool["autoscalingSettings"]["maxNumWorkers"] == 7
    # All stages have the hint: those with another one would not be fused.
    hints = [one.resource_hints for one in components.environments.values() if one.resource_hints]
    assert hints == [{common_urns.resource_hints.MIN_RAM_BYTES.urn: b"8000000000"}]


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
        "FailUnpublished/Fail",
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
