"""`status --pin` and `--unpin`: LATEST goes back to a version and stays there while builds go on."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from beam_tfrecords import BuildError, open_dataset
from tests.beam_pipelines.version_builds import Source
from tests.refusals import refuses
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def source(source_of) -> Source:
    return source_of(12)


@pytest.fixture
def status(run, source):
    return lambda *words: run("status", f"--output={source.output}", *words)


@pytest.fixture
def night(source):
    """Changes a picture and builds the next version; returns how the build ended."""
    numbers = iter(range(100, 200))

    def build(*words: str):
        source.put("cat/000.png", next(numbers))
        ran = source.build("--no_report", *words)
        assert ran.code == 0, ran.err
        return ran

    return build


def test_latest_stays_at_a_pinned_version_until_it_is_unpinned(source, night, status, tmp_path):
    night()
    first = source.latest.name
    night()
    assert source.latest.name != first
    assert status(f"--pin={first}").code == 0
    assert source.latest.name == first
    summary = tmp_path / "run.json"
    ran = night(f"--json_summary={summary}")
    assert source.latest.name == first
    assert f"published, but LATEST stays at {first}, which is pinned" in ran.out
    assert json.loads(summary.read_text())["pinned"] == first
    newest = source.versions[-1]
    assert json.loads(summary.read_text())["dataset"].endswith(newest)
    assert open_dataset(source.output).path.endswith(first)
    found = status()
    assert f"LATEST stays at {first} until --unpin" in found.out
    assert json.loads(status("--json").out)["pinned"] == first
    assert status("--unpin").code == 0
    assert source.latest.name == newest
    assert json.loads(status("--json").out)["pinned"] is None
    assert sorted(path.name for path in source.output.iterdir()) == sorted([*source.versions, "LATEST"])


def test_a_version_is_compared_with_the_pinned_one_and_unchanged_means_the_newest(source, night, status):
    night()
    first = source.latest.name
    night()
    status(f"--pin={first}")
    count = len(source.versions)
    ran = source.build()
    assert (ran.code, len(source.versions)) == (0, count)
    assert "nothing has changed since dataset: " in ran.out
    assert source.versions[-1] in ran.out
    assert source.latest.name == first
    night()
    changes = json.loads((source.output / source.versions[-1] / "changes.json").read_text())
    assert changes["compared_with"].endswith(first)


def test_a_pinned_version_is_not_removed_and_removed_ones_are_named(source, night, status, tmp_path):
    night()
    first = source.latest.name
    status(f"--pin={first}")
    summary = tmp_path / "run.json"
    for _ in range(3):
        kept = ["--keep_versions=1", "--grace=0s", f"--json_summary={summary}"]
        before = source.versions[-1]
        ran = night(*kept)
        removed = [] if before == first else [before]
        assert source.versions == [first, source.versions[-1]]
        assert json.loads(summary.read_text())["removed_versions"] == removed
        assert all(f"removed: version {name}" in ran.out for name in removed)
    assert json.loads(status("--json").out)["removed_versions"] == [before]
    assert f"removed: {before}" in status().out


@pytest.mark.parametrize("name", ["20200101T000000Z", "../other", "latest", ""])
def test_what_is_no_whole_version_is_not_pinned(source, night, status, name):
    night()
    before = source.latest
    ran = status(f"--pin={name}")
    ran.refused("no_dataset")
    assert source.latest == before
    assert not (source.output / "PINNED").exists()


def test_a_damaged_version_is_not_pinned(source, night, status):
    night()
    (source.latest / "manifest.json").write_text("{}")
    ran = status(f"--pin={source.latest.name}")
    ran.refused("damaged_dataset")


def test_a_damaged_pin_refuses_builds_and_names_what_mends_it(source, night, status):
    night()
    (source.output / "PINNED").write_text("")
    ran = source.build()
    ran.refused("invalid_pin")
    assert "PINNED names no version; " in status().out
    assert status("--unpin").code == 0
    assert source.build().code == 0


def delete(path: Path) -> None:
    path.unlink()


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("hurt", [delete, halve])
def test_a_version_that_lacks_a_file_or_a_part_of_one_is_not_read(source, night, status, hurt):
    """Whatever the file: it is not pinned, LATEST does not go back to it, and `status` fails if LATEST names it."""
    night()
    first = source.latest
    night()
    second = source.latest
    for name in (path.relative_to(second) for path in sorted(second.rglob("*")) if path.is_file()):
        path = second / name
        content = path.read_bytes()
        if hurt is halve and not content:
            continue
        assert status().code == 0
        hurt(path)
        found = status()
        assert (found.code, "damaged" in found.out) == (1, True), name
        assert f"LATEST names {second.name}, which is damaged: " in found.out
        pinned = status(f"--pin={second.name}")
        pinned.refused("damaged_dataset", says=[first.name])
        assert status("--unpin").code == 0
        assert source.latest == first
        path.write_bytes(content)
        assert status("--unpin").code == 0
        assert source.latest == second


def remove_all(version: Path) -> None:
    shutil.rmtree(version)


def remove_shards(version: Path) -> None:
    for path in version.glob("*.tfrecord-*"):
        path.unlink()


def spoil_manifest(version: Path) -> None:
    (version / "manifest.json").write_text("{}")


@pytest.mark.parametrize("hurt", [remove_all, remove_shards, spoil_manifest])
def test_a_pinned_version_that_cannot_be_read_is_an_error_that_names_the_remedy(source, night, status, hurt):
    night()
    first = source.latest
    night()
    newest = source.latest
    status(f"--pin={first.name}")
    hurt(first)
    before = sorted(source.output.iterdir())
    ran = source.build("--quiet")
    ran.refused("invalid_pin", says=[first.name, newest.name, "--unpin"])
    assert sorted(source.output.iterdir()) == before
    found = status()
    assert (found.code, f"PINNED names {first.name}, which is " in found.out) == (1, True)
    assert status("--unpin").code == 0
    assert source.latest == newest
    assert source.build("--quiet").code == 0


PINS = """
from pathlib import Path
from beam_tfrecords.beam_pipelines.commands.cli import main

