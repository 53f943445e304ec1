"""Schemes that Beam's FileSystems serve, with a file system that keeps its files in a dictionary."""

from __future__ import annotations

import io

import pytest
from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError


class _Writer(io.BytesIO):
    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def close(self) -> None:
        DictionaryFiles.files[self._path] = self.getvalue()
        super().close()


class DictionaryFiles(FileSystem):
    """Files as a remote store has them: published when their writer is closed, whatever happened before."""

    files: dict[str, bytes]
    calls: list[str]

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
    assert storage.stat("dictionary://a/b/1") == storage.FileEntry("dictionary://a/b/1", 4, 1.5)
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
    with pytest.raises(BuildError, match=r"^dictionary://a/silent does not answer: RuntimeError: no connection$"):
        storage.read_bytes("dictionary://a/silent")
