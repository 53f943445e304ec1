"""Joining files under a final name."""

from __future__ import annotations

import errno
import os

import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage import local


@pytest.fixture
def parts(tmp_path):
    """Three files, the second one empty."""
    contents = [os.urandom(1 << 20), b"", b"last"]
    for number, content in enumerate(contents):
        (tmp_path / f"part{number}").write_bytes(content)
    return [str(tmp_path / f"part{number}") for number in range(3)], b"".join(contents)


def join_to(folder, sources) -> bytes:
    target, staging = folder / "data/shard", folder / "staging"
    assert storage.concatenate(sources, str(target), staging=str(staging)) is None
    assert os.listdir(staging) == []
    assert os.listdir(folder / "data") == ["shard"]
    return target.read_bytes()


def fail_with(number):
    def copy(*_):
        raise OSError(number, os.strerror(number))

    return copy


@pytest.mark.skipif(not hasattr(os, "copy_file_range"), reason="this system has no copy_file_range")
def test_the_system_copies(tmp_path, parts, monkeypatch):
    left = []
    monkeypatch.setattr(local, "read_chunks", lambda source, *, limit: left.append(limit) or iter(()))
    sources, content = parts
    assert join_to(tmp_path, sources) == content
    assert left == [0, 0, 0]


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])
def test_files_that_the_system_cannot_copy_are_read(tmp_path, parts, monkeypatch, number):
    monkeypatch.setattr(local, "_copy_file_range", fail_with(number))
    sources, content = parts
    assert join_to(tmp_path, sources) == content


def test_a_copy_that_ends_early_is_completed(tmp_path, parts, monkeypatch):
    left = [100]
    monkeypatch.setattr(
        local,
        "_copy_file_range",
        lambda source, target, _: os.sendfile(target, source, None, left.pop()) if left else 0,
    )
    sources, content = parts
    assert join_to(tmp_path, sources) == content


def test_a_full_disk_ends_the_build_and_leaves_nothing(tmp_path, parts, monkeypatch):
    monkeypatch.setattr(local, "_copy_file_range", fail_with(errno.ENOSPC))
    with pytest.raises(BuildError, match="No space left"):
        storage.concatenate(parts[0], str(tmp_path / "data/shard"), staging=str(tmp_path / "staging"))
    assert os.listdir(tmp_path / "data") == os.listdir(tmp_path / "staging") == []


def test_bytes_that_are_missing_end_the_build(tmp_path, parts, monkeypatch):
    monkeypatch.setattr(local, "_append", lambda source, target, size: None)
    with pytest.raises(BuildError, match="part0: only 0 of 1048576 bytes"):
        storage.concatenate(parts[0], str(tmp_path / "shard"))
