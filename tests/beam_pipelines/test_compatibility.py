"""Datasets of all releases are read, verified, reused, merged and followed by versions; newer ones are refused."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from beam_tfrecords import mix, open_dataset
from tests.beam_pipelines.dataset_checks import manifest_of, shards_of

DATA = Path(__file__).parents[1] / "data"
# beam_tfrecords/beam_pipelines/demo/CREDITS.md says how each was made.
RELEASES = ("1_0_0",)
VERSION = "20260101T000000Z"
# Made of these, when they were in `/data/photos`.
PHOTOS = (
    "coffee/coffee_04", "coffee/coffee_06", "flower/flower_04", "flower/flower_06", "person/person_03",
    "person/person_05", "rocket/rocket_01", "rocket/rocket_03",
)  # fmt: skip
FLAGS = ["--image_size=64", "--splits=train=0.5,validation=0.5", "--image_encoding=jpeg"]


@pytest.fixture(params=RELEASES)
def old(request, tmp_path) -> Path:
    return Path(shutil.copytree(DATA / f"dataset_{request.param}", tmp_path / "old"))


@pytest.fixture
def inputs(photos, tmp_path) -> Path:
    """The photos, with their times."""
    for photo in PHOTOS:
        path = tmp_path / f"photos/{photo}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(photos / f"{photo}.jpg", path)
        os.utime(path, (1767225600, 1767225600))
    return tmp_path / "photos"


@pytest.fixture
def versions(inputs, tmp_path, convert):
    """Builds the next version of the photos."""
    return lambda *words: convert(f"--input={inputs}", f"--output={tmp_path / 'out'}", *FLAGS, "--versioned", *words)


def write_manifest(path: Path, manifest: dict[str, Any], **success: Any) -> None:
    """Publishes a dataset with another manifest."""
    data = json.dumps(manifest).encode()
    (path / "manifest.json").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    (path / "_SUCCESS").write_text(json.dumps({**success, "manifest_sha256": digest}))


def test_it_is_read_verified_and_merged_with_others(old, tmp_path, verify, run, build):
    dataset = open_dataset(old)
    assert sorted(dataset.class_names) == ["coffee", "flower", "person", "rocket"]
    found = {example["filename"] for split in dataset for example in dataset[split]}
    assert found == {f"{photo.split('/')[1]}.jpg" for photo in PHOTOS}
    assert verify(old).out == f"OK: 8 records in 2 shards of {old} verified\n"
    assert run("inspect", f"--dataset={old}", "--split=train", "--examples=1").code == run("report", old).code == 0
    other = build(tmp_path / "other", f"--input={old}", "--source=tfrecord", "--layout=same")
    assert manifest_of(other)["records"] == 8
    merged = build(tmp_path / "merged", f"--input={old}", f"--input={other}", "--source=tfrecord", "--image_size=64")
    assert manifest_of(merged)["records"] == 16
    assert len(mix([(open_dataset(one)["train"], 0.5) for one in (old, other)])) >= 8


def test_the_next_version_takes_its_images_and_resumes_after_a_guard(old, inputs, tmp_path, versions, verify, build):
    # As a version, with the libraries of this machine.
    here = manifest_of(build(tmp_path / "here", f"--input={inputs}", *FLAGS))["versions"]
    write_manifest(old, {**manifest_of(old), "versions": here})
    (tmp_path / "out").mkdir()
    first = old.rename(tmp_path / "out" / VERSION)
    (tmp_path / "out/LATEST").write_text(f"{VERSION}\n")
    ran = versions()
    assert ran.code == 0, ran.err
    newest = Path(open_dataset(tmp_path / "out").path)
    assert newest != first
    assert manifest_of(newest)["reuse"]["converted"] == 0
    assert shards_of(newest) == shards_of(first)
    assert verify(tmp_path / "out").code == 0
    # A guard compares the settings, which are still the same.
    assert "settings" not in ran.err
    (inputs / f"{PHOTOS[0]}.jpg").unlink()
    assert versions().code == 3
    assert versions("--accept=all").code == 0
    assert open_dataset(tmp_path / "out").manifest["records"] == 7


@pytest.mark.parametrize("name", ["manifest.json", "changes.json"])
def test_a_later_minor_format_and_unknown_keys_are_ignored_and_a_later_major_one_is_refused(
    tmp_path, inputs, versions, verify, run, name
):
    assert versions().code == 0
    version = Path(open_dataset(tmp_path / "out").path)
    values = json.loads((version / name).read_text()) | {"minor": 99, "of_a_later_release": {"any": ["thing"]}}
    manifest = values if name == "manifest.json" else manifest_of(version)
    if name == "changes.json":
        data = json.dumps(values).encode()
        (version / name).write_bytes(data)
        manifest["files"][name], manifest["sizes"][name] = hashlib.sha256(data).hexdigest(), len(data)
    success = json.loads((version / "_SUCCESS").read_text())
    write_manifest(version, manifest, **success, of_a_later_release=1)
    assert verify(tmp_path / "out").code == 0
    (inputs / f"{PHOTOS[0]}.jpg").unlink()
    assert versions("--accept=all").code == 0
    changes = json.loads((version / "changes.json").read_text())
    (version / "changes.json").write_text(json.dumps({**changes, "format": 2}))
    ran = run("report", version)
    assert ran.code == 1
    assert "changes.json cannot be read: it has format 2, and this version of beam-tfrecords reads up to 1" in ran.err


def test_a_newer_format_is_refused_in_one_line(old, run, verify, convert, inputs):
    write_manifest(old, {"format": 99, "versions": {}})
    for ran in (
        verify(old),
        run("inspect", f"--dataset={old}"),
        convert(f"--input={inputs}", f"--output={old}", *FLAGS, "--overwrite"),
        convert(f"--input={inputs}", f"--output={old}-2", *FLAGS, f"--reuse={old}"),
    ):
        ran.refused("newer_format", says=["format 99", "reads up to 1"])
    assert (old / "_SUCCESS").exists()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format": "2"}, "format is "),
        ({"format": None}, "format is "),
        ({"format": []}, "format is "),
        ({"format": ...}, "format is missing"),
        ({"shards": ...}, "it has neither"),
        ({"file": "../other/"}, "which is not in the dataset"),
        ({"index": "../other/"}, "which is not in the dataset"),
        ({"file": "/other/"}, "which is not in the dataset"),
        ({"index": "/other/"}, "which is not in the dataset"),
    ],
)
def test_a_manifest_of_something_else_is_unreadable(old, run, verify, changes, says):
    manifest = manifest_of(old)
    shutil.copytree(old, old.with_name("other"))
    for name, value in changes.items():
        if name in ("file", "index"):
            outside = f"{old.parent if value[0] == '/' else ''}{value}{manifest['shards'][0][name]}"
            manifest["shards"][0][name], says = outside, f"it names {outside!r}, {says}"
        elif value is ...:
            del manifest[name]
        else:
            manifest[name] = value
    write_manifest(old, manifest)
    for ran in (run("report", old), verify(old)):
        assert (ran.code, f"manifest.json cannot be read: {says}" in ran.err) == (1, True), ran.err
