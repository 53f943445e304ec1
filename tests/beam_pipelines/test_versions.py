"""`--versioned`: what a folder of versions holds, what readers get, what is removed, and what is refused."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tarfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from beam_tfrecords import open_dataset
from beam_tfrecords.dataset.versions import new_version
from beam_tfrecords.transforms.workspace.build_folder import Workspace
from tests.beam_pipelines.version_builds import CLASSES, Source, make_source
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def source(tmp_path, picture, save, convert) -> Source:
    return make_source(tmp_path, 30, picture=picture, save=save, convert=convert)


def touch(source: Source, number: int) -> None:
    path = source.folder / f"{CLASSES[number % 3]}/{number:03d}.png"
    os.utime(path, (number + 1, number + 1))


def test_readers_follow_latest(source, verify, run):
    assert source.build().code == 0
    first = source.latest
    touch(source, 0)
    assert source.build().code == 0
    assert source.versions == [first.name, source.latest.name]
    assert open_dataset(source.output).path == str(source.latest)
    assert len(list(load(source.output, "train"))) + len(list(load(source.output, "test"))) == 30
    assert verify(source.output).code == 0
    assert run("inspect", f"--dataset={source.output}").code == 0
    # An older one is read by its own path.
    assert open_dataset(first).path == str(first)
    assert verify(first).code == 0


def test_the_first_version_has_nothing_to_compare_with(source):
    assert source.build().code == 0
    assert source.changes["compared_with"] is None
    assert "nothing to compare" in source.changes["note"]


def test_old_versions_go_after_the_grace_time_only(source):
    for number in range(4):
        touch(source, number)
        assert source.build("--keep_versions=2").code == 0
    assert len(source.versions) == 4  # all were replaced a moment ago
    touch(source, 4)
    time.sleep(1.1)
    kept = source.versions[-1]
    assert source.build("--keep_versions=2", "--grace=1s").code == 0
    assert source.versions == [kept, source.latest.name]


def test_the_version_that_latest_names_stays(source):
    assert source.build().code == 0
    first = source.latest.name
    touch(source, 1)
    assert source.build().code == 0
    (source.output / "LATEST").write_text(first + "\n")  # somebody went back
    touch(source, 2)
    assert source.build("--keep_versions=1", "--grace=0s").code == 0
    assert first not in source.versions  # LATEST names the newest again, and nothing else was kept


@pytest.mark.parametrize("is_registered", [True, False])
def test_what_a_dead_build_left_is_removed_and_what_no_build_has_begun_stays(source, is_registered):
    assert source.build().code == 0
    left = source.output / "20200101T000000Z"
    shutil.copytree(source.latest, left)
    for file in ("_SUCCESS", "manifest.json"):  # with a manifest it may be a version that is damaged, and stays
        (left / file).unlink()
    if is_registered:
        Path(Workspace(str(source.output)).version(left.name)).parent.mkdir()
        Path(Workspace(str(source.output)).version(left.name)).touch()
    touch(source, 3)
    assert source.build().code == 0
    assert left.exists() == (not is_registered)
    assert not (source.output / ".build").exists()


@pytest.mark.parametrize("checkpoint", ["_REMOVED", None])
def test_what_is_left_of_a_removed_version_goes_and_a_version_that_lost_its_success_stays(source, run, checkpoint):
    assert source.build().code == 0
    old = source.output / "20200101T000000Z"
    shutil.copytree(source.latest, old)
    (old / "_SUCCESS").unlink()
    if checkpoint:
        (old / checkpoint).touch()
    found = run("status", f"--output={source.output}")
    assert ("damaged" in found.out) is (checkpoint is None)
    touch(source, 3)
    assert source.build("--keep_versions=1", "--grace=0s").code == 0
    assert source.versions == [*([] if checkpoint else [old.name]), source.latest.name]


def test_versions_and_datasets_without_versions_do_not_mix(source, build):
    plain = build(source.output.with_name("plain"), f"--input={source.folder}")
    ran = source.convert(f"--input={source.folder}", f"--output={plain}", "--versioned")
    ran.refused("output_not_versioned", "output")
    assert source.build().code == 0
    ran = source.convert(f"--input={source.folder}", f"--output={source.output}", "--overwrite")
    ran.refused("output_versioned", "output", "versioned")
    ran = source.convert(f"--input={source.folder}", f"--output={source.output}", "--versionned")
    ran.refused("unknown_setting", "versionned", says=["--versioned?"])


@pytest.mark.nightly
def test_a_reader_sees_whole_versions_while_ten_are_published_and_old_ones_removed(source, picture, save):
    """Each version has one color in all its images, so a mixture would show."""

    def build(color: int) -> None:
        for number in range(30):
            pixels = np.full((30, 40, 3), color, np.uint8)
            save(source.folder / f"{CLASSES[number % 3]}/{number:03d}.png", pixels)
        flags = ("--image_encoding=png", "--keep_versions=2", "--grace=5s", "--guard=off")
        assert source.build(*flags).code == 0

    seen: list[set[int]] = []
    errors: list[Exception] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            try:
                records = load(source.output, "train").as_numpy_iterator()
                seen.append({int(record["image"].max()) for record in records})
            except Exception as error:
                errors.append(error)

    build(0)
    reader = threading.Thread(target=read)
    reader.start()
    for version in range(1, 11):
        build(20 * version)
    while len(source.versions) > version:  # nothing is older than the grace time yet
        version += 1
        build(20 * version % 256)
    done.set()
    reader.join()
    assert not errors
    assert len(seen) > 10
    assert all(len(colors) == 1 for colors in seen)
    assert len(set.union(*seen)) > 5


def test_what_an_attempt_has_composed_before_it_died_does_not_stay(source):
    assert source.build().code == 0
    for path in sorted(source.folder.rglob("*.png"))[::2]:
        path.unlink()
    assert source.build().code == 3
    (name,) = (path.read_text() for path in source.output.glob(".build/*/version"))
    # Other shards than those that this attempt makes, as with another rule for duplicates.
    left = source.output / name / "pets-train.tfrecord-00007-of-00009"
    left.parent.mkdir()
    left.touch()
    assert source.build("--accept=all").code == 0
    assert source.latest.name == name
    assert not left.exists()


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], "20261122T030000Z"),
        (["20261121T030000Z"], "20261122T030000Z"),
        (["20261122T030000Z"], "20261122T030001Z"),
        (["20261122T235958Z", "20261122T235959Z"], "20261123T000000Z"),  # by a machine whose clock is ahead
        (["20269999T999999Z"], "20261122T030000Z"),
        (["99991231T235959Z"], "20261122T030000Z"),
    ],
)
def test_a_new_version_is_newer_than_those_that_are_there(tmp_path, names, expected):
    assert new_version(str(tmp_path), 1795316400.0, names=names) == expected


def test_a_new_version_has_a_name_of_its_own(tmp_path):
    for name in ("20261122T030000Z", "20261122T030001Z", "20990101T000000Z", "notes"):
        (tmp_path / name).mkdir()
    assert new_version(str(tmp_path), 1795316400.0, names=[]) == "20261122T030002Z"


@pytest.mark.parametrize("form", ["folder", "tar", "content"])
@pytest.mark.parametrize("move", [shutil.copytree, shutil.move])
def test_versions_that_lie_elsewhere_are_the_same(source, tmp_path, form, move):
    words = ["--fingerprint=content"] if form == "content" else []
    if form == "tar":
        with tarfile.open(tmp_path / "in.tar", "w") as archive:
            archive.add(source.folder, "in")
        source = dataclasses.replace(source, folder=tmp_path / "in.tar")
    assert source.build(*words).code == 0
    elsewhere = dataclasses.replace(source, output=tmp_path / "disk/elsewhere")
    elsewhere.output.parent.mkdir()
    move(source.output, elsewhere.output)
    before = elsewhere.versions
    # Where records are reused from is no part of a dataset either.
    for more in ([], [f"--reuse={elsewhere.output}"]):
        ran = elsewhere.build(*words, *more)
        assert (ran.code, "nothing has changed since dataset: " in ran.out) == (0, True), ran.out
        assert elsewhere.versions == before
    assert elsewhere.build(*words, "--seed=7", "--guard=off").code == 0
    assert len(elsewhere.versions) == 2
