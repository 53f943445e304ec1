"""Faults while blocks are open on a Flink cluster: the same bytes, and no finished block is converted again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.integration.cluster_builds import (
    SLOW,
    ClusterBuild,
    check,
    slow_hashes,
    slow_photos,
)
from tests.integration.servers import flink, processes

__all__ = ["slow_hashes", "slow_photos"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[flink.FlinkCluster]:
    with flink.flink_cluster(tmp_path_factory.mktemp("flink")) as running:
        yield running


@pytest.fixture
def on_flink(cluster: flink.FlinkCluster) -> Iterator[list[str]]:
    processes.wait_until(lambda: cluster.get("/overview")["slots-available"] == 2, what="two free slots")
    yield ["--runner=FlinkRunner", f"--flink_master={cluster.master}"]
    for job in cluster.running_jobs():
        cluster.cancel(job)


@pytest.fixture
def without_restarts(cluster: flink.FlinkCluster) -> Iterator[None]:
    """The cluster fails a job at its first lost worker, as Flink does if it is not told otherwise."""
    settings = cluster.run_dir / "conf" / "config.yaml"
    before = settings.read_text()
    settings.write_text(before.replace("restart-strategy.type: failure-rate", "restart-strategy.type: none"))
    cluster.restart_job_manager()
    yield
    settings.write_text(before)
    cluster.restart_job_manager()


@pytest.fixture
def build(tmp_path, slow_photos, on_flink) -> ClusterBuild:
    """A build that takes a while."""
    return ClusterBuild(tmp_path / "out", f"--input={slow_photos}", *SLOW, *on_flink)


@pytest.mark.nightly
def test_a_python_worker_is_killed(build, cluster, slow_hashes):
    finished = build.wait_for_open_blocks()
    os.kill(cluster.python_workers()[0], signal.SIGKILL)
    check(build, finished, slow_hashes, says="Flink starts tasks again: ")


def test_a_task_manager_is_killed_and_another_started(build, cluster, slow_hashes):
    finished = build.wait_for_open_blocks()
    cluster.kill_task_manager(1)
    cluster.start_task_manager()
    check(build, finished, slow_hashes, says="Flink starts tasks again: ")


@pytest.mark.nightly
def test_the_job_manager_is_killed_and_started_again(build, cluster, slow_photos, on_flink, slow_hashes):
    finished = build.wait_for_open_blocks()
    cluster.restart_job_manager()
    ended = build.wait()
    assert ended.code == 1
    assert "the job manager was restarted and no longer knows job " in ended.err
    assert "; the same command resumes from the finished blocks" in ended.err
    assert not cluster.running_jobs()
    # On a busy machine, task managers take longer to let go of the lost job's slots than a launcher waits for them.
    processes.wait_until(lambda: cluster.get("/overview")["slots-available"] == 2, what="free slots")
    again = ClusterBuild(build.output, f"--input={slow_photos}", *SLOW, *on_flink)
    check(again, finished, slow_hashes)


@pytest.mark.nightly
def test_the_launcher_is_killed_and_the_same_command_follows_its_job(
    build, cluster, slow_photos, on_flink, slow_hashes
):
    finished = build.wait_for_open_blocks()
    os.kill(build.pid, signal.SIGKILL)
    build.wait()
    (job,) = cluster.running_jobs()
    again = ClusterBuild(build.output, f"--input={slow_photos}", *SLOW, *on_flink)
    page = f"http://{cluster.master}/#/job/running/{job}"
    check(again, finished, slow_hashes, says=f"the job of this build runs already: {page}")
    assert build.converted_twice(finished) == []


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("method", "more", "is_submitted"),
    [
        ("JobRecord.write", [], False),
        ("flink_runner._remove_submitted", [], True),
        # The jobs of other builds may have that name: it says nothing.
        ("flink_runner._remove_submitted", ["--job_name=nightly"], None),
    ],
)
def test_the_launcher_is_killed_where_it_submits_its_job(
    tmp_path, cluster, slow_photos, on_flink, slow_hashes, run, method, more, is_submitted
):
    words, before = [f"--input={slow_photos}", *SLOW, *on_flink, *more], len(cluster.get("/jobs")["jobs"])
    # A step that follows what it is told to do is the last one.
    code = f"""
import os, signal, sys
from beam_tfrecords.beam_pipelines.commands.cli import main
from beam_tfrecords.beam_pipelines.runners import flink_runner
from beam_tfrecords.beam_pipelines.runners.jobs import JobRecord

