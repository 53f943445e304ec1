"""Processes that the kernel kills when memory runs out: one line names it, no sample is rejected, and it resumes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.beam_pipelines.conftest import make_picture, save_picture
from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS, manifest_of, shards_of
from tests.progress_lines import without_progress

pytestmark = pytest.mark.nightly

CONTROLLER = Path("/sys/fs/cgroup/memory")
MIB = 1 << 20
FLAGS = ["--quiet", "--image_size=32", "--num_shards=1"]


@contextlib.contextmanager
def _group(limit: int) -> Iterator[Path]:
    """A control group with this many bytes of memory; version 1 or 2 of the kernel's interface."""
    is_old = CONTROLLER.is_dir()
    folder = (CONTROLLER if is_old else CONTROLLER.parent) / f"beam-tfrecords-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / ("memory.limit_in_bytes" if is_old else "memory.max")).write_text(str(limit))
    except OSError as error:
        pytest.skip(f"needs a control group for memory: {error}")
    try:
        yield folder
    finally:
        deadline = time.monotonic() + 60
        while (folder / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(0.1)
        folder.rmdir()


def convert(
    *words: str, group: Path | None = None, folder: Path | None = None, workers: int = 2
) -> subprocess.CompletedProcess[str]:
    def enter() -> None:
        if group is not None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    command = [BEAM_TFRECORDS, "convert", *words, *FLAGS, f"--direct_num_workers={workers}"]
    return subprocess.run(
        command, preexec_fn=enter, capture_output=True, text=True, timeout=300, check=False, cwd=folder
    )


def test_a_build_whose_workers_are_killed_for_their_memory_says_so_and_resumes(tmp_path):
    for number in range(40):
        save_picture(tmp_path / "in" / ("cat", "dog")[number % 2] / f"{number}.png", make_picture(number, 30, 30))
    save_picture(tmp_path / "in/cat/large.png", np.zeros((12_000, 12_000, 3), np.uint8), compress_level=1)
    flags = [f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}"]
    with _group(400 * MIB) as group:
        ran = convert(*flags, group=group)
        assert (ran.returncode, ran.stdout) == (1, ""), ran.stderr
        (line,) = without_progress(ran.stderr).splitlines()
        assert line == (
            f"beam-tfrecords: the run failed: the decoder was killed twice at {tmp_path}/in/cat/large.png; the "
            "system kills a process when memory runs out; allow more, or set less with --max_image_memory or "
            "--direct_num_workers; the same command resumes"
        )
        # With the remedy, it is rejected.
        ran = convert(
            flags[0], f"--output={tmp_path / 'other'}", "--max_image_memory=100MB", "--max_failures=1", group=group
        )
        assert ran.returncode == 0, ran.stderr
        assert manifest_of(tmp_path / "other")["failure_reasons"] == {"too_much_memory": 1}
    ran = convert(*flags)
    assert ran.returncode == 0, ran.stderr
    assert (manifest_of(tmp_path / "out")["records"], manifest_of(tmp_path / "out")["failures"]) == (41, 0)


# In two workers, a build of these pictures needs less than half of this.
_OF_FUNCTIONS = 500 * MIB
FUNCTIONS = """
held = []

def leak(sample):
    held.append(b"x" * 20_000_000)
    return sample

def take_all(sample):
    if sample.key == "cat/20.png":
        held.extend(b"x" * 20_000_000 for _ in range(100))
    return sample
"""


@pytest.fixture
def steps(tmp_path) -> Path:
    """A folder with pictures, and a module whose functions take memory."""
    for number in range(40):
        save_picture(tmp_path / "in" / ("cat", "dog")[number % 2] / f"{number}.png", make_picture(number, 30, 30))
    (tmp_path / "greedy.py").write_text(FUNCTIONS)
    return tmp_path


def test_a_function_that_keeps_memory_costs_workers_and_no_sample(steps):
    expected = convert("--input=in", "--output=expected", folder=steps)
    assert expected.returncode == 0, expected.stderr
    with _group(_OF_FUNCTIONS) as group:
        # Of several, the kernel may kill one for what another keeps.
        ran = convert("--input=in", "--output=out", "--map=greedy:leak", group=group, folder=steps, workers=1)
    assert ran.returncode == 0, ran.stderr
    assert shards_of(steps / "out") == shards_of(steps / "expected")


def test_a_function_that_takes_all_memory_ends_the_build_and_is_named_with_its_sample(steps):
    with _group(_OF_FUNCTIONS) as group:
        ran = convert("--input=in", "--output=out", "--map=greedy:take_all", group=group, folder=steps)
    assert (ran.returncode, ran.stdout) == (1, ""), ran.stderr
    (line,) = without_progress(ran.stderr).splitlines()
    assert f"the function of --map was killed twice at {steps}/in/cat/20.png; " in line
    # With more memory, the same command goes on.
    ran = convert("--input=in", "--output=out", "--map=greedy:take_all", folder=steps)
    assert ran.returncode == 0, ran.stderr
    assert manifest_of(steps / "out")["records"] == 40
