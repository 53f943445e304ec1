"""Every source and all stages on Flink, with two and four task managers, and on Spark: the same bytes as locally."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from beam_tfrecords.storage import local
from beam_tfrecords.transforms.sources.folders import image_folder
from tests.integration.cluster_builds import hashes
from tests.integration.servers import flink
from tests.web_server import web_server
from tests.writers import WRITERS, flags_of

pytestmark = pytest.mark.nightly

CLUSTERS = ["flink_2", "flink_4", "spark"]


@pytest.fixture(scope="module")
def convert_on_both(run):
    """Runs a request here and where these flags say, into folders of these names."""

    def convert(where: Sequence[str], folder: Path, *words: str) -> None:
        for name, more in ("local", ()), ("cluster", where):
            ran = run("convert", f"--output={folder / name}", "--name=photos", "--image_size=32", *words, *more)
            assert ran.code == 0, ran.err

    return convert


def run_flink(folder: Path, task_managers: int) -> Iterator[list[str]]:
    """Flags of a cluster of this module alone, with four slots."""
    with flink.flink_cluster(folder, task_managers=task_managers, slots=4 // task_managers) as cluster:
        yield ["--runner=FlinkRunner", f"--flink_master={cluster.master}"]


@pytest.fixture(scope="module")
def flink_2(tmp_path_factory) -> Iterator[list[str]]:
    yield from run_flink(tmp_path_factory.mktemp("flink"), task_managers=2)


@pytest.fixture(scope="module")
def flink_4(tmp_path_factory) -> Iterator[list[str]]:
    yield from run_flink(tmp_path_factory.mktemp("flink"), task_managers=4)


@pytest.fixture(scope="module")
def spark() -> list[str]:
    return ["--runner=SparkRunner", "--spark_master_url=local[2]"]


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_every_source_gives_the_bytes_of_a_local_build(request, tmp_path, convert_on_both, cluster, form):
    flags = flags_of(WRITERS[form].make(tmp_path / "in"))
    convert_on_both(request.getfixturevalue(cluster), tmp_path, *flags)
    assert hashes(tmp_path / "cluster") == hashes(tmp_path / "local")


@pytest.mark.parametrize("cluster", ["flink_4", "spark"])
def test_all_stages_give_the_bytes_of_a_local_build(request, photos, tmp_path, convert_on_both, cluster):
    shutil.copytree(photos, tmp_path / "in")
    for path in sorted((tmp_path / "in").rglob("*_0?.jpg"))[:5]:
        shutil.copy(path, path.with_name(f"copy_of_{path.name}"))
    words = ["--splits=train=0.8,validation=0.2", "--duplicates=drop", "--near_duplicates=4", "--num_shards=3"]
    convert_on_both(request.getfixturevalue(cluster), tmp_path, f"--input={tmp_path / 'in'}", *words)
    assert hashes(tmp_path / "cluster") == hashes(tmp_path / "local")
    found = [(tmp_path / name / "duplicates.jsonl").read_bytes() for name in ("cluster", "local")]
    assert found[0] == found[1]


def test_the_workers_of_a_cluster_fetch_images_of_the_web(photos, tmp_path, convert_on_both, flink_2):
    files = {path.name: path.read_bytes() for path in photos.glob("*/*_01.jpg")}
    with web_server(files) as server:
        rows = (f"{server.url}/plain/{name},{name.split('_')[0]}\n" for name in files)
        (tmp_path / "urls.csv").write_text("".join(["url,label\n", *rows]))
        convert_on_both(flink_2, tmp_path, f"--input={tmp_path / 'urls.csv'}", "--allow_private_addresses")
    assert hashes(tmp_path / "cluster") == hashes(tmp_path / "local")


def test_the_workers_of_a_cluster_list_a_large_folder(
    photos, tmp_path, convert_on_both, flink_2, monkeypatch, count_parts
):
    counts = count_parts()
    monkeypatch.setattr(local, "_LEAST_PART", 4)
    convert_on_both(flink_2, tmp_path / "here", f"--input={photos}")
    monkeypatch.setattr(image_folder, "MOST_LISTED_HERE", 5)
    convert_on_both(flink_2, tmp_path / "there", f"--input={photos}")
    assert counts == [14, 14]
    assert hashes(tmp_path / "there/local") == hashes(tmp_path / "here/local")
    assert hashes(tmp_path / "there/cluster") == hashes(tmp_path / "here/cluster")
