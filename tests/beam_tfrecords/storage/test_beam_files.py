"""Schemes that Beam's FileSystems serve, with a file system that keeps its files in a dictionary."""

from __future__ import annotations

import io

import pytest
import requests
from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage import faults
from tests.each import each


class _Writer(io.BytesIO):
    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def close(self) -> None:
        DictionaryFiles.files[self._path] = self.getvalue()
        super().close()


class _Answer(Exception):
    """An error of a client library."""

    def __init__(self, code: int) -> None:
        super().__init__(f"status {code}")
        self.code = code


class DictionaryFiles(FileSystem):
    """Files as a remote store has them: published when their writer is closed, whatever happened before."""

    files: dict[str, bytes]
    calls: list[str]
    status: int

    @classmethod
    def scheme(cls):
        return "dictionary"

    def __getattribute__(self, name):
        if name in ("exists", "delete"):
            self.calls.append(name)
        return super().__getattribute__(name)

    def create(self, path, mime_type="", compression_type=""):
        return _Writer(path)

    def open(self, path, mime_type="", compression_type=""):
        if path.endswith("/silent"):
            raise RuntimeError("no connection")
        if path.endswith("/refused"):
            raise BeamIOError("refused", {path: _Answer(self.status)})
        if path.endswith("/unwrapped"):
            raise _Answer(self.status)
        if path.endswith("/unreachable"):
            raise requests.ConnectionError("no route")
        if path not in self.files:
            raise BeamIOError(f"{path} is not there")
        return io.BytesIO(self.files[path])

    def exists(self, path):
        return path in self.files

    def metadata(self, path):
        return FileMetadata(path, len(self.files[path]), 1.5)

    def _list(self, dir_or_prefix):
        return [self.metadata(path) for path in self.files if path.startswith(dir_or_prefix)]

    def delete(self, paths):
        missing = {path: "missing" for path in paths if self.files.pop(path, None) is None}
        if missing:
            raise BeamIOError("missing", missing)

    def has_dirs(self):
        return False

    def join(self, basepath, *paths):
        raise NotImplementedError

    split = mkdirs = copy = rename = size = last_updated = checksum = join


@pytest.fixture(autouse=True)
def files():
    DictionaryFiles.files, DictionaryFiles.calls = {}, []
    return DictionaryFiles.files


def test_files_are_written_read_and_listed(files):
    storage.write_bytes("dictionary://a/b/1", b"0123")
    storage.write_bytes("dictionary://a/2", b"")
    assert files == {"dictionary://a/b/1": b"0123", "dictionary://a/2": b""}
    assert storage.read_bytes("dictionary://a/b/1") == b"0123"
    assert storage.read_range("dictionary://a/b/1", 1, 2) == b"12"
    assert storage.read_range("dictionary://a/b/1", 3, 2) == b"3"
    assert storage.stat("dictionary://a/b/1") == storage.FileEntry("dictionary://a/b/1", 4, 1_500_000_000)
    assert {entry.path for entry in storage.list_files("dictionary://a")} == set(files)
    assert [entry.path for entry in storage.list_files("dictionary://a/*/?")] == ["dictionary://a/b/1"]
    assert storage.list_folders("dictionary://a/") == ["b"]
    assert storage.is_folder("dictionary://a/b")
    assert not storage.is_folder("dictionary://b")
    assert storage.exists("dictionary://a/2")
    assert storage.sha256("dictionary://a/2").startswith("e3b0c442")


def test_a_failed_block_leaves_no_file(files):
    def write_and_fail():
        with storage.open_write("dictionary://a/1") as file:
            file.write(b"0123")
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        write_and_fail()
    assert not files


def test_listed_files_are_deleted_without_asking_for_each(files):
    files.update({f"dictionary://a/{number}": b"" for number in range(250)})
    storage.delete_tree("dictionary://a")
    assert not files
    assert DictionaryFiles.calls == ["delete"] * 3


