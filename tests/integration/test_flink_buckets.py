"""Builds from and to buckets by the workers of a Flink cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration import buckets
from tests.integration.servers import flink

pytestmark = pytest.mark.nightly

PHOTOS = Path(__file__).parents[1] / "data" / "photos"
FLAGS = ["--name=photos", "--image_size=64", "--splits=train=0.8,validation=0.2", "--num_shards=2"]


@pytest.fixture(scope="module", autouse=True)
def both_services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with buckets.services(tmp_path_factory.mktemp("services"), *buckets.SCHEMES):
        yield


@pytest.fixture(scope="module")
def cluster(both_services: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[flink.FlinkCluster]:
    """A cluster whose task managers, and so their workers, have the services in their environment."""
    with flink.flink_cluster(tmp_path_factory.mktemp("flink"), slots=2) as running:
        yield running


@pytest.mark.parametrize(("source", "target"), [("gs", "gs"), ("s3", "s3"), ("gs", "s3")])
def test_flink_makes_the_dataset_of_a_disk_from_bucket_to_bucket(cluster, tmp_path, source, target):
    buckets.upload(PHOTOS, f"{source}://photos")
    output = f"{target}://datasets/from {source}"
    on_flink = ["--runner=FlinkRunner", f"--flink_master={cluster.master}"]
    buckets.build(f"--input={source}://photos", f"--output={output}", *FLAGS, *on_flink)
    buckets.build(f"--input={PHOTOS}", f"--output={tmp_path / 'out'}", *FLAGS)
    assert buckets.content_of(output) == buckets.content_of(str(tmp_path / "out"))
