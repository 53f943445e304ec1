"""A disk that is full: one line, exit code 1, no hang, and the same command resumes once there is room.

Root mounts them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.beam_pipelines.conftest import make_picture, save_picture
from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS, manifest_of, shards_of
from tests.progress_lines import without_progress

pytestmark = pytest.mark.nightly

FLAGS = ["--name=pets", "--image_size=64", "--image_encoding=png", "--codec=exact", "--num_shards=2"]


@contextlib.contextmanager
def disk(folder: Path, size: int) -> Iterator[None]:
    """A file system of so many bytes, in memory."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture(scope="module")
def pets(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("full") / "pets"
    for number in range(60):
        save_picture(root / ("cat", "dog")[number % 2] / f"{number}.png", make_picture(number, 100, 100))
    return root


@pytest.fixture(scope="module")
def expected(pets, build) -> Path:
    return build(pets.parent / "expected", f"--input={pets}", *FLAGS)


def can_mount() -> bool:
    # Root in a container often may not.
    tried = subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True)
    return os.geteuid() == 0 and tried.returncode == 0


@pytest.mark.skipif(not can_mount(), reason="needs the right to mount a tmpfs: run as root")
@pytest.mark.parametrize("share", [0.01, 0.5, 1.2, 1.9], ids=["at the start", "in a block", "in a shard", "at the end"])
def test_a_build_ends_with_one_line_and_resumes_when_there_is_room(pets, expected, tmp_path, build, share):
    size = int(share * sum(len(data) for data in shards_of(expected).values()))
    flags = [f"--input={pets}", *FLAGS]
    with disk(tmp_path / "disk", size):
        command = [BEAM_TFRECORDS, "convert", f"--output={tmp_path / 'disk/out'}", *flags]
        full = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert (full.returncode, full.stdout) == (1, "")
        (line,) = without_progress(full.stderr).splitlines()
        assert line.startswith(f"beam-tfrecords: the run failed: {tmp_path / 'disk/out'}")
        assert line.endswith("cannot be written: No space left on device; the same command resumes once there is room")
        assert not (tmp_path / "disk/out/_SUCCESS").exists()
        subprocess.run(["mount", "-o", "remount,size=64m", tmp_path / "disk"], check=True)
        build(tmp_path / "disk/out", *flags)
        assert shards_of(tmp_path / "disk/out") == shards_of(expected)
        assert manifest_of(tmp_path / "disk/out")["shards"] == manifest_of(expected)["shards"]
        assert not (tmp_path / "disk/out/.build").exists()


@pytest.mark.skipif(not can_mount(), reason="needs the right to mount a tmpfs: run as root")
def test_shared_memory_may_be_full(pets, expected, tmp_path):
    script = 'set -e; mount -t tmpfs -o size=4k tmpfs /dev/shm; head -c 4096 /dev/zero > /dev/shm/full; exec "$@"'
    alone = ("unshare", "--mount", "sh", "-c", script, "sh", BEAM_TFRECORDS)
    output = tmp_path / "out"
    subprocess.run([*alone, "convert", f"--input={pets}", f"--output={output}", *FLAGS], check=True)
    assert shards_of(output) == shards_of(expected)
    subprocess.run([*alone, "verify", f"--dataset={output}"], check=True)
