"""Who may publish into an output: one launcher at a time, and a launcher whose job has removed its files."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterator

import pytest

from beam_tfrecords.beam_pipelines.build import build as build_module
from beam_tfrecords.beam_pipelines.build import pipeline
from beam_tfrecords.beam_pipelines.build.checks import output as output_checks
from beam_tfrecords.beam_pipelines.build.listing import source_opening
from beam_tfrecords.beam_pipelines.build.output import lock
from beam_tfrecords.beam_pipelines.build.output.lock import LockedOutput, lock_output
from beam_tfrecords.beam_pipelines.build.output.state import describe_builds
from beam_tfrecords.beam_pipelines.runners.jobs import Run
from beam_tfrecords.beam_pipelines.settings.definitions import read_build_spec
from beam_tfrecords.storage import lease
from beam_tfrecords.transforms.workspace.build_folder import Workspace
from beam_tfrecords.transforms.workspace.state_files import write_state
from tests.beam_pipelines.dataset_checks import shards_of
from tests.core.storage import dictionary_files
from tests.trees import write_tree

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


def test_a_pipeline_that_a_runner_starts_again_after_it_has_published_publishes_the_same(tmp_path, build, monkeypatch):
    root = write_tree(tmp_path / "in", "cat/{0..3}.png dog/{4..7}.png")
    once = build(tmp_path / "once", f"--input={root}", "--name=it", *FLAGS)
    run = build_module._run

    def run_twice(*arguments, **options):
        assert isinstance(run(*arguments, **options), build_module.Published)
        return run(*arguments, **options)

    monkeypatch.setattr(build_module, "_run", run_twice)
    again = build(tmp_path / "out", f"--input={root}", "--name=it", *FLAGS)
    assert sorted(path.name for path in again.rglob("*")) == sorted(path.name for path in once.rglob("*"))
    assert shards_of(again) == shards_of(once)


def test_a_build_that_has_not_listed_anything_keeps_others_away_and_looks_once(tmp_path, convert, monkeypatch):
    root = write_tree(tmp_path / "in", "cat/{0..3}.png dog/{4..7}.png")
    calls: Counter[str] = Counter()
    refused = []

    def watch(module, name: str) -> None:
        function = getattr(module, name)

        def count(*arguments, **options):
            calls[name] += 1
            return function(*arguments, **options)

        monkeypatch.setattr(module, name, count)

    watch(lock, "check_output")
    watch(output_checks, "find_replaced_files")
    watch(source_opening, "open_input")
    open_source = build_module.open_spec_source

    def open_while_another_build_begins(spec):
        with monkeypatch.context() as patch:
            patch.setattr(build_module, "open_spec_source", open_source)
            refused.append(convert(f"--input={root}", f"--output={spec.output}", *FLAGS))
        assert calls == {"check_output": 1, "find_replaced_files": 1}
        return open_source(spec)

    monkeypatch.setattr(build_module, "open_spec_source", open_while_another_build_begins)
    ran = convert(f"--input={root}", f"--output={tmp_path / 'out'}", *FLAGS, "--layout=tfds")
    assert ran.code == 0, ran.err
    assert calls == {"check_output": 1, "find_replaced_files": 1, "open_input": 1}
    (ran,) = refused
    assert ran.code == 4
    assert f"another build is writing to it, process {os.getpid()} on " in ran.err


def test_a_build_in_another_container_of_this_host_is_running(tmp_path):
    """Containers of a pod have one host name, and other process numbers."""
    workspace, there = Workspace(str(tmp_path)), Run(socket.gethostname(), os.getpid() + (1 << 30), 0.0)
    write_state(workspace.build("0" * 16).run, there)
    with lease.Lease.take(workspace.lease, there.launcher):
        (build,) = describe_builds(str(tmp_path))
    assert build.state == "running"
