"""LATEST and PINNED in a store, and the removal of a version there."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_tfrecords import storage
from beam_tfrecords.dataset import find_newest, read_latest
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.versions import pin, point_to, read_pinned, remove, unpin
from tests.beam_tfrecords.storage.test_beam_files import DictionaryFiles

DATASET = Path(__file__).parents[1] / "data/dataset_0_1_0"
VERSIONS = ("20260101T000000Z", "20260102T000000Z", "20260103T000000Z")
STAGING = "dictionary://a/nightly/.build"


@pytest.fixture
def root(monkeypatch) -> str:
    """A folder with three versions in a store, the newest not finished."""
    monkeypatch.setattr(DictionaryFiles, "files", {}, raising=False)
    monkeypatch.setattr(DictionaryFiles, "calls", [], raising=False)
    root = "dictionary://a/nightly"
    for name in VERSIONS:
        for file in ("manifest.json", "_SUCCESS"):
            if (name, file) != (VERSIONS[2], "_SUCCESS"):
                storage.write_bytes(f"{root}/{name}/{file}", (DATASET / file).read_bytes())
    return root


def finish(root: str, name: str) -> None:
    storage.write_bytes(f"{root}/{name}/_SUCCESS", (DATASET / "_SUCCESS").read_bytes())


def test_a_pin_holds_latest_while_versions_are_published(root):
    assert point_to(root, VERSIONS[1], staging=STAGING) == VERSIONS[1]
    pin(root, VERSIONS[0], staging=STAGING)
    assert (read_latest(root), read_pinned(root)) == (VERSIONS[0], VERSIONS[0])
    finish(root, VERSIONS[2])
    assert point_to(root, VERSIONS[2], staging=STAGING) == VERSIONS[0]
    assert read_latest(root) == VERSIONS[0]
    pin(root, VERSIONS[1], staging=STAGING)
    assert read_latest(root) == VERSIONS[1]
    assert unpin(root, staging=STAGING) == VERSIONS[2]
    assert (read_latest(root), read_pinned(root)) == (VERSIONS[2], None)


def test_a_version_that_is_not_finished_is_not_pinned(root):
    with pytest.raises(RequestError, match=f"the newest whole version is {VERSIONS[1]}"):
        pin(root, VERSIONS[2], staging=STAGING)
    assert read_pinned(root) is None


def test_a_damaged_pin_holds_latest_where_it_is(root):
    point_to(root, VERSIONS[0], staging=STAGING)
    storage.write_bytes(f"{root}/PINNED", b"")
    with pytest.raises(BuildError, match="PINNED names no version"):
        point_to(root, VERSIONS[1], staging=STAGING)
    assert read_latest(root) == VERSIONS[0]


def test_a_pin_that_comes_while_latest_is_written_holds(root, monkeypatch):
    """The version is pinned after the build has looked whether one is."""
    point_to(root, VERSIONS[0], staging=STAGING)
    pins = iter([VERSIONS[0]])
    write_latest = storage.replace

    def replace(path: str, data: bytes, *, version: str) -> bool:
        for name in pins:
            pin(root, name, staging=STAGING)
        return write_latest(path, data, version=version)

    monkeypatch.setattr(storage, "replace", replace)
    assert point_to(root, VERSIONS[1], staging=STAGING) == VERSIONS[0]
    assert read_latest(root) == VERSIONS[0]


def test_a_removal_deletes_what_the_manifest_names_and_no_other_file(root):
    for file in ("notes.txt", "index/notes.txt"):
        storage.write_bytes(f"{root}/{VERSIONS[0]}/{file}", b"theirs")
    remove(root, VERSIONS[0])
    left = [entry.path for entry in storage.list_files(f"{root}/{VERSIONS[0]}", literal=True)]
    assert sorted(left) == [f"{root}/{VERSIONS[0]}/{file}" for file in ("index/notes.txt", "notes.txt")]
    assert find_newest(root) == VERSIONS[1]
