"""Every function of `storage` does the same on each store: here on a disk, and by a file system of Beam's.

`tests/integration/test_storage_conformance.py` runs these tests on servers of gs:// and s3://.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import operator
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import google_crc32c
import pytest

from beam_tfrecords import storage
from beam_tfrecords.dataset.pointers import point_to
from beam_tfrecords.dataset.published import read_latest
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage.lease import Lease
from tests.core.storage import dictionary_files  # noqa: F401  # Beam finds the file system
from tests.core.version_folders import put_version
from tests.each import each

MIB = 1 << 20
_NUMBERS = itertools.count()
NAMES = [
    "plain.jpg",
    "a b#c.jpg",
    " lead and trail ",
    "x[1].jpg",
    "[!a].jpg",
    "st*r.jpg",
    "wh?t",
    "q?#%20",
    "50%41.jpg",
    "100%",
    "plus+and&amp;=.jpg",
    "é/ü.jpg",
    "日本語/写真.jpg",
    "😀.jpg",
    "quote'\".jpg",
    "<tag>.jpg",
    "back\\slash.jpg",
    "tab\t.jpg",
    "~x:y@z=1;2,3!$().jpg",
    "..jpg",
    "a..b",
    "...",
]
# An object's name is no path.
OBJECT_NAMES = ["../up.jpg", "a/../b.jpg", "a//b.jpg", "./x.jpg", "a/./b.jpg", "a/..", "//lead.jpg"]
# What stores lack: objects in place of files, names that are no paths, a version of each content, one winner of several
# writers, a delete on a condition, buckets.
LACKS = {
    "local": {"objects", "any_names", "has_buckets"},
    "dictionary": {"versions", "one_winner", "has_buckets"},
    "versitygw": {"any_names", "conditional_delete"},
    "minio": {"any_names", "conditional_delete"},
}


@pytest.fixture(params=["local", "dictionary"])
def kind(request: pytest.FixtureRequest) -> str:
    """Where the files are."""
    return str(request.param)


@pytest.fixture
def root(kind: str, request: pytest.FixtureRequest) -> str:
    """An empty folder, without a slash at the end."""
    if kind == "local":
        return str(request.getfixturevalue("tmp_path"))
    return f"dictionary://bucket/{next(_NUMBERS)}"


def _needed(what: str) -> Any:
    """A fixture that skips tests of stores that lack something."""

    @pytest.fixture(name=what)
    def skip(kind: str) -> None:
        if what in LACKS.get(kind, ()):
            pytest.skip(f"{kind} has no {what}")

    return skip


objects, any_names, versions = _needed("objects"), _needed("any_names"), _needed("versions")
one_winner, conditional_delete = _needed("one_winner"), _needed("conditional_delete")
has_buckets = _needed("has_buckets")


def write(root: str, *names: str) -> None:
    for name in names:
        storage.write_bytes(f"{root}/{name}", name.encode())


def listed(root: str, below: str = "", **options: object) -> list[str]:
    entries = list(storage.list_files(root + below, **options))
    if "limit" not in options and storage.can_partition(root):
        parts = storage.partition_listing(root + below)
        in_parts = [entry for part in parts for entry in storage.list_partition(root + below, part, **options)]
        assert sorted(in_parts, key=_path) == sorted(entries, key=_path)
    assert all(entry.path.startswith(f"{root}/") for entry in entries)
    return sorted(entry.path[len(root) + 1 :] for entry in entries)


_path = operator.attrgetter("path")


def test_what_is_written_is_read(root):
    for size in (0, 1, 100_000, (9 << 20) + 1):
        data = os.urandom(size)
        storage.write_bytes(f"{root}/a/b", data)
        assert storage.read_bytes(f"{root}/a/b") == data
        assert storage.stat(f"{root}/a/b").size == size
        assert storage.sha256(f"{root}/a/b") == hashlib.sha256(data).hexdigest()


def test_any_bytes_are_written(root):
    for make in (bytes, bytearray, memoryview):
        storage.write_bytes(f"{root}/a", make(b"0123"))
        assert storage.read_bytes(f"{root}/a") == b"0123"
        storage.write_bytes(f"{root}/a", b"")


def test_a_range_is_shorter_only_at_the_end(root):
    storage.write_bytes(f"{root}/a", b"0123456789")
    storage.write_bytes(f"{root}/empty", b"")
    ranges = {(0, 10): b"0123456789", (3, 4): b"3456", (8, 4): b"89", (10, 4): b"", (12, 4): b"", (3, 0): b""}
    assert {key: storage.read_range(f"{root}/a", *key) for key in ranges} == ranges
    assert storage.read_range(f"{root}/empty", 0, 4) == b""
    assert storage.read_range(f"{root}/empty", 0, 0) == b""


def test_an_open_file_is_read_from_any_position(root):
    data = os.urandom((17 << 20) + 3)
    storage.write_bytes(f"{root}/a", data)
    with storage.open_read(f"{root}/a") as file:
        assert b"".join(map(bytes, storage.read_chunks(file))) == data
        assert file.seek(-5, os.SEEK_END) == len(data) - 5
        assert file.read() == data[-5:]
        file.seek(1000)
        assert file.read(10) == data[1000:1010]
        assert file.tell() == 1010
        assert b"".join(map(bytes, storage.read_chunks(file, limit=7))) == data[1010:1017]


def test_a_failed_block_leaves_what_was_there(root):
    def write_and_fail(path: str, size: int) -> None:
        with storage.open_write(path) as file:
            file.write(bytes(size))
            raise ValueError("stop")

    write(root, "there")
    for name, size in itertools.product(("new", "there"), (10, 9 << 20)):
        with pytest.raises(ValueError, match="stop"):
            write_and_fail(f"{root}/{name}", size)
    assert listed(root) == ["there"]
    assert storage.read_bytes(f"{root}/there") == b"there"


def test_a_file_is_there_only_when_it_is_complete(root):
    with storage.open_write(f"{root}/a") as file:
        file.write(b"0")
        assert not storage.exists(f"{root}/a")
    assert storage.exists(f"{root}/a")


def test_a_later_file_replaces_an_earlier_one(root):
    for data in (b"earlier", b"x", bytes(9 << 20), b""):
        storage.write_bytes(f"{root}/a", data)
        assert storage.read_bytes(f"{root}/a") == data
    assert listed(root) == ["a"]


@each("name", NAMES)
def test_names_are_any_characters(root, name):
    check_name(f"{root}/{next(_NUMBERS)}", name)


@pytest.mark.usefixtures("objects", "any_names")
@each("name", OBJECT_NAMES)
def test_names_of_objects_are_no_paths(root, name):
    check_name(f"{root}/{next(_NUMBERS)}", name)


def check_name(root: str, name: str) -> None:
    path = f"{root}/{name}"
    storage.write_bytes(path, name.encode())
    assert storage.exists(path)
    assert storage.is_file(path)
    assert listed(root) == [name]
    assert storage.read_bytes(path) == name.encode()
    assert storage.read_range(path, 1, 2) == name.encode()[1:3]
    (entry,) = storage.list_files(root)
    assert storage.stat(path) == entry
    with storage.open_read(path) as file:
        assert file.read() == name.encode()
    assert not storage.write_new(path, b"other")
    data, version = storage.read_state(path)
    assert storage.replace(path, data + b"!", version=version)
    _, version = storage.read_state(path)
    assert storage.delete(path, version=version)
    storage.write_bytes(path, b"")
    storage.concatenate([path, path], path + "2")
    storage.delete_files([path, path + "2"])
    assert listed(root) == []


def test_what_is_there(root):
    write(root, "folder/file")
    assert storage.exists(f"{root}/folder/file")
    assert storage.is_file(f"{root}/folder/file")
    assert storage.is_folder(f"{root}/folder")
    assert not storage.is_file(f"{root}/folder")
    assert not storage.is_folder(f"{root}/folder/file")
    assert not storage.is_folder(f"{root}/fold")
    for name in ("file", "folder/fil", "folder/file2"):
        assert not storage.exists(f"{root}/{name}")
    assert storage.have_sizes({f"{root}/folder/file": 11})
    assert not storage.have_sizes({f"{root}/folder/file": 12})
    assert not storage.have_sizes({f"{root}/folder/file": 11, f"{root}/other": 0})


READS: list[Callable[[str], object]] = [
    storage.stat,
    storage.read_bytes,
    storage.open_read,
    storage.sha256,
    lambda path: storage.read_range(path, 0, 4),
    lambda path: storage.read_range(path, 0, 0),
]


@each("read", READS, ids=["stat", "read_bytes", "open_read", "sha256", "range", "empty range"])
def test_a_missing_file_is_an_error_of_the_file(root, read):
    for place in (root, root.replace("/bucket/", "/no-bucket/")):
        with pytest.raises(OSError, match="/gone") as raised:
            read(f"{place}/gone")
        assert not storage.is_service_fault(raised.value)
        assert "\n" not in str(raised.value)


@pytest.mark.usefixtures("has_buckets")
def test_a_bucket_that_is_not_there_cannot_be_listed_or_written(root):
    missing = root.replace("/bucket/", "/no-bucket/")
    uses: list[Callable[[], object]] = [
        lambda: list(storage.list_files(missing)),
        lambda: storage.list_folders(missing),
        lambda: storage.write_bytes(f"{missing}/a", b""),
        lambda: storage.write_bytes(f"{missing}/a", bytes(9 << 20)),
        lambda: storage.write_new(f"{missing}/a", b""),
    ]
    for use in uses:
        with pytest.raises(storage.StorageError, match=r"^[^<\n]*(?:not exist|no bucket)[^<\n]*$"):
            use()


TREE = ["1.jpg", "a/2.jpg", "a/b/3.jpg", "a/b/4.png", "ab/5.jpg"]


FOUND = {
    "": TREE,
    "/": TREE,
    "/a": TREE[1:4],
    "/a/": TREE[1:4],
    "/a/b": TREE[2:4],
    "/*.jpg": TREE[:1],
    "/*/*.jpg": ["a/2.jpg", "ab/5.jpg"],
    "/a/**/*.jpg": ["a/2.jpg", "a/b/3.jpg"],
    "/**/*.jpg": ["1.jpg", "a/2.jpg", "a/b/3.jpg", "ab/5.jpg"],
    "/a*/**": TREE[1:],
    "/[!a]*": TREE[:1],
    "/a/b/[34].???": TREE[2:4],
    "/*.png": [],
}


def test_folders_and_globs_list_the_files_below_them(root):
    write(root, *TREE)
    assert {below: listed(root, below) for below in FOUND} == FOUND


@each("name", ["x[1]", "[!a]", "st*r", "wh?t", "a b#50%41", "é"])
def test_a_folder_named_like_a_glob_is_listed_and_deleted(root, name):
    root = f"{root}/{next(_NUMBERS)}"
    write(root, f"{name}/1", f"{name}/b/2", "x1/3", "star/4", "what/5")
    assert sorted(entry.path for entry in storage.list_files(f"{root}/{name}", literal=True)) == [
        f"{root}/{name}/1",
        f"{root}/{name}/b/2",
    ]
    assert storage.is_folder(f"{root}/{name}")
    assert storage.list_folders(f"{root}/{name}") == ["b"]
    assert storage.list_folders(root) == sorted([name, "star", "what", "x1"])
    storage.delete_tree(f"{root}/{name}")
    assert listed(root) == ["star/4", "what/5", "x1/3"]


@pytest.mark.usefixtures("objects", "any_names")
def test_folders_with_an_empty_name_are_folders(root):
    write(root, "a//b", "a//c/d", "a/e")
    assert storage.list_folders(f"{root}/a") == [""]
    assert listed(root, "/a") == ["a//b", "a//c/d", "a/e"]


def test_a_limit_lists_so_many_files(root):
    write(root, *TREE)
    for limit in (0, 1, 3, 5, 9):
        assert len(listed(root, limit=limit)) == min(limit, 5)
        assert len(listed(root, "/**", limit=limit)) == min(limit, 5)


def test_folders_are_those_directly_below(root):
    write(root, *TREE, "a b#/x", "é/x", "50%41/x", "a/2/x")
    assert storage.list_folders(root) == ["50%41", "a", "a b#", "ab", "é"]
    assert storage.list_folders(f"{root}/a") == ["2", "b"]
    assert storage.list_folders(f"{root}/a/b/") == []


def test_more_files_than_one_page_holds(root):
    names = [f"{number:04}" for number in range(1005)]
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda name: storage.write_bytes(f"{root}/all/{name}/x", b""), names))
    assert listed(f"{root}/all") == [f"{name}/x" for name in names]
    assert storage.list_folders(f"{root}/all") == names
    assert len(listed(root, "/all/**/x")) == 1005
    assert len(listed(f"{root}/all", limit=1002)) == 1002
    write(root, "all2")
    storage.delete_tree(f"{root}/all")
    assert listed(root) == ["all2"]


def test_deleting_what_is_not_there_is_no_error(root):
    write(root, "1", "3", "b/4")
    storage.delete_files(f"{root}/{number}" for number in range(4))
    storage.delete_tree(f"{root}/nothing")
    assert listed(root) == ["b/4"]
    storage.delete_files([])
    storage.delete_if_empty(f"{root}/b")
    assert listed(root) == ["b/4"]


def test_files_of_several_places_are_deleted_together(root, tmp_path):
    others = [f"{root}/a", str(tmp_path / "local"), f"{root}/b", root.replace("/bucket/", "/other/") + "/c"]
    for path in others:
        storage.write_bytes(path, b"")
    storage.delete_files(others)
    assert not any(map(storage.exists, others))


SIZES = {
    "none": [],
    "empty": [0, 0],
    "one": [3],
    "few": [3, 0, 4],
    "many": [1] * 100,
    "large": [5 * MIB],
    "small and large": [6 * MIB, 1, 0, 7 * MIB, 2 * MIB],
    "between": [3 * MIB] * 5,
    "small before large": [1, 12 * MIB],
}


@each("sizes", SIZES.values(), ids=SIZES)
def test_files_are_joined_in_their_order(root, sizes):
    root = f"{root}/{next(_NUMBERS)}"
    pieces = [os.urandom(size) for size in sizes]
    paths = [f"{root}/part {number}#?" for number in range(len(sizes))]
    for path, data in zip(paths, pieces, strict=True):
        storage.write_bytes(path, data)
    storage.write_bytes(f"{root}/whole", b"earlier")
    crc = storage.concatenate(paths, f"{root}/whole", staging=f"{root}/staging")
    data = b"".join(pieces)
    assert storage.read_bytes(f"{root}/whole") == data
    assert crc in (None, google_crc32c.value(data))
    assert [path for path in listed(root) if not path.startswith("part ")] == ["whole"]


@each("size", [100, 20 * MIB])
@each("replaces", [True, False])
def test_ranges_of_files_are_joined(root, size, replaces):
    root = f"{root}/{next(_NUMBERS)}"
    pieces = [os.urandom(size), os.urandom(size // 2)]
    for number, data in enumerate(pieces):
        storage.write_bytes(f"{root}/part {number}", data)
    first, second = (f"{root}/part {number}" for number in range(2))
    for name, whole in (("cut", []), ("cut and whole", [second])):
        ranges = [storage.FileRange(first, size // 3, size // 2), storage.FileRange(second, 7, 10), *whole]
        crc = storage.concatenate(ranges, f"{root}/{name}", staging=f"{root}/staging", replaces=replaces)
        data = pieces[0][size // 3 :][: size // 2] + pieces[1][7:17] + (pieces[1] if whole else b"")
        assert storage.read_bytes(f"{root}/{name}") == data
        assert crc in (None, google_crc32c.value(data))
    assert listed(root) == ["cut", "cut and whole", "part 0", "part 1"]


@each("sizes", [[], [10], [1] * 100, [6 * MIB, 7 * MIB]], ids=["none", "one", "many", "large"])
def test_a_file_that_is_there_can_be_kept(root, sizes):
    root = f"{root}/{next(_NUMBERS)}"
    paths = [f"{root}/part {number}" for number in range(len(sizes))]
    for path, size in zip(paths, sizes, strict=True):
        storage.write_bytes(path, os.urandom(size))
    storage.concatenate(paths, f"{root}/whole", staging=f"{root}/staging", replaces=False)
    data = storage.read_bytes(f"{root}/whole")
    for there in (data, b"another"):
        storage.write_bytes(f"{root}/whole", there)
        with pytest.raises(FileExistsError):
            storage.concatenate(paths, f"{root}/whole", staging=f"{root}/staging", replaces=False)
        assert storage.read_bytes(f"{root}/whole") == there
    assert [path for path in listed(root) if not path.startswith("part ")] == ["whole"]


def test_a_file_of_a_dataset_is_written_once(root):
    for _ in range(2):  # a second attempt writes the same
        storage.write_once(f"{root}/a", b"mine", staging=f"{root}/staging")
    with pytest.raises(BuildError, match="/a was written by another build in the meantime"):
        storage.write_once(f"{root}/a", b"theirs", staging=f"{root}/staging")
    assert storage.read_bytes(f"{root}/a") == b"mine"


def test_latest_never_goes_back(root):
    versions = ["20260101T000000Z", "20260102T000000Z", "20260103T000000Z"]
    for name in versions[:2]:
        for _ in range(2):
            point_to(root, name, staging=f"{root}/.build")
            assert read_latest(root) == name
    if storage.has_scheme(root):
        storage.write_bytes(f"{root}/{versions[1]}/_SUCCESS", b"{}")  # damaged: another one may take its place
        point_to(root, versions[0], staging=f"{root}/.build")
        storage.write_bytes(f"{root}/LATEST", b"20990101T000000Z")
        put_version(root, "20990101T000000Z", own=versions[1])  # a copy of a user's
        put_version(root, versions[2])
        point_to(root, versions[2], staging=f"{root}/.build")
        with pytest.raises(BuildError, match=f"names {versions[2]} by now, which is newer than {versions[0]}"):
            point_to(root, versions[0], staging=f"{root}/.build")
        assert read_latest(root) == versions[2]


@each("size", [10, 6 * MIB])
def test_joining_with_a_missing_file_leaves_what_was_there(root, size):
    root = f"{root}/{next(_NUMBERS)}"
    for name in "ac":
        storage.write_bytes(f"{root}/{name}", bytes(size))
    write(root, "there")
    for name in ("new", "there"):
        with pytest.raises(OSError, match="/b") as raised:
            storage.concatenate([f"{root}/{one}" for one in "abc"], f"{root}/{name}")
        assert not storage.is_service_fault(raised.value)
    assert listed(root) == ["a", "c", "there"]
    assert storage.read_bytes(f"{root}/there") == b"there"


def test_files_of_other_places_are_joined(root, tmp_path):
    other, local = root.replace("/bucket/", "/other/") + "/b", str(tmp_path / "local" / "c")
    parts = {f"{root}/a": bytes(6 * MIB), other: b"b", local: b"c"}
    for path, data in parts.items():
        storage.write_bytes(path, data)
    for target in (f"{root}/whole", f"{local} and others"):
        storage.concatenate([*parts], target)
        assert storage.read_bytes(target) == bytes(6 * MIB) + b"bc"


@pytest.mark.usefixtures("versions")
def test_a_listed_file_has_the_fingerprint_and_version_of_its_stat(root):
    write(root, "a")
    (entry,) = storage.list_files(root)
    assert entry == storage.stat(f"{root}/a")
    assert entry.version
    storage.write_bytes(f"{root}/a", b"other")
    later = storage.stat(f"{root}/a")
    assert later.fingerprint != entry.fingerprint
    assert later.version != entry.version


def test_the_version_that_was_listed_is_read(root):
    write(root, "a")
    (entry,) = storage.list_files(root)
    assert storage.read_bytes(entry.path, version=entry.version) == b"a"
    assert storage.read_range(entry.path, 0, 4, version=entry.version) == b"a"
    assert storage.read_range(entry.path, 0, 0, version=entry.version) == b""
    with storage.open_read(entry.path, version=entry.version) as file:
        assert file.read() == b"a"


@pytest.mark.usefixtures("versions")
def test_another_version_than_the_one_listed_is_not_read(root):
    write(root, "a")
    (entry,) = storage.list_files(root)
    storage.write_bytes(entry.path, b"other")
    reads: list[Callable[[], object]] = [
        lambda: storage.read_bytes(entry.path, version=entry.version),
        lambda: storage.read_range(entry.path, 0, 4, version=entry.version),
        lambda: storage.read_range(entry.path, 0, 0, version=entry.version),
        lambda: storage.read_range(entry.path, 9, 4, version=entry.version),
        lambda: storage.open_read(entry.path, version=entry.version),
    ]
    for read in reads:
        with pytest.raises(storage.ChangedError, match="/a has changed"):
            read()
    storage.delete_files([entry.path])
    for read in reads:
        with pytest.raises(OSError, match="/a"):
            read()


@pytest.mark.usefixtures("objects", "versions")
def test_an_open_object_is_read_in_one_version(root):
    storage.write_bytes(f"{root}/a", bytes(20 * MIB))
    with storage.open_read(f"{root}/a") as file:
        file.read(1)
        storage.write_bytes(f"{root}/a", b"1" * (20 * MIB))
        with pytest.raises(storage.ChangedError):
            file.read()


def test_a_new_file_is_written_once(root):
    path = f"{root}/folder/a"
    assert storage.write_new(path, b"same")
    assert not storage.write_new(path, b"same")
    assert not storage.write_new(path, b"other")
    assert storage.read_bytes(path) == b"same"
    assert listed(root) == ["folder/a"]


def test_a_state_is_replaced_once(root):
    path = f"{root}/a"
    assert storage.read_state(path) is None
    assert storage.write_new(path, b"1")
    data, version = storage.read_state(path)
    assert data == b"1"
    assert storage.replace(path, b"2", version=version)
    assert not storage.replace(path, b"3", version=version)
    data, version = storage.read_state(path)
    assert data == b"2"
    assert storage.delete(path, version=version)
    assert not storage.replace(path, b"4", version=version)
    assert listed(root) == []


@pytest.mark.usefixtures("conditional_delete")
def test_a_state_is_deleted_once(root):
    path = f"{root}/a"
    storage.write_bytes(path, b"1")
    _, version = storage.read_state(path)
    storage.write_bytes(path, b"2")
    assert not storage.delete(path, version=version)
    _, version = storage.read_state(path)
    assert storage.delete(path, version=version)
    assert not storage.delete(path, version=version)


@pytest.mark.usefixtures("one_winner")
def test_one_of_many_writers_wins(root):
    path = f"{root}/a"
    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(lambda number: storage.write_new(path, b"%d" % number), range(8)))
        assert won.count(True) == 1
        data, version = storage.read_state(path)
        assert data == b"%d" % won.index(True)
        won = list(threads.map(lambda number: storage.replace(path, b"=%d" % number, version=version), range(8)))
        assert won.count(True) == 1
    assert storage.read_bytes(path) == b"=%d" % won.index(True)


def test_an_entry_can_be_sent_to_workers(root):
    write(root, "a")
    entry = storage.stat(f"{root}/a")
    assert dataclasses.replace(entry) == entry
    assert abs(entry.modified - time.time()) < 100
    storage.sync_folder(root)
    if storage.has_scheme(root):
        storage.check_scheme(entry.path)


def take_lease(root: str, holder: str) -> Lease | str:
    return Lease.take(f"{root}/.build/lease", holder, renewal=0.2, stale=3.0)


def test_one_holder_at_a_time_has_the_lease(root):
    with take_lease(root, "first") as lease:
        assert take_lease(root, "second") == "first"
        time.sleep(4)  # longer than until it is stale
        assert take_lease(root, "second") == "first"
        lease.check()
    assert listed(root) == []
    with take_lease(root, "second") as lease:
        lease.check()


def test_a_lease_that_nobody_renews_is_taken_and_lost_for_its_holder(root):
    path = f"{root}/.build/lease"
    storage.write_new(path, b'{"holder": "dead", "id": "1", "machine": "another"}')
    with take_lease(root, "second") as lease:
        storage.write_bytes(path, b'{"holder": "third"}')
        time.sleep(0.05)  # longer than an earlier check counts
        with pytest.raises(BuildError, match="has lost its lease"):
            lease.check()
    assert storage.read_bytes(path) == b'{"holder": "third"}'