def killed(*words, does={method}):
    if does.__name__ == "write":
        does(*words)
    os.kill(os.getpid(), signal.SIGKILL)

{method} = killed
main(sys.argv[1:])
"""
    command = [sys.executable, "-c", code, "convert", f"--output={tmp_path / 'out'}", *words]
    assert subprocess.run(list(map(str, command)), cwd=processes.PROJECT, check=False).returncode == -signal.SIGKILL
    # Flink may still be planning it.
    count = int(method != "JobRecord.write")
    processes.wait_until(lambda: len(cluster.running_jobs()) == count, what="the job in the list")
    state = json.loads(run("status", f"--output={tmp_path / 'out'}", "--json").out)["state"]
    assert (state in ("submitted", "running")) == bool(is_submitted), state
    if is_submitted is None:
        assert not list((tmp_path / "out").glob(".build/*/job.json"))
        return
    again = ClusterBuild(tmp_path / "out", *words)
    check(again, {}, slow_hashes, says="the job of this build runs already" if is_submitted else "")
    # No second job has done the same work.
    assert len(cluster.get("/jobs")["jobs"]) == before + 1


@pytest.mark.nightly
def test_a_job_without_a_launcher_keeps_other_builds_away(build, cluster, slow_photos, run):
    build.wait_for_open_blocks(finished=1)
    os.kill(build.pid, signal.SIGKILL)
    build.wait()
    (job,) = cluster.running_jobs()
    other = run("convert", f"--input={slow_photos}", f"--output={build.output}", "--image_size=8")
    assert other.code == 4
    assert "the job of another build is writing to it" in other.err
    assert job in other.err
    assert list(build.output.glob(".build/*/blocks/*.started"))


@pytest.mark.nightly
def test_a_job_is_cancelled_and_submitted_again(build, cluster, slow_photos, on_flink, slow_hashes):
    finished = build.wait_for_open_blocks()
    (job,) = cluster.running_jobs()
    cluster.cancel(job)
    ended = build.wait()
    assert (ended.code, f"job {job} was canceled" in ended.err) == (1, True), ended.err
    again = ClusterBuild(build.output, f"--input={slow_photos}", *SLOW, *on_flink)
    check(again, finished, slow_hashes)


@pytest.mark.nightly
def test_a_job_that_the_cluster_gives_up_is_submitted_again(without_restarts, build, cluster, slow_hashes):
    finished = build.wait_for_open_blocks()
    os.kill(cluster.python_workers()[0], signal.SIGKILL)
    check(build, finished, slow_hashes, says="a new one resumes from the finished blocks")


@pytest.mark.nightly
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_sigterm_cancel_the_job(build, cluster, number, code):
    build.wait_for_open_blocks()
    os.kill(build.pid, number)
    ended = build.wait()
    assert ended.code == code, ended.err
    assert "the same command resumes from its finished blocks" in ended.err
    assert not cluster.running_jobs()


@pytest.mark.nightly
def test_sigterm_leaves_the_job_where_the_request_says_so(cluster, slow_photos, on_flink, tmp_path, slow_hashes):
    words = [f"--input={slow_photos}", *SLOW, *on_flink, "--keep_job"]
    build = ClusterBuild(tmp_path / "out", *words)
    finished = build.wait_for_open_blocks()
    (job,) = cluster.running_jobs()
    os.kill(build.pid, signal.SIGTERM)
    assert build.wait().code == 143
    assert cluster.running_jobs() == [job]
    check(ClusterBuild(build.output, *words), finished, slow_hashes, says="the job of this build runs already")


@pytest.mark.nightly
def test_a_full_disk_ends_the_build_and_the_same_command_resumes(tmp_path, slow_photos, on_flink, slow_hashes):
    out = tmp_path / "disk" / "out"
    out.parent.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=30m", "tmpfs", out.parent], check=False)
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs: run as root")
    try:
        words = [f"--input={slow_photos}", *SLOW, *on_flink]
        full = ClusterBuild(out, *words)
        ended = full.wait()
        assert ended.code == 1
        assert "No space left on device; the same command resumes once there is room" in ended.err
        finished = full.finished_blocks()
        subprocess.run(["mount", "-o", "remount,size=2g", out.parent], check=True)
        check(ClusterBuild(out, *words), finished, slow_hashes)
    finally:
        subprocess.run(["umount", "--lazy", out.parent], check=True)
