"""Local files."""

from __future__ import annotations

import errno
import os
import shutil
import socket

import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage.local import OpenFile
from tests.each import each


@pytest.fixture
def tree(tmp_path):
    """Files in folders, links, and entries that are neither."""
    root = tmp_path / "tree"
    for name in ("1.jpg", "a/2.jpg", "a/b/3.jpg", "a/b/4.png"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/5.jpg").write_bytes(b"linked")
    (root / "link").symlink_to(tmp_path / "elsewhere")
    (root / "nowhere.jpg").symlink_to("gone.jpg")
    (root / "itself").symlink_to("itself")
    os.mkfifo(root / "pipe")
    return root


def names(root, listed) -> list[str]:
    return sorted(os.path.relpath(entry.path, root) for entry in listed)


def test_links_are_followed_and_what_is_no_file_is_listed_on_request(tree):
    assert names(tree, storage.list_files(str(tree))) == ["1.jpg", "a/2.jpg", "a/b/3.jpg", "a/b/4.png", "link/5.jpg"]
    special = [entry for entry in storage.list_files(str(tree), special=True) if entry.size == -1]
    assert names(tree, special) == ["itself", "nowhere.jpg", "pipe"]
    assert names(tree, storage.list_files(f"{tree}/*/*.jpg")) == ["a/2.jpg", "link/5.jpg"]
    assert names(tree, storage.list_files(f"{tree}/a/**/*.jpg")) == ["a/2.jpg", "a/b/3.jpg"]
    assert names(tree, storage.list_files(f"{tree}/*.jpg", special=True)) == ["1.jpg", "nowhere.jpg"]
    assert storage.list_folders(str(tree)) == ["a", "link"]


def test_an_unfinished_file_of_a_dataset_is_in_the_staging_folder(tmp_path):
    path, staging = tmp_path / "out/index/file", tmp_path / "out/.build"
    with storage.open_write(str(path), staging=str(staging)) as file:
        file.write(b"content")
        assert list(path.parent.iterdir()) == []
        assert len(list(staging.iterdir())) == 1
    assert path.read_bytes() == b"content"
    assert list(staging.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "there is room"),
        (errno.EFBIG, "files may be larger, see `ulimit -f`"),
        (errno.EIO, "it can be"),
        (errno.EROFS, "it can be"),
    ],
)
def test_a_disk_that_is_full_or_fails_is_an_error_of_the_build_that_names_the_file(tmp_path, monkeypatch, code, remedy):
    def refuse(*names):
        raise OSError(code, os.strerror(code), *names[:1])

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(BuildError) as raised:
        storage.write_bytes(str(tmp_path / "out"), b"data")
    said = f"{tmp_path}/out cannot be written: {os.strerror(code)}; the same command resumes once {remedy}"
    assert str(raised.value) == said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_copy_that_fails_where_there_are_no_links_is_removed_unless_another_build_has_its_name(
    tmp_path, monkeypatch, is_replaced
):
    path = tmp_path / "out/a"

    def refuse_link(*names):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    def fail(source, target, *sizes):
        target.write(b"half")
        if is_replaced:
            path.unlink()
            path.write_bytes(b"of another build")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "link", refuse_link)
    monkeypatch.setattr(shutil, "copyfileobj", fail)
    with pytest.raises(BuildError, match="there is room"), storage.open_new(str(path)) as file:
        file.write(b"whole")
    assert [one.name for one in path.parent.iterdir()] == (["a"] if is_replaced else [])
    assert not is_replaced or path.read_bytes() == b"of another build"


def test_a_fault_of_another_file_is_not_taken_for_one_of_the_file_that_is_written(tmp_path):
    with pytest.raises(OSError, match="other"), storage.open_write(str(tmp_path / "out")):
        raise OSError(errno.EIO, os.strerror(errno.EIO), "/other")


def make_special(path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.relpath(path))
    else:
        path.symlink_to(kind)


READS = {
    "stat": storage.stat,
    "open_read": storage.open_read,
    "open_read of a version": lambda path: storage.open_read(path, version="1:1:1:1"),
    "read_bytes": storage.read_bytes,
    "read_range": lambda path: storage.read_range(path, 0, 10),
    "read_state": storage.read_state,
    "sha256": storage.sha256,
    "delete": lambda path: storage.delete(path, version="x"),
    "OpenFile": OpenFile,
}


@each("kind", ["pipe", "socket", "/dev/zero", "/dev/null"])
@each("read", READS)
def test_only_regular_files_are_opened(tmp_path, monkeypatch, kind, read):
    monkeypatch.chdir(tmp_path)
    make_special(tmp_path / "x", kind)
    with pytest.raises(OSError, match="x is not a regular file") as raised:
        READS[read](str(tmp_path / "x"))
    assert not storage.is_service_fault(raised.value)
