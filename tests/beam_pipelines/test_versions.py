"""`--versioned`: what a folder of versions holds, what readers get, what is removed, and whose the rest is."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tarfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from beam_tfrecords import open_dataset
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.beam_pipelines.version_builds import CLASSES, Source
from tests.pictures import picture as picture_of
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow
KEEP = ("--keep_versions=1", "--grace=0s")


@pytest.fixture
def source(source_of) -> Source:
    return source_of(12)


@pytest.fixture
def night(source) -> Callable[..., Path]:
    """Changes a picture and builds the next version; returns its folder."""
    numbers = iter(range(100, 200))

    def build(*words: str) -> Path:
        source.put("cat/000.png", next(numbers))
        ran = source.build("--no_report", *words)
        assert ran.code == 0, ran.err
        return source.latest

    return build


def copy(version: Path, name: str) -> Path:
    return Path(shutil.copytree(version, version.with_name(name)))


def test_readers_follow_latest_and_an_older_version_is_read_by_its_path(source, night, verify, run):
    first = night()
    assert source.changes["compared_with"] is None
    assert "nothing to compare" in source.changes["note"]
    second = night()
    assert source.versions == [first.name, second.name]
    assert open_dataset(source.output).path == str(second)
    assert sum(len(list(load(source.output, split))) for split in ("train", "test")) == 12
    assert run("inspect", f"--dataset={source.output}").code == 0
    assert open_dataset(first).path == str(first)
    assert verify(source.output).code == verify(first).code == 0
    sizes = manifest_of(second)["sizes"]
    assert sizes == {name: (second / name).stat().st_size for name in sizes}


def test_versions_and_datasets_without_versions_do_not_mix(source, build):
    plain = build(source.output.with_name("plain"), f"--input={source.folder}")
    ran = source.convert(f"--input={source.folder}", f"--output={plain}", "--versioned")
    ran.refused("output_not_versioned", "output")
    assert source.build().code == 0
    ran = source.convert(f"--input={source.folder}", f"--output={source.output}", "--overwrite")
    ran.refused("output_versioned", "output", "versioned")
    other = dataclasses.replace(source, output=source.output.with_name("other"))
    other.output.mkdir()
    (other.output / "LATEST").write_text("v12\n")
    other.build().refused("invalid_latest", "output")
    assert (other.output / "LATEST").read_text() == "v12\n"


# What is removed.


def test_the_newest_versions_stay_and_older_ones_go_after_the_grace_time(source, night):
    names = [night("--keep_versions=3").name for _ in range(4)]
    assert source.versions == names  # all were replaced a moment ago
    time.sleep(1.1)
    fifth = night("--keep_versions=3", "--grace=1s")
    assert source.versions == [*names[2:], fifth.name]
    (source.output / "LATEST").write_text(f"{names[2]}\n")  # somebody went back
    source.put("cat/000.png", 1)
    ran = source.build(*KEEP)
    assert source.versions == [source.latest.name]
    assert [f"removed: version {name}" in ran.out for name in (*names[2:], fifth.name)] == [True] * 3


@pytest.mark.parametrize("is_registered", [True, False])
def test_what_a_dead_build_left_is_removed_and_what_no_build_has_begun_stays(source, night, is_registered):
    left = copy(night(), "20200101T000000Z")
    for file in ("_SUCCESS", "manifest.json"):  # with a manifest it may be a version that is damaged, and stays
        (left / file).unlink()
    if is_registered:
        (source.output / ".build").mkdir()
        (source.output / f".build/version-{left.name}").touch()
    night()
    assert left.exists() == (not is_registered)
    assert not (source.output / ".build").exists()


def test_a_version_that_a_build_left_unfinished_is_removed_by_another_build(source, night):
    night()
    for path in sorted(source.folder.rglob("*.png"))[:8]:
        path.unlink()
    assert source.build().code == 3
    (name,) = (path.read_text() for path in source.output.glob(".build/*/version"))
    left = source.output / name
    left.mkdir()
    (left / "pets-train.tfrecord-00000-of-00001").touch()
    (left / "notes.txt").touch()
    night("--accept=all")
    assert [path.name for path in left.iterdir()] == ["notes.txt"]
    assert not (source.output / ".build").exists()


def test_what_an_attempt_has_composed_before_it_died_does_not_stay(source, night):
    night()
    for path in sorted(source.folder.rglob("*.png"))[::2]:
        path.unlink()
    assert source.build().code == 3
    (name,) = (path.read_text() for path in source.output.glob(".build/*/version"))
    # Other shards than those that this attempt makes, as with another rule for duplicates.
    left = source.output / name / "pets-train.tfrecord-00007-of-00009"
    left.parent.mkdir()
    left.touch()
    assert source.build("--accept=all").code == 0
    assert (source.latest.name, left.exists()) == (name, False)


@pytest.mark.parametrize("mark", ["_REMOVED", None])
def test_what_is_left_of_a_removed_version_goes_and_a_version_that_lost_its_success_stays(source, night, run, mark):
    old = copy(night(), "20200101T000000Z")
    (old / "_SUCCESS").unlink()
    if mark:
        (old / mark).touch()
    assert ("damaged" in run("status", f"--output={source.output}").out) is (mark is None)
    last = night(*KEEP)
    assert source.versions == [*([] if mark else [old.name]), last.name]


# What is of users.


def test_what_users_put_beside_versions_stays_whatever_its_name(source, night, snapshot, tmp_path, run):
    out = source.output
    first, second, third, fourth = (night() for _ in range(4))
    names = [str(path.relative_to(fourth)) for path in fourth.rglob("*") if path.is_file()]
    (fourth / "_REMOVED").write_text(json.dumps({"version": fourth.name, "files": names}))  # a removal is interrupted
    theirs = [copy(fourth, "20230101T000000Z"), copy(fourth, "20240101T000000Z")]
    (theirs[0] / "_SUCCESS").unlink()
    renamed = second.rename(out / "20210101T000000Z")
    theirs += [copy(third, "20200101T000000Z"), copy(third, "20990101T000000Z"), renamed]
    other, day = out / "20220101T000000Z", out / "20261122T030000Z"
    for path in (other / "_SUCCESS", other / "part-00000.parquet", day / "cat/1.png"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    archive = tmp_path / "archive"
    shutil.move(first, archive)
    first.symlink_to(archive)
    theirs += [other, day, archive]
    before = [snapshot(path) for path in theirs]
    for _ in range(2):
        last = night(*KEEP)
    assert [snapshot(path) for path in theirs] == before
    ours = {first.name, last.name}
    assert {*source.versions} == ours | {path.name for path in theirs[:-1]}
    found = json.loads(run("status", f"--output={out}", "--json").out)
    assert {version["name"] for version in found["versions"]} == ours
    assert {*found["not_versions"]} >= {path.name for path in theirs[1:5]}
    assert "not a version of this dataset" in run("status", f"--output={out}").out
    assert last.name < "2099"
    # A version that gets its name back is one again.
    renamed.rename(second)
    night(*KEEP)
    assert not second.exists()


def test_a_removal_leaves_files_of_others_and_what_links_lead_to(source, night, tmp_path):
    first = night()
    (first / "notes.txt").write_text("theirs")
    shutil.move(first / "index", tmp_path / "index")
    (first / "index").symlink_to(tmp_path / "index")
    indices = sorted((tmp_path / "index").iterdir())
    for _ in range(2):
        night(*KEEP)
    assert sorted(path.name for path in first.iterdir()) == ["index", "notes.txt"]
    assert sorted((tmp_path / "index").iterdir()) == indices


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


@pytest.mark.nightly
def test_a_reader_sees_whole_versions_while_ten_are_published_and_old_ones_removed(source):
    """Each version has one color in all its images, so a mixture would show."""
    colors = ("red", "green", "blue", "yellow", "cyan", "magenta")

    def build(number: int) -> None:
        for at in range(12):
            data = picture_of(f"{colors[number % 6]} 40x30")
            (source.folder / f"{CLASSES[at % 3]}/{at:03d}.png").write_bytes(data)
        assert source.build("--image_encoding=png", "--keep_versions=2", "--grace=5s", "--guard=off").code == 0

    seen: list[set[bytes]] = []
    errors: list[Exception] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            try:
                records = load(source.output, "train").as_numpy_iterator()
                seen.append({record["image"].tobytes() for record in records})
            except Exception as error:
                errors.append(error)

    build(0)
    reader = threading.Thread(target=read)
    reader.start()
    for version in range(1, 11):
        build(version)
    while len(source.versions) > version:  # nothing is older than the grace time yet
        version += 1
        build(version)
    done.set()
    reader.join()
    assert not errors
    assert len(seen) > 10
    assert all(len(one) == 1 for one in seen)
    assert len(set.union(*seen)) > 3
