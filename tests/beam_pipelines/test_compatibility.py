"""Datasets of all releases are read, verified, reused, merged, and followed by versions that can be resumed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from beam_tfrecords import mix, open_dataset
from beam_tfrecords.storage import sha256
from beam_tfrecords.transforms.libraries import library_versions
from tests.beam_pipelines.dataset_checks import manifest_of, shards_of
from tests.beam_pipelines.test_formats import FLAGS, PHOTOS, copy_photos, write_manifest

DATA = Path(__file__).parents[1] / "data"
# beam_tfrecords/beam_pipelines/demo/CREDITS.md says how each was made.
RELEASES = ("1_0_0",)
VERSION = "20260101T000000Z"


@pytest.fixture(params=RELEASES)
def old(request, tmp_path) -> Path:
    """A dataset of a release, made of the files in `inputs` when they were in `/data/photos`."""
    return Path(shutil.copytree(DATA / f"dataset_{request.param}", tmp_path / "old"))


@pytest.fixture
def inputs(photos, tmp_path) -> Path:
    return copy_photos(photos, tmp_path / "photos")


@pytest.fixture
def output(old, tmp_path) -> Path:
    """The dataset as a version, with the libraries of this machine."""
    write_manifest(old, {**manifest_of(old), "versions": library_versions()})
    (tmp_path / "out").mkdir()
    old.rename(tmp_path / "out" / VERSION)
    (tmp_path / "out/LATEST").write_text(f"{VERSION}\n")
    return tmp_path / "out"


def newest(output: Path) -> Path:
    return Path(open_dataset(output).path)


def test_it_is_read_and_verified(old, verify, run):
    dataset = open_dataset(old)
    assert sorted(dataset.class_names) == ["coffee", "flower", "person", "rocket"]
    found = {example["filename"] for split in dataset for example in dataset[split]}
    assert found == {f"{photo.split('/')[1]}.jpg" for photo in PHOTOS}
    assert verify(old).out == f"OK: 8 records in 2 shards of {old} verified\n"
    assert run("inspect", f"--dataset={old}", "--split=train", "--examples=1").code == 0
    assert run("report", old).code == 0


def test_the_next_version_takes_its_images(output, inputs, convert, verify):
    before = shards_of(output / VERSION)
    ran = convert(f"--input={inputs}", f"--output={output}", *FLAGS, "--versioned")
    assert ran.code == 0, ran.err
    made = manifest_of(newest(output))
    assert made["reuse"]["converted"] == 0
    assert shards_of(newest(output)) == before
    assert verify(output).code == 0
    # A guard compares the settings, which are still the same.
    assert "settings" not in ran.err


def test_the_next_version_resumes_after_a_guard(output, inputs, convert):
    words = [f"--input={inputs}", f"--output={output}", *FLAGS, "--versioned"]
    (inputs / f"{PHOTOS[0]}.jpg").unlink()
    assert convert(*words).code == 3
    assert convert(*words, "--accept=all").code == 0
    assert manifest_of(newest(output))["records"] == 7


def test_it_is_merged_with_others(old, tmp_path, convert, build):
    other = build(tmp_path / "other", f"--input={old}", "--source=tfrecord", "--layout=same")
    assert manifest_of(other)["records"] == 8
    merged = build(tmp_path / "merged", f"--input={old}", f"--input={other}", "--source=tfrecord", "--image_size=64")
    assert manifest_of(merged)["records"] == 16
    assert len(mix([(open_dataset(one)["train"], 0.5) for one in (old, other)])) >= 8


@pytest.mark.parametrize("name", ["manifest.json", "changes.json"])
def test_a_later_minor_format_and_unknown_keys_are_ignored(tmp_path, inputs, convert, verify, name):
    output = tmp_path / "out"
    words = [f"--input={inputs}", f"--output={output}", *FLAGS, "--versioned"]
    assert convert(*words).code == 0
    version = newest(output)
    values = json.loads((version / name).read_text())
    values |= {"minor": 99, "of_a_later_release": {"any": ["thing"]}}
    manifest = manifest_of(version)
    if name == "manifest.json":
        manifest = values
    else:
        (version / name).write_text(json.dumps(values))
        manifest["files"][name] = sha256(str(version / name))
        manifest["sizes"][name] = (version / name).stat().st_size
    success = json.loads((version / "_SUCCESS").read_text())
    write_manifest(version, manifest)
    published = json.loads((version / "_SUCCESS").read_text())
    (version / "_SUCCESS").write_text(json.dumps({**success, **published, "of_a_later_release": 1}))
    assert verify(output).code == 0
    (inputs / f"{PHOTOS[0]}.jpg").unlink()
    assert convert(*words, "--accept=all").code == 0


def test_a_later_major_format_of_the_changes_is_refused(tmp_path, inputs, convert, run):
    output = tmp_path / "out"
    assert convert(f"--input={inputs}", f"--output={output}", *FLAGS, "--versioned").code == 0
    version = newest(output)
    (version / "changes.json").write_text(
        json.dumps({**json.loads((version / "changes.json").read_text()), "format": 2})
    )
    ran = run("report", version)
    assert ran.code == 1
    assert "changes.json cannot be read: it has format 2, and this version of beam-tfrecords reads up to 1" in ran.err
