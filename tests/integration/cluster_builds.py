"""Builds on a cluster, as a user starts them, watched from outside while something happens to them."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from PIL import Image

from beam_tfrecords import open_dataset
from tests.core.hostile import make_builds_hostile
from tests.integration.servers import processes

# File, CRC-32C and SHA-256 of the index of every shard.
Hashes: TypeAlias = "list[tuple[str, str | None, str | None]]"

PROGRAM = Path(sys.executable).with_name("beam-tfrecords")
# A photo takes some 0.2 s: blocks stay open long enough for something to happen to them.
SLOW = ["--image_size=700", "--upscale", "--image_encoding=png", "--codec=exact", "--num_shards=4"]


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a launcher ended."""

    code: int
    out: str
    err: str


class ClusterBuild:
    """A running `convert`, in a process of its own.

    Args:
      output: of the build.
      words: flags.
    """

    def __init__(self, output: Path, *words: Any) -> None:
        self.output = output
        # Checkpoint of a block -> times of modification that it was seen with.
        self._seen: dict[str, set[int]] = {}
        self._launcher = subprocess.Popen(
            [PROGRAM, "convert", f"--output={output}", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Modules of the tests, for conversions that crash.
            cwd=processes.PROJECT,
        )
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def pid(self) -> int:
        """Process number of the launcher."""
        return self._launcher.pid

    @property
    def is_running(self) -> bool:
        """Whether the launcher has not ended."""
        return self._launcher.poll() is None

    def finished_blocks(self) -> dict[str, int]:
        """Checkpoints of finished blocks, with their time of modification."""
        found = {}
        for path in self.output.glob(".build/*/blocks/*.json"):
            try:
                found[path.name] = path.stat().st_mtime_ns
            except OSError:
                continue
        return found

    def wait_for_open_blocks(self, finished: int = 2) -> dict[str, int]:
        """Waits until some blocks are finished and another is open; returns the finished ones."""

        def is_open() -> bool:
            assert self.is_running, self._launcher.communicate()
            started = len(list(self.output.glob(".build/*/blocks/*.started")))
            return len(self.finished_blocks()) >= finished and started > len(self.finished_blocks())

        processes.wait_until(is_open, what="open blocks")
        return self.finished_blocks()

    def wait(self, seconds: float = 240) -> Ended:
        """Waits for the launcher's end."""
        out, err = self._launcher.communicate(timeout=seconds)
        return Ended(self._launcher.returncode, out, err)

    def converted_twice(self, blocks: dict[str, int]) -> list[str]:
        """Those of the blocks whose checkpoint was written again since."""
        return [name for name, when in blocks.items() if self._seen.get(name, {when}) - {when}]

    def _watch(self) -> None:
        while self.is_running:
            for name, when in self.finished_blocks().items():
                self._seen.setdefault(name, set()).add(when)
            time.sleep(0.05)


def make_hostile(monkeypatch: pytest.MonkeyPatch, **keys: str) -> list[str]:
    """Lets the conversions of builds of this process end or keep their worker at some keys, as `Hostile` says.

    Returns:
      Flags by which Python workers of a cluster find the modules of the tests.
    """
    make_builds_hostile(monkeypatch, **keys)
    worker = {"command": str(PROGRAM.with_name("beam-tfrecords-worker")), "env": {"PYTHONPATH": str(processes.PROJECT)}}
    return ["--environment_type=PROCESS", f"--environment_config={json.dumps(worker)}"]


def read_reasons(output: Path) -> dict[str, str]:
    """Key of a rejected sample -> why it was rejected."""
    failures = map(json.loads, (output / "failures.jsonl").read_text().splitlines())
    return {failure["key"]: failure["reason"] for failure in failures}


def check(build: ClusterBuild, finished: dict[str, int], expected: Hashes, *, says: str = "") -> None:
    """Checks that a build ends well, with these hashes, and converts none of the finished blocks again."""
    ended = build.wait()
    assert ended.code == 0, ended.err
    assert says in ended.err
    assert hashes(build.output) == expected
    assert build.converted_twice(finished) == []


def hashes(output: Path) -> Hashes:
    """The hashes of a finished dataset."""
    return [(shard.file, shard.crc32c, shard.index_sha256) for shard in open_dataset(str(output)).shards]


@pytest.fixture(scope="session")
def slow_photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """112 pictures that take a while, in files so large that there are seven blocks or more of them."""
    root = tmp_path_factory.mktemp("slow") / "in"
    pixels = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((640, 480), Image.Resampling.BICUBIC).save(root.parent / "big.png")
    big = (root.parent / "big.png").read_bytes()
    for number in range(112):
        folder = root / f"class{number % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        # Distinct bytes behind the end of the picture.
        (folder / f"{number}.png").write_bytes(big + bytes(2 << 20) + b"%d" % number)
    return root


@pytest.fixture(scope="session")
def slow_hashes(slow_photos: Path, run: Any) -> Hashes:
    """What the local runner makes of them."""
    output = slow_photos.parent / "local"
    ran = run("convert", f"--input={slow_photos}", f"--output={output}", *SLOW)
    assert ran.code == 0, ran.err
    return hashes(output)
