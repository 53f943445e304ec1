"""Who may publish into an output: one launcher at a time, and a launcher whose job has removed its files."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from beam_tfrecords.beam_pipelines.build import pipeline
from beam_tfrecords.beam_pipelines.build.output.lock import LockedOutput, lock_output
from beam_tfrecords.beam_pipelines.build.output.state import describe_builds
from beam_tfrecords.beam_pipelines.runners.jobs import Run
from beam_tfrecords.beam_pipelines.settings.definitions import read_build_spec
from beam_tfrecords.storage import lease
from beam_tfrecords.transforms.workspace.build_folder import Workspace
from beam_tfrecords.transforms.workspace.state_files import write_state
from tests.core.storage import dictionary_files

FLAGS = ["--image_size=8", "--no_report"]


@pytest.fixture
def output() -> Iterator[str]:
    """A folder of a store without a file."""
    dictionary_files.DictionaryFiles.files.clear()
    yield "dictionary://bucket/out"
    dictionary_files.DictionaryFiles.files.clear()


def test_a_launcher_that_was_suspended_with_a_new_output_cannot_publish(output, monkeypatch):
    spec = read_build_spec({"input": "photos", "output": output})

    def may_publish(*held: LockedOutput) -> list[bool]:
        return [one.fence.is_held() for one in held]

    with lock_output(spec) as first:
        assert first.is_new
        assert may_publish(first) == [True]
        # The next one runs on another machine, and takes the lease of the first for that of a dead one.
        monkeypatch.setattr(lease, "_is_running", lambda _: None)
        monkeypatch.setitem(lease.Lease.take.__func__.__kwdefaults__, "stale", -1.0)
        with lock_output(spec) as second:
            assert may_publish(first, second) == [False, True]


def test_a_launcher_finds_the_dataset_of_a_job_that_has_removed_its_files(photos, tmp_path, run, monkeypatch):
    """As the job of an earlier launcher with `no_wait` does, which the next launcher follows."""
    words = ["convert", f"--input={photos}", f"--output={tmp_path / 'out'}", *FLAGS]
    assert run(*words).code == 0
    build_pipeline = pipeline.build_pipeline

    def clean(*args, **named):
        return build_pipeline(*args, **{**named, "cleans": True, "fails_unpublished": False, "report": False})

    monkeypatch.setattr(pipeline, "build_pipeline", clean)
    ran = run(*words, "--overwrite", "--seed=1")
    assert ran.code == 0, ran.err
    assert not (tmp_path / "out/.build").exists()


def test_a_build_in_another_container_of_this_host_is_running(tmp_path):
    """Containers of a pod have one host name, and other process numbers."""
    workspace, there = Workspace(str(tmp_path)), Run(socket.gethostname(), os.getpid() + (1 << 30), 0.0)
    write_state(workspace.build("0" * 16).run, there)
    with lease.Lease.take(workspace.lease, there.launcher):
        (build,) = describe_builds(str(tmp_path))
    assert build.state == "running"
