"""What `status` says of the state of a build, whatever its launcher, its job and its runner have left."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.output import state
from beam_tfrecords.beam_pipelines.commands import status as status_command
from beam_tfrecords.beam_pipelines.runners.jobs import JobRecord, Run
from beam_tfrecords.storage.lease import Lease
from beam_tfrecords.transforms.stats import Stats
from beam_tfrecords.transforms.workspace.build_folder import Workspace
from beam_tfrecords.transforms.workspace.counts import BlockCounts, add_block, add_step
from beam_tfrecords.transforms.workspace.state_files import write_state
from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS
from tests.beam_pipelines.version_builds import Source, make_source
from tests.each import each
from tests.integration.servers.processes import free_port
from tests.json_mutations import changed, mutations

JOB = JobRecord("DataflowRunner", "2026-11-21_1", "https://console/2026-11-21_1")


@pytest.fixture
def source(tmp_path, convert) -> Source:
    return make_source(tmp_path, 12, convert)


@pytest.fixture
def status(run, source):
    def ask():
        ran = run("status", f"--output={source.output}", "--json")
        assert ran.code == 0, ran.err
        return json.loads(ran.out)

    return ask


def leave_build(source: Source) -> Path:
    """Returns the folder of a build that somebody has left."""
    folder = source.output / ".build/0123456789abcdef"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def url(source) -> str:
    """Of a runner that does not answer for the job of that build."""
    url = f"http://127.0.0.1:{free_port()}"
    JobRecord("FlinkRunner", "9f2c", f"{url}/#/job/running/9f2c").write(str(leave_build(source)))
    return url


def test_an_input_that_is_being_listed(source, status, run):
    source.output.mkdir()
    lease = Lease.take(Workspace(str(source.output)).lease, "process 7 on a machine")
    with lease:
        assert (status()["state"], status()["holder"]) == ("listing", "process 7 on a machine")
        assert "is being listed by process 7 on a machine" in run("status", f"--output={source.output}").out
        follow = [BEAM_TFRECORDS, "status", f"--output={source.output}", "--follow"]
        following = subprocess.Popen(follow, stdout=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            following.wait(3)
    assert "idle" in following.communicate(timeout=60)[0]
    assert (status()["state"], status()["holder"]) == ("idle", None)


def test_the_status_of_a_build_that_removes_its_files_meanwhile(source, status, monkeypatch):
    (source.folder / "cat/bad.png").write_bytes(b"no image")
    source.build("--max_failures=0")
    assert status()["state"] == "unpublished"
    count = state._count_reasons

    def remove(folder):
        list_files = storage.list_files

        def vanish(*args, **kwargs):
            entries = list(list_files(*args, **kwargs))
            shutil.rmtree(source.output / ".build", ignore_errors=True)
            return entries

        monkeypatch.setattr(storage, "list_files", vanish)
        return count(folder)

    monkeypatch.setattr(state, "read_outcome", lambda folder: None)
    monkeypatch.setattr(state, "_count_reasons", remove)
    assert status()["state"] == "idle"


def test_a_slow_build_has_a_speed_and_the_stage_that_runs(source, status, run):
    left = leave_build(source)
    record = dataclasses.replace(Run.of_this_process(), listed=7, blocks=3)
    write_state(str(left / "run.json"), record)
    os.utime(left / "run.json", (time.time() - 100, time.time() - 100))
    add_block(str(left), Stats({("written", "train"): 6}))
    assert (status()["state"], status()["build"]["last_heartbeat"]) == ("dead", None)
    with Lease.take(Workspace(str(source.output)).lease, record.launcher):
        assert status()["build"]["samples_per_second"] == pytest.approx(0.06, rel=0.3)
        shown = run("status", f"--output={source.output}").out
        assert "speed: 0.0" in shown
        assert "last heartbeat" in shown
        assert "stage: " not in shown
        # A worker died before it had counted the last sample.
        add_step(str(left), evaluated=1, pause=0)
        assert "stage: checking limits" in run("status", f"--output={source.output}").out
    # Another process lists the input for the next attempt.
    with Lease.take(Workspace(str(source.output)).lease, "process 7 on a machine"):
        assert (status()["state"], status()["build"]["state"]) == ("listing", "dead")


def test_a_launcher_that_left_its_job_has_submitted_it_and_no_heartbeat(source, run):
    left = leave_build(source)
    write_state(str(left / "run.json"), Run("host", 7, time.time() - 600, listed=7, blocks=3))
    JOB.write(str(left))
    shown = run("status", f"--output={source.output}").out
    assert "submitted by process 7 on host, since " in shown
    assert "heartbeat" not in shown


def test_a_job_that_published_after_its_launcher_had_died_is_no_running_build(source, status):
    assert source.build().code == 0
    left = leave_build(source)
    (left / "version").write_text(source.latest.name)
    JobRecord("FlinkRunner", "9f2c", "http://host:8081/#/job/running/9f2c").write(str(left))
    found = status()
    assert (found["state"], found["build"]["state"]) == ("idle", "published")
    (source.latest / "_SUCCESS").unlink()
    (source.output / "LATEST").unlink()
    JOB.write(str(left))
    assert status()["state"] == "submitted"
    add_block(str(left), Stats({}))
    assert status()["state"] == "running"
    (counts,) = left.glob("workers/*.json")
    os.utime(counts, (time.time() - 600, time.time() - 600))
    assert status()["state"] == "submitted"


def test_a_build_that_resumes_a_job_of_unknown_state_leaves_no_temporary_files(source):
    (source.folder / "cat/bad.png").write_bytes(b"no image")
    assert source.build("--max_failures=0").code == 3
    (left,) = (path.parent for path in source.output.glob(".build/*/version"))
    JobRecord("FlinkRunner", "9f2c", f"http://127.0.0.1:{free_port()}/#/job/running/9f2c").write(str(left))
    ran = source.build("--max_failures=0.5")
    assert ran.code == 0, ran.err
    assert not (source.output / ".build").exists()


def test_who_follows_a_build_that_removes_its_files_finds_its_version(source, run, tmp_path):
    assert source.build().code == 0
    add_block(str(leave_build(source)), Stats({}))
    threading.Timer(1, shutil.rmtree, [source.output / ".build"]).start()
    ran = run("status", f"--output={source.output}", "--follow", f"--json_summary={tmp_path}/run.json")
    summary = json.loads((tmp_path / "run.json").read_text())
    assert (ran.code, summary["status"], summary["dataset"]) == (0, "published", str(source.latest))


@pytest.mark.parametrize("is_advancing", [False, True])
def test_a_runner_that_does_not_answer_is_named(source, status, run, is_advancing, url):
    if is_advancing:
        add_block(str(next(source.output.glob(".build/*"))), Stats({}))
    found = status()
    assert (found["state"], found["build"]["state"]) == ("unknown", "unknown")
    assert found["build"]["why"] == [f"{url} does not answer (Connection refused)"]
    shown = run("status", f"--output={source.output}").out
    assert f"it is unknown whether the job runs: {url} does not answer (Connection refused)\n" in shown


def test_who_follows_a_job_does_not_wait_for_ever_for_its_runner(source, run, monkeypatch, tmp_path, url):
    monkeypatch.setattr(status_command, "AWAY", 0.0)
    ran = run("status", f"--output={source.output}", "--follow", f"--json_summary={tmp_path}/run.json")
    assert (ran.code, "unknown" in ran.out) == (1, True)
    summary = json.loads((tmp_path / "run.json").read_text())
    assert (summary["exit_code"], summary["status"]) == (1, "failed")
    assert summary["message"].startswith(f"{url} does not answer (Connection refused)")


def test_a_job_without_a_launcher_keeps_other_builds_away_until_somebody_knows_that_it_has_ended(source):
    left = leave_build(source)
    JOB.write(str(left))
    add_block(str(left), Stats({}))
    ran = source.build()
    assert ran.code == 4
    assert "the job of another build is writing to it, https://console/2026-11-21_1; " in ran.err
    (counts,) = left.glob("workers/*.json")
    os.utime(counts, (time.time() - 600, time.time() - 600))
    ran = source.build()
    assert ran.code == 4
    assert "its runner does not say whether it does: https://console/2026-11-21_1; " in ran.err
    assert f"delete {left}" in ran.err
    shutil.rmtree(left)
    assert source.build().code == 0


def write_build(folder: Path) -> None:
    """A folder of a build of this process that has published nothing."""
    write_state(str(folder / "run.json"), dataclasses.replace(Run.of_this_process(), listed=60, blocks=4))
    write_state(str(folder / "job.json"), JobRecord("FlinkRunner", "a1", "http://127.0.0.1:8081"))
    write_state(str(folder / "workers/1.json"), BlockCounts(2, 20, 3, {"reads": 4}))
    outcome = {"listed": {"train": 60}, "stats": [], "folder": "x", "tripped": ["a"], "guards": ["a"]}
    (folder / "outcome.json").write_text(json.dumps({**outcome, "is_unchanged": False, "forbids_duplicates": False}))
    (folder / "version").write_text('"20261123T000000Z"')
    (folder / "failures").mkdir()
    (folder / "failures/1.jsonl").write_text(json.dumps({"key": "a", "reason": "corrupt", "detail": "b"}))


@each("name", ["run.json", "job.json", "workers/1.json", "outcome.json", "failures/1.jsonl", "version"])
@each("is_running", [True, False])
def test_status_of_a_build_of_a_stranger_ends_in_lines(run, tmp_path, name, is_running):
    folder = tmp_path / "out/.build/0123456789abcdef"
    write_build(folder)
    if is_running and name != "outcome.json":
        (folder / "outcome.json").unlink()
    original = json.loads((folder / name).read_text())
    holder = Run.of_this_process().launcher
    with Lease.take(f"{folder.parent}/lease", holder) if is_running else contextlib.nullcontext():
        for place, other in mutations(original, seed=0, most=8):
            (folder / name).write_text(json.dumps(changed(original, place, other)))
            for words in ([], ["--json"]):
                ran = run("status", f"--output={tmp_path / 'out'}", *words)
                assert ran.code == 0, (place, other, ran.err)
                assert all(line.isprintable() for line in (ran.out + ran.err).splitlines())
