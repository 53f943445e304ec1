"""Times of files are compared with the clock of the store alone."""

from __future__ import annotations

import os
import time

import pytest

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.output.state import describe_builds
from beam_tfrecords.beam_pipelines.runners.jobs import Run
from beam_tfrecords.storage.lease import Lease
from beam_tfrecords.transforms.workspace.build_folder import Workspace
from beam_tfrecords.transforms.workspace.state_files import write_state

NOW = time.time()


@pytest.mark.parametrize("hours", [-3, 3])
def test_the_time_is_that_of_the_store(tmp_path, monkeypatch, hours):
    (tmp_path / "file").touch()
    monkeypatch.setattr(time, "time", lambda: NOW + hours * 3600)
    assert abs(storage.now(str(tmp_path / "lease")) - storage.stat(str(tmp_path / "file")).modified) < 10
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("hours", [-3, 3])
def test_a_build_on_a_machine_whose_clock_is_wrong_is_alive(tmp_path, monkeypatch, hours):
    workspace = Workspace(str(tmp_path))

    def state() -> str:
        (build,) = describe_builds(str(tmp_path))
        return build.state

    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: NOW + hours * 3600)
        run = Run.of_this_process()
        write_state(workspace.build("0" * 16).run, run)
        with Lease.take(workspace.lease, run.launcher):
            assert state() == "running"
        assert state() == "dead"
    assert state() == "dead"