def test_deleting_a_missing_file_is_no_error_and_deletes_the_others(files):
    files.update({"dictionary://a/1": b"", "dictionary://a/3": b""})
    storage.delete_files([f"dictionary://a/{number}" for number in range(4)])
    assert not files


def test_a_missing_file_is_an_os_error():
    with pytest.raises(OSError, match="dictionary://a/1 is not there"):
        storage.read_bytes("dictionary://a/1")


def test_a_store_that_does_not_answer_ends_the_build():
    with pytest.raises(BuildError, match=r"^dictionary://a/silent does not answer: no connection$"):
        storage.read_bytes("dictionary://a/silent")


@pytest.mark.parametrize(("status", "is_fault"), [(401, True), (403, True), (429, True), (503, True), (404, False)])
def test_an_answer_that_beam_wraps_is_a_service_fault_by_its_status(monkeypatch, status, is_fault):
    monkeypatch.setattr(DictionaryFiles, "status", status, raising=False)
    with pytest.raises(OSError, match="refused") as raised:
        storage.read_bytes("dictionary://a/refused")
    assert storage.is_service_fault(raised.value) == is_fault


def test_a_folder_named_like_a_glob_is_listed_literally(files):
    for folder in ("run[1]", "run?", "run*"):
        files.update(
            {f"dictionary://a/{folder}/1": b"", f"dictionary://a/{folder}/b/2": b"", "dictionary://a/run1/3": b""}
        )
        listed = {entry.path for entry in storage.list_files(f"dictionary://a/{folder}", literal=True)}
        assert listed == {f"dictionary://a/{folder}/1", f"dictionary://a/{folder}/b/2"}
        assert storage.list_folders(f"dictionary://a/{folder}") == ["b"]
        assert storage.is_folder(f"dictionary://a/{folder}")
        storage.delete_tree(f"dictionary://a/{folder}")
        assert list(files) == ["dictionary://a/run1/3"]


@each("status", range(300, 600, 7))
def test_an_answer_that_beam_does_not_wrap_is_an_error_by_its_status(monkeypatch, status):
    monkeypatch.setattr(DictionaryFiles, "status", status, raising=False)
    kind = storage.StorageError if 400 <= status < 500 else BuildError
    with pytest.raises(kind, match=f"status {status}"):
        storage.read_bytes("dictionary://a/unwrapped")


def test_a_file_is_created_replaced_and_deleted_by_its_state(files):
    path = "dictionary://a/1"
    assert storage.read_state(path) is None
    assert storage.write_new(path, b"1")
    assert not storage.write_new(path, b"2")
    _, first = storage.read_state(path)
    assert storage.replace(path, b"2", version=first)
    assert not storage.replace(path, b"3", version=first)
    assert not storage.delete(path, version=first)
    data, second = storage.read_state(path)
    assert data == b"2"
    assert storage.delete(path, version=second)
    assert not files


def test_missing_bytes_of_a_range_end_the_build(files, monkeypatch):
    files["dictionary://a/1"] = b"0123"
    monkeypatch.setattr(faults, "_PAUSES", (0.0,))
    monkeypatch.setattr(DictionaryFiles, "open", lambda *_, **__: io.BytesIO(b"01"))
    with pytest.raises(BuildError, match="only 1 of 3 bytes can be read, in 2 attempts"):
        storage.read_range("dictionary://a/1", 1, 100)


def test_files_are_joined_in_order(files):
    files.update({"dictionary://a/1": b"first ", "dictionary://a/2": b"second"})
    assert storage.concatenate(["dictionary://a/1", "dictionary://a/2"], "dictionary://b/3") is None
    assert files["dictionary://b/3"] == b"first second"


def test_a_lost_connection_ends_the_build():
    with pytest.raises(BuildError, match="dictionary://a/unreachable does not answer"):
        storage.read_bytes("dictionary://a/unreachable")
