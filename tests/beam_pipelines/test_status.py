"""`status`: what it says of nothing, of a finished, a running, a dead and a refused build."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.output import state
from beam_tfrecords.beam_pipelines.commands import status as status_command
from beam_tfrecords.beam_pipelines.runners.jobs import JobRecord, Run
from beam_tfrecords.storage.lease import Lease
from beam_tfrecords.transforms.stats import Stats
from beam_tfrecords.transforms.workspace.build_folder import Workspace
from beam_tfrecords.transforms.workspace.counts import add_block, add_step
from beam_tfrecords.transforms.workspace.state_files import write_state
from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS
from tests.beam_pipelines.version_builds import Source
from tests.integration.servers.processes import free_port


@pytest.fixture
def source(source_of) -> Source:
    return source_of(48)


@pytest.fixture
def status(run, source):
    def ask():
        ran = run("status", f"--output={source.output}", "--json")
        assert ran.code == 0, ran.err
        return json.loads(ran.out)

    return ask


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


def test_versions_are_listed_with_their_counts(source, status, run):
    assert source.build().code == 0
    found = status()
    assert (found["state"], found["build"], found["latest"]) == ("idle", None, source.latest.name)
    (version,) = found["versions"]
    assert (version["records"], version["failures"]) == (48, 0)
    assert version["bytes"] == sum(path.stat().st_size for path in source.latest.glob("*.tfrecord-*"))
    assert "LATEST" in run("status", f"--output={source.output}").out


@pytest.mark.nightly
def test_a_build_that_runs_and_the_same_when_it_is_dead(source, status, run, tmp_path, picture, save):
    big = save(tmp_path / "big.png", picture(1, 3000, 4000)).read_bytes()
    for number in range(48):
        (source.folder / f"cat/big{number}.png").write_bytes(big + b"%d" % number)
    command = [BEAM_TFRECORDS, "convert", f"--input={source.folder}", f"--output={source.output}", "--versioned"]
    build = subprocess.Popen([*command, "--codec=exact"], start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300
        while not list(source.output.glob(".build/*/workers/*.json")):
            assert time.monotonic() < deadline
            assert build.poll() is None
            time.sleep(0.05)
        found = status()
        assert found["state"] == "running"
        assert found["build"]["process"] == build.pid
        assert found["build"]["listed"] == 96
        assert 0 < found["build"]["done"] < 96
        assert found["build"]["samples_per_second"] > 0
        text = run("status", f"--output={source.output}").out
        assert f"process {build.pid} on " in text
        assert " of 96; blocks: " in text
        assert "Nothing was published" not in text
    finally:
        os.killpg(build.pid, signal.SIGKILL)
        build.wait()
    found = status()
    assert found["state"] == "dead"
    assert found["debris"]["builds"] == 1
    assert found["debris"]["bytes"] > 0
    assert "left over: 1 dead build, " in run("status", f"--output={source.output}").out


@pytest.mark.nightly
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_build_is_followed_to_its_end(source, tmp_path, picture, save, is_killed):
    big = save(tmp_path / "big.png", picture(1, 2000, 3000)).read_bytes()
    for number in range(24):
        (source.folder / f"cat/big{number}.png").write_bytes(big + b"%d" % number)
    command = [BEAM_TFRECORDS, "convert", f"--input={source.folder}", f"--output={source.output}", "--codec=exact"]
    build = subprocess.Popen([*command, "--versioned"], start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300
        while not list(source.output.glob(".build/*/workers/*.json")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.killpg(build.pid, signal.SIGSTOP)  # so that it cannot end before it is followed
        follow = [BEAM_TFRECORDS, "status", f"--output={source.output}", "--follow"]
        following = subprocess.Popen(follow, stdout=subprocess.PIPE, text=True)
        time.sleep(1)
        assert following.poll() is None
        os.killpg(build.pid, signal.SIGKILL if is_killed else signal.SIGCONT)
        build.wait()  # a process that was not waited for is still there
        out, _ = following.communicate(timeout=300)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(build.pid, signal.SIGKILL)
        build.wait()
    assert following.returncode == (1 if is_killed else 0)
    assert ("LATEST" in out) == (not is_killed)


def test_a_refused_version_shows_its_exit_code(source, status, run):
    assert source.build().code == 0
    for path in list(source.folder.rglob("*.png"))[:20]:
        path.unlink()
    assert source.build().code == 3
    found = status()
    assert (found["state"], found["build"]["exit_code"]) == ("unpublished", 3)
    assert any("count: records: 28; before: 48" in line for line in found["build"]["why"])
    shown = run("status", f"--output={source.output}").out
    assert "exit code 3:\n  Nothing was published: the new version differs too much from the one before it.\n" in shown
    assert "  If that is right, use --accept=" in shown
    assert run("status", f"--output={source.output}", "--follow").code == 3


def test_what_a_refused_build_did_needs_no_counts_of_its_workers(source, status):
    (source.folder / "cat" / "broken.png").write_bytes(b"no image")
    assert source.build("--max_failures=0").code == 3
    before = status()["build"]
    # A worker that ends need not have written its last ones.
    for path in (source.output / ".build").rglob("workers/*.json"):
        path.unlink()
    after = status()["build"]
    assert (after["done"], after["failed"], after["failure_reasons"]) == (49, 1, {"not_an_image": 1})
    assert after["failure_reasons"] == before["failure_reasons"]


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
    folder = source.output / ".build/0123456789abcdef"
    folder.mkdir(parents=True)
    record = dataclasses.replace(Run.of_this_process(), listed=7, blocks=3)
    write_state(str(folder / "run.json"), record)
    os.utime(folder / "run.json", (time.time() - 100, time.time() - 100))
    add_block(str(folder), Stats({("written", "train"): 6}))
    assert (status()["state"], status()["build"]["last_heartbeat"]) == ("dead", None)
    with Lease.take(Workspace(str(source.output)).lease, record.launcher):
        assert status()["build"]["samples_per_second"] == pytest.approx(0.06, rel=0.3)
        shown = run("status", f"--output={source.output}").out
        assert "speed: 0.0" in shown
        assert "last heartbeat" in shown
        assert "stage: " not in shown
        # A worker died before it had counted the last sample.
        add_step(str(folder), evaluated=1, pause=0)
        assert "stage: checking limits" in run("status", f"--output={source.output}").out
    # Another process lists the input for the next attempt.
    with Lease.take(Workspace(str(source.output)).lease, "process 7 on a machine"):
        assert (status()["state"], status()["build"]["state"]) == ("listing", "dead")


def test_a_launcher_that_left_its_job_has_submitted_it_and_no_heartbeat(source, run):
    folder = source.output / ".build/0123456789abcdef"
    folder.mkdir(parents=True)
    left = time.time() - 600
    write_state(str(folder / "run.json"), Run("host", 7, left, listed=7, blocks=3))
    JobRecord("DataflowRunner", "2026-11-21_1", "https://console/2026-11-21_1").write(str(folder))
    shown = run("status", f"--output={source.output}").out
    assert "submitted by process 7 on host, since " in shown
    assert "heartbeat" not in shown


def test_a_job_that_published_after_its_launcher_had_died_is_no_running_build(source, status):
    assert source.build().code == 0
    folder = source.output / ".build/0123456789abcdef"
    folder.mkdir(parents=True)
    (folder / "version").write_text(source.latest.name)
    JobRecord("FlinkRunner", "9f2c", "http://host:8081/#/job/running/9f2c").write(str(folder))
    found = status()
    assert (found["state"], found["build"]["state"]) == ("idle", "published")
    (source.latest / "_SUCCESS").unlink()
    (source.output / "LATEST").unlink()
    JobRecord("DataflowRunner", "2026-11-21_1", "https://console/2026-11-21_1").write(str(folder))
    assert status()["state"] == "submitted"
    add_block(str(folder), Stats({}))
    assert status()["state"] == "running"
    (counts,) = folder.glob("workers/*.json")
    os.utime(counts, (time.time() - 600, time.time() - 600))
    assert status()["state"] == "submitted"


def test_a_build_that_resumes_a_job_of_unknown_state_leaves_no_temporary_files(source, picture, save):
    (source.folder / "cat/bad.png").write_bytes(b"no image")
    assert source.build("--max_failures=0").code == 3
    (folder,) = (path.parent for path in source.output.glob(".build/*/version"))
    JobRecord("FlinkRunner", "9f2c", f"http://127.0.0.1:{free_port()}/#/job/running/9f2c").write(str(folder))
    ran = source.build("--max_failures=0.5")
    assert ran.code == 0, ran.err
    assert not (source.output / ".build").exists()


_NIGHT = """
import sys
import apache_beam as beam
from beam_tfrecords import Sample, WriteDataset
from pathlib import Path
folder, output, fails = map(Path, sys.argv[1:])
settings = {"versioned": True, "keep_versions": 1, "grace": "0s", "guard": "off", "name": "pets", "image_size": 24}
files = sorted(folder.rglob("*.png"))
samples = [Sample(file.relative_to(folder).as_posix(), image=str(file), label=file.parent.name) for file in files]
with beam.Pipeline() as root:
    root | beam.Create(samples) | WriteDataset(output, max_failures=float(fails.name), **settings)
