"""Datasets of other formats: those of version 0.1.0 stay usable, and newer ones are refused."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from beam_tfrecords import open_dataset
from beam_tfrecords.transforms.libraries import library_versions
from tests.beam_pipelines.dataset_checks import manifest_of, shards_of
from tests.tensorflow import load

# tests/data/CREDITS.md says how it was made.
OLD = Path(__file__).parents[1] / "data/dataset_0_1_0"
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
    return Path(shutil.copytree(OLD, tmp_path / "old"))


@pytest.fixture
def inputs(photos, tmp_path) -> Path:
    return copy_photos(photos, tmp_path / "photos")


def test_a_dataset_of_0_1_0_is_verified_by_its_sha256(old, verify):
    assert verify(old).out == f"OK: 8 records in 2 shards of {old} verified\n"
    one, other = (old / shard.file for shard in open_dataset(old).shards)
    shutil.copy(other, one)  # whole records, so that the checksum of the file tells
    ran = verify(old)
    assert ran.code == 1
    assert f"{one.name}: is not the file that was published: its SHA-256 is not the manifest's" in ran.out


def test_a_dataset_of_0_1_0_is_loaded(old):
    examples = list(load(old, "train").as_numpy_iterator())
    assert {example["filename"] for example in examples} == {
        b"coffee_04.jpg", b"flower_06.jpg", b"person_05.jpg", b"rocket_03.jpg"
    }  # fmt: skip
    assert all(min(example["image"].shape[:2]) == 64 for example in examples)


def test_a_dataset_of_0_1_0_is_inspected(old, run):
    ran = run("inspect", f"--dataset={old}", "--split=train", "--examples=1")
    assert (ran.code, ran.err) == (0, "")
    assert "0 coffee, 1 flower, 2 person, 3 rocket" in ran.out


def test_a_dataset_of_0_1_0_has_no_crc32c(old):
    shards = open_dataset(old).shards
    assert [shard.crc32c for shard in shards] == [None, None]
    assert [len(shard.sha256) for shard in shards] == [64, 64]


def write_manifest(path: Path, manifest: dict) -> None:
    """Publishes a dataset with another manifest."""
    data = json.dumps(manifest).encode()
    (path / "manifest.json").write_bytes(data)
    (path / "_SUCCESS").write_text(json.dumps({"manifest_sha256": hashlib.sha256(data).hexdigest()}))


def test_the_version_after_one_of_0_1_0_takes_its_images_over(old, inputs, tmp_path, convert, run, verify):
    manifest = manifest_of(old)
    # Other libraries, or another revision, would convert the images again.
    manifest["versions"] = library_versions()
    write_manifest(old, manifest)
    output = tmp_path / "out"
    output.mkdir()
    old.rename(output / "20260101T000000Z")
    (output / "LATEST").write_text("20260101T000000Z\n")
    found = json.loads(run("status", f"--output={output}", "--json").out)
    assert [version["records"] for version in found["versions"]] == [8]
    ran = convert(f"--input={inputs}", f"--output={output}", *FLAGS, "--versioned")
    assert ran.code == 0, ran.err
    new = Path(open_dataset(output).path)
    assert new.name != "20260101T000000Z"
    made = manifest_of(new)
    assert (made["format"], made["reuse"]["converted"]) == (2, 0)
    assert shards_of(new) == shards_of(OLD)
    rows = [row for index in (new / "index").iterdir() for row in pq.read_table(index).to_pylist()]
    assert {(row["sharpness"], row["phash"], row["stored_maximum"]) for row in rows} == {(None, None, None)}
    assert verify(output).code == 0


def test_a_newer_format_is_refused_in_one_line(old, run, verify, convert, inputs):
    write_manifest(old, {"format": 99, "versions": {}})
    for ran in (
        verify(old),
        run("inspect", f"--dataset={old}"),
        convert(f"--input={inputs}", f"--output={old}", *FLAGS, "--overwrite"),
        convert(f"--input={inputs}", f"--output={old}-2", *FLAGS, f"--reuse={old}"),
    ):
        ran.refused("newer_format", says=["format 99", "reads up to 3", "pip install --upgrade beam-tfrecords"])
        assert len(ran.err.strip().splitlines()) == 1
    assert (old / "_SUCCESS").exists()


@pytest.mark.parametrize("number", ['"2"', "null", "[]"])
def test_a_format_that_is_no_number_makes_the_manifest_unreadable(old, verify, number):
    text = (old / "manifest.json").read_text().replace("{", f'{{"format": {number},', 1)
    (old / "manifest.json").write_text(text)
    assert "manifest.json cannot be read" in verify(old).err


def test_a_manifest_of_format_2_needs_a_crc32c_of_every_shard(old, verify):
    text = (old / "manifest.json").read_text().replace("{", '{"format": 2,', 1)
    (old / "manifest.json").write_text(text)
    assert "manifest.json cannot be read: shards[0].crc32c is missing" in verify(old).err


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
