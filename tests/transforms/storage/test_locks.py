"""Locks between processes."""

from __future__ import annotations

import subprocess
import sys

from transforms import storage

_HOLDER = """
import sys
from transforms import storage
with storage.lock(sys.argv[1]) as held:
    print(held, flush=True)
    sys.stdin.read()
"""


def test_one_process_at_a_time_holds_a_lock(tmp_path):
    path = str(tmp_path / "folder/lock")
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        with storage.lock(path) as held:
            assert not held
        holder.kill()
    with storage.lock(path) as held:
        assert held


def test_object_stores_have_no_locks():
    with storage.lock("gs://bucket/lock") as first, storage.lock("gs://bucket/lock") as second:
        assert first
        assert second
