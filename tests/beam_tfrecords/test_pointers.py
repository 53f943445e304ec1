"""LATEST and PINNED in a store, and the removal of a version there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords import storage
from beam_tfrecords.dataset.dataset import open_whole
from beam_tfrecords.dataset.pointers import find_latest_damage, pin, point_to, read_pinned, unpin
from beam_tfrecords.dataset.published import read_latest
from beam_tfrecords.dataset.versions import State, find_newest, list_versions, remove
from beam_tfrecords.errors import BuildError, RequestError
from tests.core.storage.dictionary_files import DictionaryFiles
from tests.refusals import refuses
from tests.version_folders import finish, put_version

VERSIONS = ("20260101T000000Z", "20260102T000000Z", "20260103T000000Z")
STAGING = "dictionary://a/nightly/.build"


@pytest.fixture
def root(monkeypatch) -> str:
    """A folder with three versions in a store, the newest not finished."""
    monkeypatch.setattr(DictionaryFiles, "files", {}, raising=False)
    monkeypatch.setattr(DictionaryFiles, "calls", [], raising=False)
    root = "dictionary://a/nightly"
    for name in VERSIONS:
        put_version(root, name, is_finished=name != VERSIONS[2])
    return root


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
    with refuses("damaged_dataset", says=[f"is {VERSIONS[1]}"]):
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


def files_of(root: str, name: str) -> list[str]:
    return sorted(entry.path for entry in storage.list_files(f"{root}/{name}", literal=True))


def test_what_does_not_name_itself_is_no_version(root):
    point_to(root, VERSIONS[1], staging=STAGING)
    copies = ["20200101T000000Z", "20990101T000000Z"]
    for copy in copies:
        put_version(root, copy, own=VERSIONS[0])
    states = {version.name: version.state for version in list_versions(root)}
    assert [name for name, state in states.items() if state is State.FOREIGN] == copies
    assert find_newest(root) == VERSIONS[1]
    with refuses("foreign_version", says=[f"is {VERSIONS[1]}"]):
        pin(root, "20990101T000000Z", staging=STAGING)
    assert (read_latest(root), read_pinned(root)) == (VERSIONS[1], None)


def test_a_copy_that_latest_names_keeps_no_version_from_being_published(root):
    put_version(root, "20990101T000000Z", own=VERSIONS[0])
    storage.write_bytes(f"{root}/LATEST", b"20990101T000000Z")
    assert point_to(root, VERSIONS[1], staging=STAGING) == VERSIONS[1]


@given(st.data())
def test_latest_names_whole_versions_only_whatever_is_lost(data):
    """Files of any version are lost or cut before it is pinned, while it is pinned, and before LATEST goes back."""
    root = "dictionary://a/nightly"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DictionaryFiles, "files", {}, raising=False)
        patch.setattr(DictionaryFiles, "calls", [], raising=False)
        for name in VERSIONS:
            put_version(root, name)
        point_to(root, VERSIONS[2], staging=STAGING)
        pinned = data.draw(st.sampled_from(VERSIONS))
        for name in data.draw(st.lists(st.sampled_from(VERSIONS), max_size=3)):
            if files := files_of(root, name):
                hurt(data.draw(st.sampled_from(files)), is_cut=data.draw(st.booleans()))
        if open_whole(f"{root}/{pinned}")[0] is None:
            with pytest.raises(RequestError) as refused:
                pin(root, pinned, staging=STAGING)
            # Without its manifest it does not name itself, and without _SUCCESS it is not finished.
            assert refused.value.code in ("damaged_dataset", "foreign_version", "no_dataset")
            assert read_pinned(root) is None
        else:
            pin(root, pinned, staging=STAGING)
            assert (read_latest(root), find_latest_damage(root)) == (pinned, None)
            hurt(data.draw(st.sampled_from(files_of(root, pinned))), is_cut=data.draw(st.booleans()))
            if open_whole(f"{root}/{pinned}")[0] is None:
                put_version(root, "20260104T000000Z")
                with pytest.raises(BuildError, match=f"PINNED names {pinned}, which is .*--unpin"):
                    point_to(root, "20260104T000000Z", staging=STAGING)
        whole = [version.name for version in list_versions(root) if open_whole(f"{root}/{version.name}")[0]]
        unpin(root, staging=STAGING)
        assert find_newest(root) == (whole[-1] if whole else None)
        assert not whole or read_latest(root) == whole[-1]
        assert (find_latest_damage(root) is None) == bool(whole)


def hurt(path: str, *, is_cut: bool) -> None:
    """Deletes a file, or cuts it in half."""
    data = storage.read_bytes(path)
    if is_cut:
        storage.write_bytes(path, data[: len(data) // 2])
    else:
        storage.delete_files([path])


def test_a_version_that_is_pinned_while_its_removal_begins_stays_whole(root, monkeypatch):
    """Whoever comes second sees what the other has written."""
    point_to(root, VERSIONS[1], staging=STAGING)
    write = storage.write_bytes
    before = files_of(root, VERSIONS[0])

    def write_bytes(path: str, data: bytes, **named) -> None:
        if path.endswith("/_REMOVED"):
            pin(root, VERSIONS[0], staging=STAGING)
        write(path, data, **named)

    monkeypatch.setattr(storage, "write_bytes", write_bytes)
    assert not remove(root, VERSIONS[0])
    assert (read_latest(root), files_of(root, VERSIONS[0])) == (VERSIONS[0], before)


def test_a_version_whose_removal_has_begun_is_not_pinned(root, monkeypatch):
    point_to(root, VERSIONS[1], staging=STAGING)
    write_new = storage.write_new

    def write(path: str, data: bytes) -> bool:
        if path.endswith("/PINNED"):
            remove(root, VERSIONS[0])
        return write_new(path, data)

    monkeypatch.setattr(storage, "write_new", write)
    with refuses("no_dataset"):
        pin(root, VERSIONS[0], staging=STAGING)
    assert (read_latest(root), read_pinned(root)) == (VERSIONS[1], None)
