"""A finished version knows its own name: copies, renamed versions and links belong to the user."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from beam_tfrecords.dataset.dataset import open_whole
from tests.beam_pipelines.version_builds import Source, make_source

KEEP = ("--keep_versions=1", "--grace=0s", "--no_report")


@pytest.fixture
def source(tmp_path, picture, save, convert) -> Source:
    return make_source(tmp_path, 9, picture=picture, save=save, convert=convert)


@pytest.fixture
def night(source, picture, save) -> Callable:
    """Changes a picture and builds the next version; returns its folder, and what the build said on standard error."""
    numbers = iter(range(100, 200))

    def build(*words: str) -> tuple[Path, str]:
        save(source.folder / "cat/000.png", picture(next(numbers), 30, 40))
        ran = source.build(*(words or ("--no_report",)))
        assert ran.code == 0, ran.err
        return source.latest, ran.err

    return build


@pytest.fixture
def status(run, source) -> Callable:
    return lambda: json.loads(run("status", f"--output={source.output}", "--json").out)


def copy(version: Path, name: str) -> Path:
    return Path(shutil.copytree(version, version.with_name(name)))


def test_copies_and_renamed_versions_are_not_removed_and_not_counted(source, night, snapshot, status, run):
    (first, _), (second, _), (third, _) = night(), night(), night()
    theirs = [
        copy(first, "20200101T000000Z"),
        copy(third, "20990101T000000Z"),
        second.rename(source.output / "20210101T000000Z"),
    ]
    before = [snapshot(path) for path in theirs]
    fourth, _ = night("--keep_versions=2", "--grace=0s", "--no_report")
    assert [snapshot(path) for path in theirs] == before
    # Only what names itself is one of the two newest.
    assert sorted(source.versions) == sorted([third.name, fourth.name, *(path.name for path in theirs)])
    found = status()
    assert found["not_versions"] == sorted(path.name for path in theirs)
    assert [version["name"] for version in found["versions"]] == [third.name, fourth.name]
    assert run("status", f"--output={source.output}").out.count("not a version of this dataset") == 3
    assert fourth.name < "2099"


def test_a_version_that_is_moved_back_is_a_version_again(source, night):
    first, _ = night()
    night()
    away = first.rename(source.output.parent / "away")
    night(*KEEP)
    away.rename(first)
    last, _ = night(*KEEP)
    assert source.versions == [last.name]
    assert not first.exists()


def test_a_version_that_is_a_link_is_not_removed_and_not_announced(source, night, tmp_path, snapshot, status):
    first, _ = night()
    archive = tmp_path / "archive"
    shutil.move(first, archive)
    first.symlink_to(archive)
    before = snapshot(archive)
    for _ in range(2):
        last, said = night(*KEEP)
        assert (source.versions, said) == ([first.name, last.name], "")
    assert snapshot(archive) == before
    assert [version["name"] for version in status()["versions"]] == [first.name, last.name]


@pytest.mark.parametrize("lost_success", [False, True])
def test_a_copy_of_a_version_whose_removal_was_interrupted_stays(source, night, snapshot, lost_success):
    first, _ = night()
    names = [str(path.relative_to(first)) for path in first.rglob("*") if path.is_file()]
    night()
    (first / "_REMOVED").write_text(json.dumps({"version": first.name, "files": names}))
    theirs = [copy(first, "20200101T000000Z"), copy(first, "20210101T000000Z")]
    (theirs[0] / "_SUCCESS").unlink()
    if lost_success:
        (first / "_SUCCESS").unlink()
    before = [snapshot(path) for path in theirs]
    night("--keep_versions=7", "--no_report")
    assert not first.exists()
    assert [snapshot(path) for path in theirs] == before


def test_a_folder_of_another_program_with_a_success_is_no_version(source, night, snapshot, run):
    first, _ = night()
    theirs = source.output / "20200101T000000Z"
    theirs.mkdir()
    (theirs / "_SUCCESS").touch()
    (theirs / "part-00000.parquet").touch()
    shutil.copytree(first, source.output / "20210101T000000Z", ignore=shutil.ignore_patterns("_SUCCESS"))
    before = snapshot(theirs)
    shutil.rmtree(first)
    assert "20200101T000000Z is damaged" not in run("status", f"--output={source.output}").out
    night(*KEEP)
    assert snapshot(theirs) == before


def test_the_manifest_says_the_size_of_every_file(source, night):
    version, _ = night()
    dataset, _ = open_whole(str(version))
    assert dataset
    assert dataset.sizes == {name: (version / name).stat().st_size for name in dataset.files if name != "manifest.json"}
