"""Questions to a disk have three answers: yes, no, and an error."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage.locks import try_lock

QUESTIONS = [storage.exists, storage.is_file, storage.is_folder]
NOT_THERE = ["gone", "file/below", "itself", "gone/below", "x" * 300, "zero\0byte", "\ud800", "link to nothing"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "classes/cat").mkdir(parents=True)
    (tmp_path / "classes/cat/1.jpg").write_bytes(b"x")
    (tmp_path / "itself").symlink_to("itself")
    (tmp_path / "link to nothing").symlink_to("gone")
    return tmp_path


def make_faulty(monkeypatch, name: str, is_faulty: Callable[[str], bool], code: int) -> None:
    """Makes a function of `os` fail for some paths."""
    call = getattr(os, name)

    def fail(path, *arguments, **named):
        if is_faulty(path):
            raise OSError(code, os.strerror(code), path)
        return call(path, *arguments, **named)

    monkeypatch.setattr(os, name, fail)


@pytest.fixture
def failing(monkeypatch):
    """Makes the system answer all looks at a path with an error."""

    def fail(path: object, code: int) -> None:
        def is_faulty(one: object) -> bool:
            return str(one) == str(path)

        for name in ("stat", "lstat", "scandir", "open"):
            make_faulty(monkeypatch, name, is_faulty, code)

    return fail


@pytest.mark.parametrize("name", NOT_THERE)
@pytest.mark.parametrize("ask", QUESTIONS)
def test_what_can_not_be_there_is_not_there(folder, ask, name):
    assert not ask(f"{folder}/{name}")


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.EACCES, errno.ENOMEM, errno.EPERM, errno.ENODEV])
@pytest.mark.parametrize("ask", QUESTIONS)
def test_an_error_is_no_answer(folder, failing, ask, code):
    failing(folder / "file", code)
    with pytest.raises(OSError, match="file") as raised:
        ask(f"{folder}/file")
    assert raised.value.errno == code


def _lock(path: str) -> None:
    with try_lock(path):
        pass


WRITERS = [
    lambda path: storage.write_new(path, b"x"),
    lambda path: storage.write_bytes(path, b"x"),
    _lock,
]


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.EACCES])
@pytest.mark.parametrize("write", WRITERS)
def test_a_folder_that_cannot_be_looked_at_is_no_file_that_is_there(folder, failing, write, code):
    (folder / "state").mkdir()
    failing(folder / "state", code)
    with pytest.raises((OSError, BuildError)) as raised:
        write(f"{folder}/state/lease")
    assert os.strerror(code) in str(raised.value)


@pytest.mark.parametrize("write", WRITERS)
def test_a_file_in_the_place_of_a_folder_is_no_file_that_is_there(folder, write):
    with pytest.raises((OSError, BuildError), match="Not a directory"):
        write(f"{folder}/file/lease")


@pytest.mark.parametrize("pattern", ["*/*/*.jpg", "classes/cat/*.jpg", "*/cat/1.jpg", "c*/**/*.jpg", "classes/**"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.EACCES])
def test_no_listing_leaves_out_a_folder_that_cannot_be_looked_at(folder, failing, pattern, code):
    failing(folder / "classes/cat", code)
    root = f"{folder}/{pattern}"
    with pytest.raises(OSError, match="classes/cat"):
        list(storage.list_files(root))
    with pytest.raises(OSError, match="classes/cat"):
        [list(storage.list_partition(root, part)) for part in storage.partition_listing(root)]


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_what_cannot_be_looked_at_is_not_taken_for_deleted(folder, monkeypatch, code):
    for name in ("unlink", "remove", "rmdir"):
        make_faulty(monkeypatch, name, lambda path: os.path.basename(path) == "1.jpg", code)
    with pytest.raises(OSError, match=os.strerror(code)):
        storage.delete_files([f"{folder}/classes/cat/1.jpg"])
    with pytest.raises(OSError, match=os.strerror(code)):
        storage.delete_tree(f"{folder}/classes")


def test_deleting_what_is_not_there_is_no_error(folder):
    storage.delete_files([f"{folder}/gone", f"{folder}/file/below"])
    storage.delete_tree(f"{folder}/gone")
    assert (folder / "file").exists()


def test_a_file_that_another_process_deletes_meanwhile_does_not_end_the_deletion_of_a_folder(folder, monkeypatch):
    for number in range(5):
        (folder / f"classes/cat/{number}.jpg").write_bytes(b"x")
    unlink, deleted = os.unlink, []

    def delete_twice(path, **named):
        unlink(path, **named)
        if not deleted:
            deleted.append(path)
            unlink(path, **named)

    monkeypatch.setattr(os, "unlink", delete_twice)
    storage.delete_tree(f"{folder}/classes")
    assert deleted
    assert not (folder / "classes").exists()


def test_a_file_in_the_place_of_a_folder_is_left_out(tmp_path):
    (tmp_path / "in/a").mkdir(parents=True)
    (tmp_path / "in/a/1.jpg").write_bytes(b"x")
    (tmp_path / "in/b").write_bytes(b"x")
    (tmp_path / "in/c").symlink_to("b")
    os.mkfifo(tmp_path / "in/d")
    listed = storage.list_files(f"{tmp_path}/in/*/*.jpg", special=True)
    assert [os.path.relpath(one.path, tmp_path) for one in listed] == ["in/a/1.jpg"]
