"""Builds of versions that are killed at any moment: the same command then ends as if nothing had happened."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS
from tests.beam_pipelines.version_builds import CLASSES, content_of

pytestmark = pytest.mark.nightly

# 40 more take three minutes: TRIALS=60 make test-integration.
TRIALS = int(os.environ.get("TRIALS", "20"))
WORKERS = 2
FLAGS = ["--name=pets", "--image_size=64", "--versioned", "--keep_versions=1", "--grace=0s", "--guard=off", "--quiet"]
# Moments that are too short for a random time to meet: patterns of files that are there, or not any more.
MOMENTS = (
    "2*/*.tfrecord-*",
    "2*/manifest.json",
    "2*/changes.json",
    "2*/_SUCCESS",
    "LATEST",
    "-{old}/_SUCCESS",
    "-{old}",
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """An input with a first version of it, then changed; and the version that an undisturbed build makes of it."""
    root = tmp_path_factory.mktemp("prepared")
    generator = np.random.default_rng(0)
    for number in range(160):
        path = root / f"in/{CLASSES[number % 3]}/{number:03d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        save_picture(path, generator)
    build(root / "in", root / "out")
    for number in range(0, 160, 4):
        path = root / f"in/{CLASSES[number % 3]}/{number:03d}.jpg"
        save_picture(path, generator)
    (root / "in/owl/002.jpg").unlink()
    shutil.copytree(root / "out", root / "before")
    build(root / "in", root / "out")
    return root


def save_picture(path: Path, generator: np.random.Generator) -> None:
    """A picture in a file so large that there are ten blocks of 160."""
    Image.fromarray(generator.integers(0, 256, (300, 400, 3), dtype=np.uint8)).save(path)
    with path.open("ab") as file:
        file.write(bytes(2 << 20))


def command(pictures: Path, output: Path) -> list[str]:
    return [str(BEAM_TFRECORDS), "convert", f"--input={pictures}", f"--output={output}", *FLAGS]


def build(pictures: Path, output: Path) -> None:
    done = subprocess.run(command(pictures, output), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def latest(root: Path) -> Path:
    return root / "out" / (root / "out/LATEST").read_text().strip()


def wait_for(root: Path, pattern: str, old: str, process: subprocess.Popen) -> None:
    pattern = pattern.format(old=old)
    while process.poll() is None:
        found = [path for path in (root / "out").glob(pattern.lstrip("-")) if old not in path.parts or "-" in pattern]
        if pattern == "LATEST":
            with contextlib.suppress(OSError):
                found = [1] if (root / "out/LATEST").read_text().strip() != old else []
        if bool(found) is not pattern.startswith("-"):
            return
        time.sleep(0.001)


@contextlib.contextmanager
def watch_checkpoints(root: Path) -> Iterator[set[str]]:
    """The finished blocks whose checkpoints are written once more, in the block."""
    known = {path.name: path.stat().st_ino for path in root.glob("out/.build/*/blocks/*.json")}
    again: set[str] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            for path in root.glob("out/.build/*/blocks/*.json"):
                with contextlib.suppress(OSError):
                    if path.stat().st_ino != known.get(path.name, path.stat().st_ino):
                        again.add(path.name)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield again
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("trial", range(TRIALS))
def test_a_killed_build_ends_as_an_undisturbed_one(prepared, tmp_path, trial):
    shutil.copytree(prepared / "before", tmp_path / "out")
    old = latest(tmp_path).name
    chance = random.Random(trial)
    process = subprocess.Popen(
        command(prepared / "in", tmp_path / "out"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    if trial < 40:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.2, 3.0))
    else:
        wait_for(tmp_path, MOMENTS[trial % len(MOMENTS)], old, process)
        time.sleep(chance.choice([0, 0.001, 0.005]))
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if latest(tmp_path).name == old:  # else the checkpoints are being removed, in any order
        opened = len(list(tmp_path.glob("out/.build/*/blocks/*.started")))
        finished = len(list(tmp_path.glob("out/.build/*/blocks/*.json")))
        assert opened - finished <= WORKERS  # only these are converted twice
    with watch_checkpoints(tmp_path) as again:
        build(prepared / "in", tmp_path / "out")
    assert not again
    assert content_of(latest(tmp_path)) == content_of(latest(prepared))
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"LATEST", latest(tmp_path).name}
