"""The versions in a folder: names, LATEST and PINNED in a store, and which of them a build removes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords import storage
from beam_tfrecords.dataset.dataset import open_whole
from beam_tfrecords.dataset.pointers import find_latest_damage, pin, point_to, read_pinned, unpin
from beam_tfrecords.dataset.published import read_latest
from beam_tfrecords.dataset.versions import (
    State,
    Version,
    choose_removals,
    find_newest,
    list_versions,
    new_version,
    remove,
)
from beam_tfrecords.errors import BuildError, RequestError
from tests.core.storage.dictionary_files import DictionaryFiles
from tests.core.version_folders import put_version
from tests.refusals import refuses

# Names: times, later than all that are there.


NOW = 1795316400.0


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
    assert new_version(str(tmp_path), NOW, names=names) == expected


# Which versions `--keep_versions` removes: the rule over its whole domain.


def version(
    number: int, published: float | None = 0.0, *, state: State = State.FINISHED, is_link: bool = False
) -> Version:
    return Version(f"202601{number // 24 + 1:02d}T{number % 24:02d}0000Z", state, published, is_link)


@st.composite
def folders(draw) -> tuple[list[Version], str | None, str | None]:
    """Folders in any order, of every state and age, some links, and what LATEST and PINNED name."""
    count = draw(st.integers(0, 40))
    times = st.one_of(st.none(), st.floats(0, NOW), st.floats(NOW - 100, NOW + 100))
    states = st.sampled_from([*State, State.FINISHED, State.FINISHED])
    versions = [
        version(number, draw(times), state=draw(states), is_link=draw(st.booleans())) for number in range(count)
    ]
    names = st.one_of(st.none(), st.sampled_from([*(one.name for one in versions), "20990101T000000Z"]))
    return draw(st.permutations(versions)), draw(names), draw(names)


@given(folders(), st.integers(0, 40), st.sampled_from([0.0, 50.0, 3600.0]))
def test_what_is_removed_obeys_the_postconditions(folder, keep, grace):
    versions, latest, pinned = folder
    removed = choose_removals(versions, latest=latest, pinned=pinned, keep=keep, grace=grace, now=NOW)
    finished = sorted(one.name for one in versions if one.state is State.FINISHED)
    assert len(set(removed)) == len(removed)
    assert set(removed) <= set(finished)
    assert len(finished) - len(removed) >= min(keep, len(finished))
    assert not set(removed) & set(finished[max(0, len(finished) - keep) :])
    assert not set(removed) & {latest, pinned, *(one.name for one in versions if one.is_link)}
    times = {one.name: one.published for one in versions}
    for name in removed:
        newer = times[finished[finished.index(name) + 1]]
        assert newer is not None
        assert NOW - newer >= grace


# LATEST and PINNED in a store, and the removal of a version there.


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
