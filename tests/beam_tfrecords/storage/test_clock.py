"""Times of files are compared with the clock of the store alone."""

from __future__ import annotations

import os
import time

import pytest

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.heartbeat import Heartbeat, read_runs
from beam_tfrecords.transforms.workspace.build_folder import Workspace

NOW = time.time()


@pytest.mark.parametrize("hours", [-3, 3])
def test_the_time_is_that_of_the_store(tmp_path, monkeypatch, hours):
    (tmp_path / "file").touch()
    monkeypatch.setattr(time, "time", lambda: NOW + hours * 3600)
    assert abs(storage.now(str(tmp_path / "lease")) - storage.stat(str(tmp_path / "file")).modified) < 10
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("hours", [-3, 3])
def test_a_build_on_a_machine_whose_clock_is_wrong_is_alive(tmp_path, monkeypatch, hours):
    folder = Workspace(str(tmp_path)).build("0" * 16).path
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: NOW + hours * 3600)
        with Heartbeat(folder, listed=1, blocks=1) as heartbeat:
            ((_, run),) = read_runs(str(tmp_path))
            assert run.is_alive(storage.now(str(tmp_path / "lease")))
        heartbeat.end()
    ((_, run),) = read_runs(str(tmp_path))
    assert not run.is_alive(storage.now(str(tmp_path / "lease")))
