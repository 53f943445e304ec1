from __future__ import annotations

import errno
import struct
import zlib

import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.storage.reading import reading, unchanged
from tests.each import each

REJECTED = SampleError(Stage.LIST, FailureReason.INVALID_ROW, "a row")


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (EOFError("it ends"), FailureReason.CORRUPT),
        (zlib.error("bad data"), FailureReason.CORRUPT),
        (struct.error("too short"), FailureReason.CORRUPT),
        (OSError("CRC check failed"), FailureReason.CORRUPT),
        (PermissionError(errno.EACCES, "Permission denied"), FailureReason.UNREADABLE),
        (storage.StorageError("gs://a/b does not exist"), FailureReason.UNREADABLE),
    ],
)
def test_what_a_file_is_at_fault_for_rejects_what_is_read(raised, reason):
    with pytest.raises(SampleError) as caught, reading():
        raise raised
    assert caught.value.reason is reason


@each(
    "raised",
    [
        OSError(errno.EIO, "Input/output error"),
        TimeoutError(),
        storage.ChangedError("changed"),
        storage.ServiceFaultError("too many requests"),
        BuildError("x"),
        RequestError("x", code="x"),
        MemoryError(),
        REJECTED,
    ],
    ids=repr,
)
@each("kinds", [{}, {"raised": (Exception,)}])
def test_anything_else_goes_on(raised, kinds):
    with pytest.raises(type(raised)) as caught, reading(**kinds):
        raise raised
    assert caught.value is raised


def test_a_bug_is_no_damage():
    with pytest.raises(KeyError), reading():
        raise KeyError


def test_a_file_that_is_replaced_while_it_is_read_ends_the_build(tmp_path):
    path = str(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("a")
    version = storage.stat(path).version
    with unchanged(path, version):
        pass
    (tmp_path / "a.csv").write_text("other")
    with pytest.raises(BuildError, match="has changed while it was read"), unchanged(path, version):
        raise REJECTED
