"""Manifests of newer formats, and those that are not ours, are refused in one line."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from tests.beam_pipelines.dataset_checks import manifest_of

pytestmark = pytest.mark.tensorflow

# beam_tfrecords/beam_pipelines/demo/CREDITS.md says how it was made.
RELEASED = Path(__file__).parents[1] / "data/dataset_1_0_0"
PHOTOS = (
    "coffee/coffee_04", "coffee/coffee_06", "flower/flower_04", "flower/flower_06", "person/person_03",
    "person/person_05", "rocket/rocket_01", "rocket/rocket_03",
)  # fmt: skip
FLAGS = ["--image_size=64", "--splits=train=0.5,validation=0.5", "--image_encoding=jpeg"]


def copy_photos(photos: Path, folder: Path) -> Path:
    """Copies the photos that the datasets of releases were made of, with their times; returns the folder."""
    for photo in PHOTOS:
        path = folder / f"{photo}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(photos / f"{photo}.jpg", path)
        os.utime(path, (1767225600, 1767225600))
    return folder


@pytest.fixture
def old(tmp_path) -> Path:
    return Path(shutil.copytree(RELEASED, tmp_path / "old"))


@pytest.fixture
def inputs(photos, tmp_path) -> Path:
    return copy_photos(photos, tmp_path / "photos")


def write_manifest(path: Path, manifest: dict) -> None:
    """Publishes a dataset with another manifest."""
    data = json.dumps(manifest).encode()
    (path / "manifest.json").write_bytes(data)
    (path / "_SUCCESS").write_text(json.dumps({"manifest_sha256": hashlib.sha256(data).hexdigest()}))


def test_a_newer_format_is_refused_in_one_line(old, run, verify, convert, inputs):
    write_manifest(old, {"format": 99, "versions": {}})
    for ran in (
        verify(old),
        run("inspect", f"--dataset={old}"),
        convert(f"--input={inputs}", f"--output={old}", *FLAGS, "--overwrite"),
        convert(f"--input={inputs}", f"--output={old}-2", *FLAGS, f"--reuse={old}"),
    ):
        ran.refused("newer_format", says=["format 99", "reads up to 1"])
        assert len(ran.err.strip().splitlines()) == 1
    assert (old / "_SUCCESS").exists()


@pytest.mark.parametrize("number", ['"2"', "null", "[]"])
def test_a_format_that_is_no_number_makes_the_manifest_unreadable(old, verify, number):
    text = (old / "manifest.json").read_text().replace('"format": 1,', f'"format": {number},', 1)
    (old / "manifest.json").write_text(text)
    assert "manifest.json cannot be read: format is " in verify(old).err


@pytest.mark.parametrize("name", ["format", "shards"])
def test_a_manifest_without_its_format_or_shards_is_unreadable(old, verify, name):
    manifest = manifest_of(old)
    del manifest[name]
    write_manifest(old, manifest)
    assert f"manifest.json cannot be read: {'format is missing' if name == 'format' else 'it has neither'}" in (
        verify(old).err
    )


@pytest.mark.parametrize("name", ["file", "index"])
@pytest.mark.parametrize("other", ["..", ""], ids=["above", "absolute"])
def test_a_manifest_may_name_no_file_outside_of_the_dataset(old, run, name, other):
    manifest = manifest_of(old)
    shutil.copytree(old, old.with_name("other"))
    outside = f"{other or old.parent}/other/{manifest['shards'][0][name]}"
    manifest["shards"][0][name] = outside
    (old / "manifest.json").write_text(json.dumps(manifest))
    ran = run("report", old)
    assert ran.code == 1
    assert f"manifest.json cannot be read: it names {outside!r}, which is not in the dataset" in ran.err