"""


@pytest.fixture
def nights(source, tmp_path, run):
    """Builds two nights: by `convert`, and by a pipeline without a launcher that `status` follows."""

    def build(max_failures: float = 0.5) -> list[tuple[int, dict, set]]:
        words = ["--keep_versions=1", "--grace=0s", "--guard=off", "--splits=auto", f"--max_failures={max_failures}"]
        told = []
        for kind in ("waits", "detached"):
            output = tmp_path / kind
            files = [f"--json_summary={tmp_path}/{kind}.json", f"--metrics_file={tmp_path}/{kind}.prom"]
            if kind == "waits":
                code = dataclasses.replace(source, output=output).build(*words, *files).code
            else:
                command = [sys.executable, "-c", _NIGHT, source.folder, output, str(max_failures)]
                pipeline = subprocess.Popen(list(map(str, command)), stderr=subprocess.DEVNULL)
                deadline = time.monotonic() + 120
                while pipeline.poll() is None and not list(output.glob(".build/*/workers/*")):
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
                code = run("status", f"--output={output}", "--follow", *files).code
                pipeline.wait()
            samples = {line.partition("{")[0] for line in (tmp_path / f"{kind}.prom").read_text().splitlines()}
            told.append((code, json.loads((tmp_path / f"{kind}.json").read_text()), samples))
        return told

    return build


# What differs from run to run.
_TIMES = {"began", "ended", "seconds", "object_store"}
_OF_THE_RUN = {"output", "dataset", "removed_versions", "folder", "message", *_TIMES}


@pytest.mark.nightly
def test_who_follows_a_detached_build_leaves_the_files_of_who_waits_for_one(source, nights, tmp_path):
    for night in range(3):
        if night == 1:
            next(source.folder.rglob("*.png")).write_bytes(b"no image")
        if night == 2:
            next(source.folder.rglob("*.png")).unlink()
        waits, detached = nights(0.0 if night == 2 else 0.5)
        assert detached[1].keys() == waits[1].keys()
        assert {name: value for name, value in detached[1].items() if name not in _OF_THE_RUN} == {
            name: value for name, value in waits[1].items() if name not in _OF_THE_RUN
        }
        assert (detached[0], detached[2]) == (waits[0], waits[2])
        assert len(detached[1].get("removed_versions", ())) == len(waits[1].get("removed_versions", ()))
        assert detached[1]["message"].partition(" s")[0] == waits[1]["message"].partition(" s")[0]
        if night < 2:
            assert detached[1]["dataset"] == str(next((tmp_path / "detached").glob("2*")))
            assert (tmp_path / "detached" / detached[1]["dataset"] / "report.html").exists()


def test_who_follows_a_build_that_removes_its_files_finds_its_version(source, run, tmp_path):
    assert source.build().code == 0
    folder = source.output / ".build/0123456789abcdef"
    folder.mkdir(parents=True)
    add_block(str(folder), Stats({}))
    threading.Timer(1, shutil.rmtree, [source.output / ".build"]).start()
    ran = run("status", f"--output={source.output}", "--follow", f"--json_summary={tmp_path}/run.json")
    summary = json.loads((tmp_path / "run.json").read_text())
    assert (ran.code, summary["status"], summary["dataset"]) == (0, "published", str(source.latest))


def test_files_of_a_run_need_a_build_to_follow(source, run, tmp_path):
    source.output.mkdir()
    ran = run("status", f"--output={source.output}", f"--json_summary={tmp_path}/run.json")
    ran.refused("needs_setting", "json_summary", says=["add --follow"])
    ran = run("status", f"--output={source.output}", f"--json_summary={tmp_path}/run.json", "--follow")
    assert (ran.code, json.loads((tmp_path / "run.json").read_text())["status"]) == (0, "idle")


@pytest.mark.parametrize("is_advancing", [False, True])
def test_a_runner_that_does_not_answer_is_named(source, status, run, is_advancing):
    folder = source.output / ".build/0123456789abcdef"
    folder.mkdir(parents=True)
    url = f"http://127.0.0.1:{free_port()}"
    JobRecord("FlinkRunner", "9f2c", f"{url}/#/job/running/9f2c").write(str(folder))
    if is_advancing:
        add_block(str(folder), Stats({}))
    found = status()
    assert (found["state"], found["build"]["state"]) == ("unknown", "unknown")
    assert found["build"]["why"] == [f"{url} does not answer (Connection refused)"]
    shown = run("status", f"--output={source.output}").out
    assert f"it is unknown whether the job runs: {url} does not answer (Connection refused)\n" in shown


def test_who_follows_a_job_does_not_wait_for_ever_for_its_runner(source, run, monkeypatch, tmp_path):
    monkeypatch.setattr(status_command, "AWAY", 0.0)
    folder = source.output / ".build/0123456789abcdef"
    folder.mkdir(parents=True)
    url = f"http://127.0.0.1:{free_port()}"
    JobRecord("FlinkRunner", "9f2c", f"{url}/#/job/running/9f2c").write(str(folder))
    ran = run("status", f"--output={source.output}", "--follow", f"--json_summary={tmp_path}/run.json")
    assert (ran.code, "unknown" in ran.out) == (1, True)
    summary = json.loads((tmp_path / "run.json").read_text())
    assert (summary["exit_code"], summary["status"]) == (1, "failed")
    assert summary["message"].startswith(f"{url} does not answer (Connection refused)")


def test_a_job_without_a_launcher_keeps_other_builds_away_until_somebody_knows_that_it_has_ended(source):
    folder = source.output / ".build/0123456789abcdef"
    folder.mkdir(parents=True)
    JobRecord("DataflowRunner", "2026-11-21_1", "https://console/2026-11-21_1").write(str(folder))
    add_block(str(folder), Stats({}))
    ran = source.build()
    assert ran.code == 4
    assert "the job of another build is writing to it, https://console/2026-11-21_1; " in ran.err
    (counts,) = folder.glob("workers/*.json")
    os.utime(counts, (time.time() - 600, time.time() - 600))
    ran = source.build()
    assert ran.code == 4
    assert "its runner does not say whether it does: https://console/2026-11-21_1; " in ran.err
    assert f"delete {folder}" in ran.err
    shutil.rmtree(folder)
    assert source.build().code == 0
