"""Every source on a Flink cluster: the same bytes as locally."""

from __future__ import annotations

import pytest

from beam_tfrecords.storage import local
from beam_tfrecords.transforms.sources.folders import image_folder
from tests.integration.cluster_builds import hashes
from tests.integration.servers import flink
from tests.source_forms import FORMS, flags_of, write_form
from tests.web_server import web_server

# They are listed by the same functions as others.
LISTED_ALIKE = {
    *("folder", "csv", "tar", "parquet", "tfrecord", "tfrecord_pixels", "npy", "cifar"),
    *("parquet_objects", "webdataset_objects", "hf_folder_objects", "parquet_masks", "tfrecord_masks"),
}


# Of this module alone: every job leaves classes in the memory of the cluster, which is full after some thirty.
@pytest.fixture(scope="module")
def convert_on_both(tmp_path_factory, run):
    """Runs a request here and on Flink, into folders of these names."""
    with flink.flink_cluster(tmp_path_factory.mktemp("flink"), slots=2) as cluster:

        def convert(folder, *words: str) -> None:
            on_flink = ["--runner=FlinkRunner", f"--flink_master={cluster.master}"]
            for name, more in ("local", []), ("flink", on_flink):
                ran = run("convert", f"--output={folder / name}", "--name=photos", "--image_size=32", *words, *more)
                assert ran.code == 0, ran.err

        yield convert


@pytest.mark.parametrize("form", sorted(FORMS.keys() - LISTED_ALIKE))
def test_every_source_gives_the_bytes_of_a_local_build(tmp_path, convert_on_both, form):
    write_form(form, tmp_path / "in")
    convert_on_both(tmp_path, *flags_of(form, tmp_path / "in"))
    assert hashes(tmp_path / "flink") == hashes(tmp_path / "local")


def test_the_workers_of_a_cluster_fetch_images_of_the_web(photos, tmp_path, convert_on_both):
    files = {path.name: path.read_bytes() for path in photos.glob("*/*_01.jpg")}
    with web_server(files) as server:
        rows = (f"{server.url}/plain/{name},{name.split('_')[0]}\n" for name in files)
        (tmp_path / "urls.csv").write_text("".join(["url,label\n", *rows]))
        convert_on_both(tmp_path, f"--input={tmp_path / 'urls.csv'}", "--allow_private_addresses")
    assert hashes(tmp_path / "flink") == hashes(tmp_path / "local")


def test_the_workers_of_a_cluster_list_a_large_folder(photos, tmp_path, convert_on_both, monkeypatch, count_parts):
    counts = count_parts()
    monkeypatch.setattr(local, "_LEAST_PART", 4)
    convert_on_both(tmp_path / "here", f"--input={photos}")
    monkeypatch.setattr(image_folder, "MOST_LISTED_HERE", 5)
    convert_on_both(tmp_path / "there", f"--input={photos}")
    assert counts == [14, 14]
    assert hashes(tmp_path / "there/local") == hashes(tmp_path / "here/local")
    assert hashes(tmp_path / "there/flink") == hashes(tmp_path / "here/flink")
