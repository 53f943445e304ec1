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


def test_a_folder_lists_files_at_every_depth_and_through_links(tree):
    listed = ["1.jpg", "a/2.jpg", "a/b/3.jpg", "a/b/4.png", "link/5.jpg"]
    assert names(tree, storage.list_files(str(tree))) == listed


def test_special_entries_are_listed_on_request_with_a_size_of_minus_one(tree):
    special = [entry for entry in storage.list_files(str(tree), special=True) if entry.size == -1]
    assert names(tree, special) == ["itself", "nowhere.jpg", "pipe"]


def test_a_glob_lists_the_files_that_match(tree):
    assert names(tree, storage.list_files(f"{tree}/*/*.jpg")) == ["a/2.jpg", "link/5.jpg"]
    assert names(tree, storage.list_files(f"{tree}/a/**/*.jpg")) == ["a/2.jpg", "a/b/3.jpg"]
    assert names(tree, storage.list_files(f"{tree}/*.jpg", special=True)) == ["1.jpg", "nowhere.jpg"]


def test_a_folder_named_like_a_glob_is_that_folder(tmp_path):
    (tmp_path / "photos[1]").mkdir()
    (tmp_path / "photos[1]/1.jpg").touch()
    assert names(tmp_path, storage.list_files(str(tmp_path / "photos[1]"))) == ["photos[1]/1.jpg"]


def test_a_limit_ends_the_listing(tree):
    assert len(list(storage.list_files(str(tree), limit=2))) == 2


def test_folders_are_listed_by_name(tree):
    assert storage.list_folders(str(tree)) == ["a", "link"]


def test_a_listed_file_has_the_fingerprint_of_its_stat(tree):
    (entry,) = storage.list_files(f"{tree}/1.jpg*")
    assert entry == storage.stat(str(tree / "1.jpg"))
    assert entry.fingerprint == f"5-{os.stat(tree / '1.jpg').st_mtime_ns}"


def test_only_regular_files_have_a_stat(tree):
    with pytest.raises(storage.StorageError, match="pipe is not a regular file"):
        storage.stat(str(tree / "pipe"))
    with pytest.raises(FileNotFoundError):
        storage.stat(str(tree / "gone.jpg"))


def test_a_range_is_shorter_only_at_the_end_of_the_file(tmp_path):
    path = str(tmp_path / "file")
    storage.write_bytes(path, b"0123456789")
    assert storage.read_range(path, 3, 4) == b"3456"
    assert storage.read_range(path, 8, 4) == b"89"
    assert storage.read_range(path, 12, 4) == b""
    assert storage.read_range(path, 3, 0) == b""
    with pytest.raises(FileNotFoundError):
        storage.read_range(str(tmp_path / "gone"), 0, 1)


def test_a_file_appears_when_its_block_ends(tmp_path):
    path = tmp_path / "new/folder/file"
    with storage.open_write(str(path)) as file:
        file.write(b"content")
        assert not path.exists()
    assert path.read_bytes() == b"content"
    assert storage.sha256(str(path)) == "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"


def test_a_failed_block_leaves_the_earlier_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"earlier")

    def write_and_fail():
        with storage.open_write(str(path)) as file:
            file.write(b"later")
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        write_and_fail()
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("file", b"earlier")]


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


def test_files_are_whole_if_they_are_there_and_have_their_sizes(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"0123")
    assert storage.have_sizes({str(path): 4})
    assert not storage.have_sizes({str(path): 5})
    assert not storage.have_sizes({str(path): 4, str(tmp_path / "gone"): 0})


def test_deleting_what_is_not_there_is_no_error(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").touch()
    storage.delete_files([str(tmp_path / "gone"), str(tmp_path / "folder/file")])
    storage.delete_tree(str(tmp_path / "folder"))
    storage.delete_tree(str(tmp_path / "folder"))
    assert not list(tmp_path.iterdir())


def test_chunks_end_at_the_limit(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 2048)
    with storage.open_read(str(path)) as file:
        chunks = [bytes(chunk) for chunk in storage.read_chunks(file, limit=300_000)]
    assert len(chunks) > 1
    assert b"".join(chunks) == path.read_bytes()[:300_000]


@each("name", ["run?1", "run[1]", "run*", "a#1", "50%", "a b", "a..b", "ü", "%2F"])
def test_every_name_of_a_file_is_taken_literally(tmp_path, name):
    path = str(tmp_path / name / "x" / name)
    storage.write_bytes(path, b"0123")
    storage.write_bytes(str(tmp_path / "run1/kept"), b"")
    assert storage.is_file(path)
    assert storage.read_bytes(path, version=storage.stat(path).version) == b"0123"
    assert [entry.path for entry in storage.list_files(str(tmp_path / name), literal=True)] == [path]
    assert storage.list_folders(str(tmp_path / name)) == ["x"]
    storage.delete_tree(str(tmp_path / name))
    assert names(tmp_path, storage.list_files(str(tmp_path))) == ["run1/kept"]


def test_a_literal_listing_of_a_missing_folder_is_no_glob(tmp_path):
    (tmp_path / "run1").mkdir()
    (tmp_path / "run1/1").touch()
    with pytest.raises(FileNotFoundError):
        list(storage.list_files(str(tmp_path / "run?"), literal=True))


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


def test_a_folder_is_refused_as_one(tmp_path):
    with pytest.raises(IsADirectoryError):
        storage.open_read(str(tmp_path))
