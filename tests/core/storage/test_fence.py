"""The token without which nothing is published."""

from __future__ import annotations

import os

import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage import local
from beam_tfrecords.storage.fence import Fence
from beam_tfrecords.storage.lease import Lease


@pytest.fixture
def lease(tmp_path):
    with Lease.take(str(tmp_path / ".build/lease"), "me") as lease:
        yield lease


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / ".build/fence")


def test_only_the_launch_that_took_over_last_may_publish(path, lease):
    first = Fence.take_over(path, lease)
    first.check()
    second = Fence.take_over(path, lease)
    second.check()
    with pytest.raises(BuildError, match="another build has taken over the output"):
        first.check()


def test_a_missing_fence_is_lost(path, lease):
    fence = Fence.take_over(path, lease)
    os.remove(path)
    assert not fence.is_held()
    with pytest.raises(BuildError, match="another build has taken over the output"):
        fence.check()


def test_who_follows_a_job_has_its_fence(path, lease):
    assert not Fence.find(path).is_held()
    Fence.take_over(path, lease)
    Fence.find(path).check()


def test_a_launch_removes_its_own_fence_alone(path, lease):
    first, second = Fence.take_over(path, lease), Fence.take_over(path, lease)
    first.remove()
    second.check()
    second.remove()
    assert not storage.exists(path)


def test_without_the_lease_nothing_is_taken_over(path, lease, tmp_path):
    held = Fence.take_over(path, lease)
    (tmp_path / ".build/lease").unlink()
    with pytest.raises(BuildError, match="has lost its lease"):
        Fence.take_over(path, lease)
    held.check()


def test_a_launch_that_is_suspended_in_a_renewal_has_lost_the_right_to_publish(path, tmp_path, monkeypatch):
    """On disks without locks, the renewal brings back the lease of the suspended launch, but not its token."""
    monkeypatch.setattr(local, "lock_file", lambda *_, **__: None)
    lease, other = str(tmp_path / ".build/lease"), b'{"id": "another"}'
    with Lease.take(lease, "me", renewal=1000.0, stale=2000.0) as held:
        fence, replace = Fence.take_over(path, held), os.replace

        def suspend(*names: str) -> None:
            monkeypatch.setattr(os, "replace", replace)
            storage.write_bytes(lease, other)
            storage.write_bytes(path, b"token of the other launch")
            replace(*names)

        monkeypatch.setattr(os, "replace", suspend)
        held._renew()
        assert b'"me"' in storage.read_bytes(lease)
        held.check()
        with pytest.raises(BuildError, match="another build has taken over"):
            fence.check()
