"""Locks between processes."""

from __future__ import annotations

import fcntl

from beam_tfrecords.storage.locks import try_lock


def test_a_lock_file_that_its_holder_deleted_while_it_was_opened_is_not_taken_for_the_lock(tmp_path, monkeypatch):
    path = tmp_path / "lock"
    flock, calls = fcntl.flock, []

    def flock_after_deletion(file, operation):
        calls.append(file)
        if len(calls) == 1:
            path.unlink()
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock_after_deletion)
    with try_lock(str(path)) as held, try_lock(str(path)) as second:
        assert held
        assert not second
    assert len(calls) == 3


def test_object_stores_have_no_locks():
    with try_lock("gs://bucket/lock") as first, try_lock("gs://bucket/lock") as second:
        assert (first, second) == (None, None)
