"""The main job from and to buckets makes the dataset that it makes on a disk, byte for byte."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from beam_tfrecords import storage
from tests.integration import buckets

pytestmark = pytest.mark.nightly

PHOTOS = (Path(__file__).parents[1] / "data" / "photos").resolve()
FLAGS = ["--name=photos", "--image_size=64", "--splits=train=0.8,validation=0.2", "--num_shards=2"]


@pytest.fixture(scope="module", autouse=True)
def both_services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Both services, with the sample photos in their buckets `photos`."""
    with buckets.services(tmp_path_factory.mktemp("services"), *buckets.SCHEMES):
        for scheme in buckets.SCHEMES:
            buckets.upload(PHOTOS, f"{scheme}://photos")
        yield


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """The content of a build from disk to disk, by its flags."""
    made: dict[tuple[str, ...], dict[str, Any]] = {}

    def content_of(*words: str) -> dict[str, Any]:
        if words not in made:
            output = str(tmp_path_factory.mktemp("disk") / "out")
            buckets.build(f"--output={output}", *words)
            made[words] = buckets.content_of(output)
        return made[words]

    return content_of


@pytest.mark.parametrize("target", ["gs", "s3", "disk"])
@pytest.mark.parametrize("source", ["gs", "s3", "disk"])
def test_a_build_has_the_content_of_one_from_disk_to_disk(on_disk, tmp_path, source, target):
    if source == target == "disk":
        pytest.skip("this is the other build")
    inputs = str(PHOTOS) if source == "disk" else f"{source}://photos"
    output = str(tmp_path / "out") if target == "disk" else f"{target}://datasets/from {source}#1"
    buckets.build(f"--input={inputs}", f"--output={output}", *FLAGS)
    assert buckets.content_of(output) == on_disk(f"--input={PHOTOS}", *FLAGS)
    buckets.verify(output)


@pytest.mark.parametrize(
    ("source", "target", "kind"),
    [("gs", "s3", "tar"), ("s3", "gs", "tar"), ("gs", "gs", "gz"), ("gs", "gs", "zip"), ("s3", "s3", "zip")],
)
def test_an_archive_in_a_bucket_has_the_content_of_one_on_a_disk(on_disk, tmp_path_factory, source, target, kind):
    path = tmp_path_factory.getbasetemp() / f"photos.{kind.replace('gz', 'tar.gz')}"
    if not path.exists():
        if kind == "zip":
            shutil.make_archive(str(path.with_suffix("")), "zip", PHOTOS)
        else:
            with tarfile.open(path, f"w:{kind.removeprefix('tar')}") as archive:
                archive.add(PHOTOS.resolve(), ".")
    storage.write_bytes(f"{source}://tables/{path.name}", path.read_bytes())
    output = f"{target}://datasets/{kind} from {source}"
    buckets.build(f"--input={source}://tables/{path.name}", f"--output={output}", *FLAGS)
    assert buckets.content_of(output) == on_disk(f"--input={path}", *FLAGS)


@pytest.mark.parametrize("images", buckets.SCHEMES)
@pytest.mark.parametrize("table", buckets.SCHEMES)
def test_a_table_in_one_bucket_names_images_in_another(on_disk, tmp_path_factory, table, images):
    path = tmp_path_factory.getbasetemp() / "labels.csv"
    names = [photo.relative_to(PHOTOS) for photo in sorted(PHOTOS.rglob("*.jpg"))]
    path.write_text("\n".join(["image,label", *(f"{name.as_posix()},{name.parent}" for name in names)]))
    storage.write_bytes(f"{table}://tables/labels.csv", path.read_bytes())
    output = f"{images}://datasets/table in {table}"
    words = [f"--input={table}://tables/labels.csv", f"--image_root={images}://photos", "--allow_outside_root"]
    buckets.build(*words, f"--output={output}", *FLAGS)
    expected = on_disk(f"--input={path}", f"--image_root={PHOTOS}", "--allow_outside_root", *FLAGS)
    assert buckets.content_of(output) == expected
    assert len(expected["failures.jsonl"]) == 0
