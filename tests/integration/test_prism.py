"""The pipeline of `convert` on Prism, Beam's portable runner in Go: the same bytes as from the local runner."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest

from beam_tfrecords import open_dataset
from tests.integration.cluster_builds import (
    PROGRAM,
    SLOW,
    ClusterBuild,
    check,
    make_hostile,
    read_reasons,
    slow_hashes,
    slow_photos,
)
from tests.integration.servers import prism, processes

__all__ = ["slow_hashes", "slow_photos"]

ON_PRISM = ["--runner=PrismRunner", f"--prism_location={processes.BINARIES / 'prism'}"]


@pytest.fixture
def on_job_server(tmp_path) -> Iterator[list[str]]:
    """A job server that the user has started; Prism is one."""
    worker = {"command": str(PROGRAM.with_name("beam-tfrecords-worker"))}
    with prism.prism_server(tmp_path) as endpoint:
        words = ["--runner=PortableRunner", f"--job_endpoint={endpoint}", "--environment_type=PROCESS"]
        yield [*words, f"--environment_config={json.dumps(worker)}"]


def test_shards_and_indices_are_those_of_the_local_runner(photos, tmp_path, run, build):
    flags = [f"--input={photos}", "--image_size=64", "--splits=train=0.8,validation=0.2", "--num_shards=2"]
    ran = run("convert", f"--output={tmp_path / 'prism'}", *flags, *ON_PRISM)
    assert (ran.code, "PrismRunner" in ran.err) == (0, False), ran.err
    build(tmp_path / "local", *flags)
    assert open_dataset(str(tmp_path / "prism")).shards == open_dataset(str(tmp_path / "local")).shards


@pytest.mark.nightly
def test_crashes_and_hangs_cost_their_samples_alone(photos, tmp_path, run, monkeypatch):
    make_hostile(monkeypatch, crash="*_0[23].jpg", hang="cat/cat_01.jpg")
    words = [f"--input={photos}", f"--output={tmp_path / 'out'}", "--image_size=64", "--max_failures=0.5"]
    ran = run("convert", *words, "--image_timeout=3", *ON_PRISM)
    assert ran.code == 0, ran.err
    crashed = [path.relative_to(photos).as_posix() for path in photos.glob("*/*_0[23].jpg")]
    expected = {**dict.fromkeys(crashed, "decoder_crash"), "cat/cat_01.jpg": "decode_timeout"}
    assert read_reasons(tmp_path / "out") == expected


@pytest.mark.nightly
def test_the_launcher_is_killed_and_its_job_ends_with_it(tmp_path, slow_photos, slow_hashes, run):
    words = [f"--input={slow_photos}", *SLOW]
    build = ClusterBuild(tmp_path / "out", *words, *ON_PRISM)
    finished = build.wait_for_open_blocks()
    started = processes.children(build.pid)
    os.kill(build.pid, signal.SIGKILL)
    build.wait()
    processes.wait_until(lambda: not any(map(processes.is_running, started)), what="the end of Prism")
    assert run("status", f"--output={build.output}").out.startswith(f"{build.output}: dead\n")
    check(ClusterBuild(build.output, *words), finished, slow_hashes)


@pytest.mark.nightly
def test_the_job_of_a_job_server_goes_on_without_its_launcher(tmp_path, slow_photos, slow_hashes, run, on_job_server):
    words = [f"--input={slow_photos}", *SLOW, *on_job_server]
    build = ClusterBuild(tmp_path / "out", *words)
    finished = build.wait_for_open_blocks()
    os.kill(build.pid, signal.SIGKILL)
    build.wait()
    found = json.loads(run("status", f"--output={build.output}", "--json").out)
    assert (found["state"], found["build"]["job"]["job_id"]) == ("running", "job-001")
    other = run("convert", f"--input={slow_photos}", f"--output={build.output}", "--image_size=8")
    assert (other.code, "the job of another build is writing to it" in other.err) == (4, True)
    check(ClusterBuild(build.output, *words), finished, slow_hashes, says="the job of this build runs already")


@pytest.mark.nightly
def test_sigterm_cancels_the_job_of_a_job_server(tmp_path, slow_photos, run, on_job_server):
    build = ClusterBuild(tmp_path / "out", f"--input={slow_photos}", *SLOW, *on_job_server)
    build.wait_for_open_blocks()
    os.kill(build.pid, signal.SIGTERM)
    assert build.wait().code == 143
    found = json.loads(run("status", f"--output={build.output}", "--json").out)
    assert (found["state"], found["build"]["why"]) == ("dead", ["job job-001 was cancelled"])
