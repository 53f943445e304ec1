"""Input and output on a disk in user space: the same bytes, and its faults end a build, which resumes."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS, manifest_of, shards_of
from tests.progress_lines import without_progress

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="needs /dev/fuse, and root"),
]
SERVER = Path(__file__).with_name("servers") / "fuse_disk.py"
FLAGS = ["--quiet", "--name=photos", "--image_size=64", "--num_shards=3"]


class Disk:
    """A mounted disk.

    Attributes:
      path: where it is mounted.
    """

    def __init__(self, folder: Path) -> None:
        self.path, self._root, self._switch = folder / "disk", folder / "root", folder / "switch"
        for needed in (self.path, self._root):
            needed.mkdir()
        self.mount()

    def mount(self) -> None:
        command = [sys.executable, SERVER, self._root, self.path, self._switch]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while not os.path.ismount(self.path):
            if self._process.poll() is not None:
                pytest.skip("needs a disk that can be mounted: mfusepy, libfuse and root")
            time.sleep(0.01)

    def disconnect(self) -> None:
        """As if its server was unreachable: every call gets ENOTCONN."""
        self._process.kill()
        self._process.wait()

    def unmount(self) -> None:
        self.disconnect()
        ctypes.CDLL(None).umount2(os.fsencode(self.path), 2)  # MNT_DETACH

    @contextlib.contextmanager
    def faulty(self, call: str, code: int, part: str) -> Iterator[None]:
        """A call fails for some paths until the block ends."""
        self._switch.write_text(f"{call} {code} {part}")
        yield
        self._switch.unlink()


@pytest.fixture
def disk(tmp_path) -> Iterator[Disk]:
    disk = Disk(tmp_path)
    yield disk
    disk.unmount()


@pytest.fixture
def photos_there(disk, photos) -> Path:
    """The photos on the disk."""
    subprocess.run(["cp", "-r", photos, disk.path / "photos"], check=True)
    return disk.path / "photos"


@pytest.fixture(scope="module")
def expected(photos, tmp_path_factory, build) -> dict[str, bytes]:
    return shards_of(build(tmp_path_factory.mktemp("expected"), f"--input={photos}", *FLAGS))


def start(*words: object) -> subprocess.Popen[str]:
    command = [BEAM_TFRECORDS, "convert", *map(str, words), *FLAGS]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, err = process.communicate(timeout=300)
    return process.returncode, without_progress(err)


def test_a_build_makes_the_same_bytes_and_is_taken_for_done(disk, photos_there, expected, verify):
    flags = [f"--input={photos_there}", f"--output={disk.path / 'out'}", "--versioned"]
    assert finish(start(*flags))[0] == 0
    version = disk.path / "out" / (disk.path / "out/LATEST").read_text().strip()
    assert shards_of(version) == expected
    assert verify(version).code == 0
    assert finish(start(*flags)) == (0, "")
    assert (disk.path / "out/LATEST").read_text().strip() == version.name


def test_an_archive_with_other_inodes_at_every_look_is_not_taken_for_changed(disk, photos, expected, tmp_path):
    with tarfile.open(disk.path / "photos.tar", "w") as archive:
        archive.add(photos, arcname=".")
    code, err = finish(start(f"--input={disk.path / 'photos.tar'}", f"--output={disk.path / 'out'}"))
    assert code == 0, err
    assert manifest_of(disk.path / "out")["failures"] == 0
    assert shards_of(disk.path / "out") == expected


def test_a_second_build_is_refused_and_a_killed_one_resumes(disk, photos_there, expected):
    flags = [f"--input={photos_there}", f"--output={disk.path / 'out'}"]
    first = start(*flags)
    wait_for(disk.path, "out/.build/*/blocks/*.started", first)
    os.killpg(first.pid, signal.SIGSTOP)
    code, err = finish(start(*flags))
    assert (code, "another build is writing to it" in err) == (4, True)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    assert finish(start(*flags)) == (0, "")
    assert shards_of(disk.path / "out") == expected


def wait_for(root: Path, pattern: str, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 300
    while not list(root.glob(pattern)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize(
    ("call", "code", "part"),
    [
        ("read", errno.EIO, "cat_03"),
        ("open", errno.EIO, "cat_03"),
        ("write", errno.EIO, ".build"),
        ("write", errno.EIO, "parts/"),
        ("write", errno.ENOSPC, "parts/"),
        ("fsync", errno.EIO, ".tfrecord-"),
        ("create", errno.EIO, "out/photos-train.tfrecord-"),
        ("rename", errno.EIO, "parts/"),
        ("unlink", errno.EIO, ".build"),
        ("mkdir", errno.EROFS, "parts"),
    ],
)
def test_a_fault_ends_a_build_with_one_line_and_it_resumes(disk, photos_there, expected, call, code, part):
    flags = [f"--input={photos_there}", f"--output={disk.path / 'out'}", "--max_failures=1"]
    with disk.faulty(call, code, part):
        ended, err = finish(start(*flags))
    (line,) = err.splitlines()
    assert ended == 1, line
    assert os.strerror(code) in line
    assert "the same command resumes" in line
    assert finish(start(*flags))[0] == 0
    assert shards_of(disk.path / "out") == expected
    assert manifest_of(disk.path / "out")["failures"] == 0


def test_a_disk_that_goes_away_ends_a_build_with_one_line_and_it_resumes(disk, photos_there, expected):
    flags = [f"--input={photos_there}", f"--output={disk.path / 'out'}", "--max_failures=1"]
    process = start(*flags)
    wait_for(disk.path, "out/.build/*/blocks/*.started", process)
    disk.disconnect()
    code, err = finish(process)
    (line,) = err.splitlines()
    assert code == 1
    assert os.strerror(errno.ENOTCONN) in line
    disk.unmount()
    disk.mount()
    assert finish(start(*flags)) == (0, "")
    assert shards_of(disk.path / "out") == expected
