"""`status`: what it says of nothing, of a finished, a running, a dead and a refused build."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS
from tests.beam_pipelines.version_builds import Source


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


def test_files_of_a_run_need_a_build_to_follow(source, run, tmp_path):
    source.output.mkdir()
    ran = run("status", f"--output={source.output}", f"--json_summary={tmp_path}/run.json")
    ran.refused("needs_setting", "json_summary", says=["add --follow"])
    ran = run("status", f"--output={source.output}", f"--json_summary={tmp_path}/run.json", "--follow")
    assert (ran.code, json.loads((tmp_path / "run.json").read_text())["status"]) == (0, "idle")
