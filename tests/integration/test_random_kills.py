"""Something dies at a random time of a build on Flink, and the next command is given: the bytes are the local ones.

CASES names other cases: task_manager:0-19,job_manager:0-1,launcher:0-4 takes half an
hour. What happened is printed, a line of JSON for each case: `-s` shows it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cluster_builds import ClusterBuild, Ended, Hashes, hashes, slow_photos
from tests.integration.servers import flink, processes

pytestmark = pytest.mark.nightly

__all__ = ["slow_photos"]

# Short enough that a random time meets the stages before and after the conversion too.
FLAGS = [
    "--image_size=400",
    "--upscale",
    "--image_encoding=png",
    "--codec=exact",
    "--num_shards=4",
    "--duplicates=drop",
]
MOST_COMMANDS = 4
# What an error tells a person who would give the same command again.
GOES_ON = ("the same command resumes", "the same command follows", "was canceled", NO_SLOT := "task slots is free")


def read_cases(text: str) -> list[tuple[str, int]]:
    """`task_manager:0-2,cancel:7` -> what dies, and the seed of the time."""
    cases = []
    for word in text.split(","):
        what, _, seeds = word.partition(":")
        first, _, last = seeds.partition("-")
        cases += [(what, seed) for seed in range(int(first), int(last or first) + 1)]
    return cases


CASES = read_cases(os.environ.get("CASES", "task_manager:0-1,job_manager:0,launcher:0,cancel:0"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[flink.FlinkCluster]:
    with flink.flink_cluster(tmp_path_factory.mktemp("flink")) as running:
        yield running


@pytest.fixture(scope="module")
def local_hashes(slow_photos: Path, run: Any) -> Hashes:
    output = slow_photos.parent / "local_small"
    ran = run("convert", f"--input={slow_photos}", f"--output={output}", *FLAGS)
    assert ran.code == 0, ran.err
    return hashes(output)


@pytest.fixture(scope="module")
def words(slow_photos: Path, cluster: flink.FlinkCluster) -> list[str]:
    return [f"--input={slow_photos}", *FLAGS, "--runner=FlinkRunner", f"--flink_master={cluster.master}"]


@pytest.fixture(scope="module")
def seconds(words: list[str], local_hashes: Hashes, tmp_path_factory: pytest.TempPathFactory) -> float:
    """What an undisturbed build takes."""
    for _ in range(2):  # the first one loads the classes of Flink
        start = time.monotonic()
        build = ClusterBuild(tmp_path_factory.mktemp("undisturbed") / "out", *words)
        assert build.wait().code == 0
        assert hashes(build.output) == local_hashes
    return time.monotonic() - start


def disturb(what: str, build: ClusterBuild, cluster: flink.FlinkCluster, chance: random.Random) -> str | None:
    """Lets something die; returns what, or None if the job that is to be cancelled has just ended."""
    if what == "task_manager":
        number = chance.choice([1, 2])
        cluster.kill_task_manager(number)
        # As soon as a machine is there.
        time.sleep(chance.uniform(0, 5))
        cluster.start_task_manager()
        return f"task manager {number}"
    if what == "job_manager":
        cluster.restart_job_manager()
        return "job manager"
    if what == "launcher":
        with contextlib.suppress(ProcessLookupError):
            os.kill(build.pid, signal.SIGKILL)
        return "launcher"
    while not (jobs := cluster.running_jobs()) and build.is_running:
        time.sleep(0.1)
    if not jobs:
        return None
    cluster.cancel(jobs[0])
    return "job cancelled"


@pytest.mark.nightly
@pytest.mark.parametrize(("what", "seed"), CASES)
def test_after_something_has_died_the_same_command_ends_with_the_same_bytes(
    tmp_path, cluster, words, seconds, local_hashes, what, seed
):
    wait_for_slots(cluster)
    chance = random.Random(f"{what} {seed}")
    moment = chance.uniform(0, seconds)
    build = ClusterBuild(tmp_path / "out", *words)
    # How long a build takes depends on what else the machine does: of one that has ended there is nothing to kill.
    while not runs_for(build, moment):
        moment /= 2
        build = ClusterBuild(tmp_path / f"out_{moment}", *words)
    finished = build.finished_blocks()
    died = disturb(what, build, cluster, chance)
    builds, commands = [build], [build.wait()]
    while commands[-1].code and len(commands) < MOST_COMMANDS:
        assert what == "launcher" or any(word in commands[-1].err for word in GOES_ON), commands[-1].err
        if NO_SLOT in commands[-1].err:
            wait_for_slots(cluster)
        builds.append(ClusterBuild(build.output, *words))
        commands.append(builds[-1].wait())
    row = {"died": died, "seed": seed, "second": round(moment), "blocks": len(finished)}
    print(json.dumps(row | {"commands": [(one.code, said(one)) for one in commands]}), flush=True)
    assert commands[-1].code == 0, commands
    assert hashes(build.output) == local_hashes
    assert not (build.output / ".build").exists()
    assert not cluster.running_jobs()
    # Nothing that was finished was lost.
    assert [one.converted_twice(finished) for one in builds] == [[]] * len(builds)


def runs_for(build: ClusterBuild, seconds: float) -> bool:
    """Whether a build runs for so many seconds; returns at its end, if that comes first."""
    end = time.monotonic() + seconds
    while build.is_running and time.monotonic() < end:
        time.sleep(0.05)
    return build.is_running


def wait_for_slots(cluster: flink.FlinkCluster) -> None:
    """Waits until task managers have let go of the slots of a lost job."""
    processes.wait_until(lambda: cluster.get("/overview")["slots-available"] == 2, what="two free slots")


def said(ended: Ended) -> list[str]:
    """What a command has said of jobs, and its error."""
    kept = [line for line in ended.err.splitlines() if "job" in line or "starts tasks again" in line]
    return [line[:160] for line in kept if not line.startswith("Flink 1.")]
