"""Reads of one version of a local file, and writes that depend on the earlier state."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage import faults, local


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(b"0123456789")
    return path


def rewrite(path):
    """Other content of the same size, with an older time, as copying tools restore it."""
    path.write_bytes(b"abcdefghij")
    os.utime(path, ns=(1, 1_000_000_000))


def replace_with_the_same_times(path):
    status = path.stat()
    other = path.with_name("other")
    other.write_bytes(b"abcdefghij")
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.replace(other, path)


READERS = {
    "bytes": lambda path, version: storage.read_bytes(path, version=version),
    "range": lambda path, version: storage.read_range(path, 2, 3, version=version),
    "open": lambda path, version: storage.open_read(path, version=version).close(),
}
readers = pytest.mark.parametrize("read", READERS.values(), ids=list(READERS))


@readers
@pytest.mark.parametrize("change", [rewrite, replace_with_the_same_times])
def test_another_version_is_not_read(file, read, change):
    version = storage.stat(str(file)).version
    change(file)
    with pytest.raises(storage.ChangedError, match=r"a\.jpg has changed"):
        read(str(file), version)
    read(str(file), "")


@readers
def test_a_hard_link_or_other_permissions_are_no_other_version(file, read):
    version = storage.stat(str(file)).version
    file.chmod(0o600)
    os.link(file, file.with_name("backup"))
    assert file.stat().st_ctime_ns != int(version.split(":")[2])
    read(str(file), version)


@readers
def test_an_inode_alone_is_no_other_version(file, read):
    size, modified, changed, inode = storage.stat(str(file)).version.split(":")
    read(str(file), f"{size}:{modified}:{changed}:{int(inode) + 1}")


def test_a_listed_file_has_the_version_of_its_stat_without_one_more_look(file, monkeypatch):
    expected = storage.stat(str(file)).version
    looks = []
    monkeypatch.setattr(os, "stat", lambda path, stat=os.stat: looks.append(path) or stat(path))
    assert [entry.version for entry in storage.list_files(str(file.parent))] == [expected]
    assert looks == [str(file.parent)]


def test_the_fingerprint_tells_times_that_are_nanoseconds_apart(file):
    found = set()
    for modified in (1_234_567_890_123_456_789, 1_234_567_890_123_456_790, 1_234_567_890_123_456_890):
        os.utime(file, ns=(0, modified))
        (listed,) = storage.list_files(str(file.parent))
        assert listed.modified_ns == storage.stat(str(file)).modified_ns == modified
        assert listed.modified == pytest.approx(1_234_567_890.123)
        found.add(listed.fingerprint)
    assert len(found) == 3
    assert "10-1234567890123456789" in found


def test_the_fingerprint_of_an_object_is_its_generation():
    assert storage.FileEntry("gs://b/a", 10, 15, 77, "77").fingerprint == "10-77"


def test_a_file_written_to_while_it_is_read_is_found_at_the_end(file, monkeypatch):
    entry = storage.stat(str(file))

    def write_between(path, opened, version, check=local._check_version):
        size = check(path, opened, version)
        if not os.lseek(opened, 0, os.SEEK_CUR):
            rewrite(file)
        return size

    monkeypatch.setattr(local, "_check_version", write_between)
    with pytest.raises(storage.ChangedError):
        storage.read_bytes(str(file), version=entry.version)


def test_a_file_written_to_while_it_is_open_is_found_when_it_is_closed(file):
    opened = storage.open_read(str(file), version=storage.stat(str(file)).version)
    assert opened.read(4) == b"0123"
    assert opened.seek(8) == 8
    assert opened.read() == b"89"
    rewrite(file)
    with pytest.raises(storage.ChangedError):
        opened.close()
    assert opened.closed


def shorten(monkeypatch, *shorter: int) -> None:
    """As a mount that gives fewer bytes than the file has, the first times."""
    left = list(shorter)

    def read(*arguments, whole=local._read_descriptor, **named):
        data = whole(*arguments, **named)
        return data[: -left.pop()] if left else data

    monkeypatch.setattr(local, "_read_descriptor", read)
    monkeypatch.setattr(faults, "_PAUSES", (0.0, 0.0))


@pytest.mark.parametrize("read", [READERS["bytes"], READERS["range"]])
def test_missing_bytes_are_read_again(file, monkeypatch, read):
    expected = read(str(file), "")
    shorten(monkeypatch, 1, 2)
    assert read(str(file), "") == expected


@pytest.mark.parametrize("read", [READERS["bytes"], READERS["range"]])
def test_bytes_that_never_come_end_the_build(file, monkeypatch, read):
    shorten(monkeypatch, 1, 1, 1)
    with pytest.raises(BuildError, match=r"a\.jpg: only \d+ of \d+ bytes can be read"):
        read(str(file), "")


@pytest.mark.parametrize("steps", [1, 3, 1000])
def test_a_mount_that_answers_in_pieces_is_read_to_the_end(file, monkeypatch, steps):
    file.write_bytes(bytes(range(200)))
    system_read = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, size: system_read(descriptor, min(size, steps)))
    assert storage.read_bytes(str(file)) == bytes(range(200))
    assert storage.read_range(str(file), 50, 7) == bytes(range(50, 57))


def test_a_file_that_says_no_size_is_read_to_its_end():
    assert storage.read_bytes("/proc/self/status").startswith(b"Name:")


def test_a_new_file_is_written_once_where_links_do_not_exist(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "no links")

    monkeypatch.setattr(os, "link", refuse)
    path = str(tmp_path / "folder/new")
    assert storage.write_new(path, b"first")
    assert not storage.write_new(path, b"second")
    assert storage.read_bytes(path) == b"first"
    assert os.listdir(tmp_path / "folder") == ["new"]


_COUNT = """
import sys
from beam_tfrecords import storage
for _ in range(int(sys.argv[2])):
    while True:
        data, version = storage.read_state(sys.argv[1])
        if storage.replace(sys.argv[1], b"%d" % (int(data) + 1), version=version):
            break
"""


def test_no_replacement_of_several_processes_is_lost(tmp_path):
    path = str(tmp_path / "count")
    storage.write_new(path, b"0")
    processes = [subprocess.Popen([sys.executable, "-c", _COUNT, path, "100"]) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert storage.read_bytes(path) == b"300"


@pytest.mark.parametrize(
    ("error", "is_fault"),
    [
        (OSError(errno.EIO, "broken disk"), True),
        (OSError(errno.ESTALE, "stale mount"), True),
        (OSError(errno.EMFILE, "too many files"), True),
        (TimeoutError("no answer"), True),
        (ConnectionResetError("gone"), True),
        (storage.ServiceFaultError("not permitted"), True),
        (FileNotFoundError(errno.ENOENT, "gone"), False),
        (PermissionError(errno.EACCES, "not permitted"), False),
        (IsADirectoryError(errno.EISDIR, "a folder"), False),
        (OSError(errno.ENAMETOOLONG, "too long"), False),
        (storage.StorageError("gone"), False),
        (storage.ChangedError("changed"), False),
    ],
)
def test_a_service_fault_is_no_fault_of_the_file(error, is_fault):
    assert storage.is_service_fault(error) == is_fault
