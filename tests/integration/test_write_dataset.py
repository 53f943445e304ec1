"""WriteDataset on Prism, Flink and Spark and into buckets: the dataset of a local build of the same samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import apache_beam as beam
import pytest

from beam_tfrecords import Sample, WriteDataset, build, open_dataset, storage
from beam_tfrecords.beam_pipelines.runners.execution import Execution
from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner
from tests.integration.buckets import SCHEMES, services
from tests.integration.cluster_builds import hashes
from tests.integration.servers import flink, processes

pytestmark = pytest.mark.nightly

SETTINGS = {"image_size": 32, "splits": "train=0.7,test=0.3", "num_shards": 2, "duplicates": "drop", "name": "data"}


def run_here(arguments: Sequence[str], output: Path, samples: Sequence[Sample]) -> None:
    """Runs a pipeline of the user with the options that `convert` finds out for these arguments."""
    execution = Execution.prepare(find_runner(arguments), quiet=True)
    execution.run(lambda root: root | beam.Create(list(samples)) | WriteDataset(output, **SETTINGS))


@pytest.fixture(scope="module")
def prism() -> list[str]:
    return ["--runner=PrismRunner", f"--prism_location={processes.binary('prism')}"]


@pytest.fixture(scope="module")
def on_flink(tmp_path_factory) -> Iterator[list[str]]:
    with flink.flink_cluster(tmp_path_factory.mktemp("flink"), task_managers=2, slots=1) as cluster:
        yield ["--runner=FlinkRunner", f"--flink_master={cluster.master}"]


@pytest.fixture(scope="module")
def on_spark() -> list[str]:
    return ["--runner=SparkRunner", "--spark_master_url=local[2]"]


def make_samples(photos: Path) -> list[Sample]:
    """Samples of files, and of bytes."""
    return [
        Sample(
            path.relative_to(photos).as_posix(),
            image=path.read_bytes() if number % 2 else str(path),
            label=path.parent.name,
        )
        for number, path in enumerate(sorted(photos.glob("*/*.jpg")))
    ]


@pytest.mark.parametrize("runner", ["prism", "on_flink", "on_spark"])
def test_a_collection_becomes_the_dataset_of_a_local_build(runner, request, photos, tmp_path):
    samples = make_samples(photos)
    build(input=lambda: iter(samples), output=tmp_path / "built", quiet=True, **SETTINGS)
    run_here(request.getfixturevalue(runner), tmp_path / "written", samples)
    assert hashes(tmp_path / "written") == hashes(tmp_path / "built")
    dataset = open_dataset(tmp_path / "written")
    assert dataset.verify() == []
    assert (tmp_path / "written/report.html").exists()
    assert not (tmp_path / "written/.build").exists()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_versions_in_a_bucket_have_the_shards_of_a_local_build(scheme, photos, tmp_path):
    samples, root = make_samples(photos), f"{scheme}://datasets/written"
    build(input=lambda: iter(samples), output=tmp_path / "built", quiet=True, **SETTINGS)
    with services(tmp_path, scheme):
        for _ in range(2):
            with beam.Pipeline("DirectRunner") as pipeline:
                _ = pipeline | beam.Create(samples) | WriteDataset(root, versioned=True, **SETTINGS)
        dataset = open_dataset(root)
        assert dataset.shards == open_dataset(tmp_path / "built").shards
        assert dataset.verify() == []
        names = {entry.path.removeprefix(f"{root}/").split("/")[0] for entry in storage.list_files(root, literal=True)}
    assert names == {storage.basename(dataset.path), "LATEST"}