def pin(sample):
    version = Path({!r})
    if not (version.parent / "PINNED").exists():
        main(["status", f"--output={{version.parent}}", f"--pin={{version.name}}"])
        for path in version.glob("*.tfrecord-*"):
            path.unlink()
    return sample
"""


def test_a_version_that_is_pinned_and_damaged_during_a_build_ends_it_with_an_error(
    source, night, status, tmp_path, monkeypatch
):
    night()
    first = source.latest
    (tmp_path / "pins.py").write_text(PINS.format(str(first)))
    monkeypatch.chdir(tmp_path)
    ran = source.build("--quiet", "--guard=off", "--map=pins:pin", "--direct_num_workers=1")
    assert (ran.code, f"PINNED names {first.name}, which is damaged: " in ran.err) == (1, True), ran.err
    assert len(source.versions) == 2
    assert source.latest == first
    assert status("--unpin").code == 0
    assert source.latest.name == source.versions[-1]


@pytest.mark.parametrize("hurt", [remove_all, remove_shards, spoil_manifest])
def test_a_warning_says_that_readers_fail_although_the_build_is_quiet(source, night, hurt):
    night()
    night()
    hurt(source.latest)
    name = source.latest.name
    ran = source.build("--quiet")
    assert (ran.code, ran.err.count("\n")) == (0, 1), ran.err
    assert f"warning: {source.output}: LATEST names {name}, which is " in ran.err
    assert open_dataset(source.output).verify() == []
    assert source.build("--quiet").err == ""


# LATEST


def damage(source: Source) -> None:
    (source.output / "LATEST").write_bytes(b"\0" * 17)


def make_folder(source: Source) -> None:
    (source.output / "LATEST").unlink()
    (source.output / "LATEST").mkdir()


@pytest.mark.parametrize("hurt", [damage, make_folder])
def test_a_damaged_latest_says_so_and_names_the_newest_whole_version(source, night, status, run, verify, hurt):
    night()
    night()
    newest = source.versions[-1]
    hurt(source)
    told = f"LATEST is damaged; the newest intact version is {newest}"
    for read in (open_dataset, lambda path: load(path, "train")):
        with pytest.raises(BuildError, match=told):
            read(source.output)
    for ran in (verify(source.output), run("inspect", f"--dataset={source.output}")):
        assert (ran.code, ran.err.count("\n"), told in ran.err) == (1, 1, True), ran.err
    assert told in status().out
    ran = source.build()
    if hurt is make_folder:
        ran.refused("not_a_file", says=["LATEST "])
        assert (status("--unpin").code, status(f"--pin={newest}").code) == (2, 2)
    else:
        assert (ran.code, source.latest.name) == (0, newest)


@pytest.mark.parametrize("content", [b"v12", None])
def test_without_a_version_nothing_is_wrong_with_latest(source, status, content):
    """A first version was not finished, and a file named LATEST is somebody's."""
    (source.output / "20261122T030000Z").mkdir(parents=True)
    (source.output / "20261122T030000Z/photo.jpg").touch()
    if content:
        (source.output / "LATEST").write_bytes(content)
    found = status()
    assert (found.code, "note" in found.out) == (0, False), found.out


@pytest.mark.parametrize("content", [b"", None])
def test_status_fails_if_latest_is_lost_and_all_versions_are_damaged(source, night, status, content):
    night()
    remove_shards(source.latest)
    (source.output / "LATEST").unlink()
    if content is not None:
        (source.output / "LATEST").write_bytes(content)
    assert (status().code, "there is no intact version" in status().out) == (1, True)


def test_unpin_mends_a_damaged_latest(source, night, status):
    night()
    damage(source)
    assert status("--unpin").code == 0
    assert source.latest.name == source.versions[-1]


# Readers of a version that is removed


def test_a_version_removed_under_a_reader_is_one_line_that_says_why(source, night):
    night()
    first = source.latest
    dataset = open_dataset(source.output)
    unread, opened = dataset.records("train"), dataset.records("train")
    opened[0]
    night("--keep_versions=1", "--grace=0s")
    assert not first.exists()
    told = f"{first}: the version was removed while it was read, .* open {source.output} again"
    with pytest.raises(BuildError, match=told):
        unread[0]
    # What is open stays readable.
    assert opened[1] is not None
    with refuses("no_dataset", "output", says=["removed"]):
        dataset.verify()
