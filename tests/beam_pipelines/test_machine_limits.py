"""Builds under limits of the system: one clear line, no rejected sample, and the same command resumes without them."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS, manifest_of, shards_of
from tests.progress_lines import without_progress

pytestmark = pytest.mark.local_runner

FLAGS = ["--quiet", "--image_size=32", "--image_encoding=png", "--num_shards=2"]
WORKERS = "--direct_num_workers=2"
MIB = 1 << 20


@pytest.fixture(scope="module")
def photos(tmp_path_factory, picture, save) -> Path:
    """Sixty pictures of two classes, half of them JPEGs."""
    root = tmp_path_factory.mktemp("limits") / "photos"
    for number in range(60):
        kind = ("png", "jpg")[number // 2 % 2]
        save(root / ("cat", "dog")[number % 2] / f"{number}.{kind}", picture(number, 200, 300))
    return root


@pytest.fixture(scope="module")
def expected(photos, tmp_path_factory, build) -> dict[str, bytes]:
    """The shards of a build without limits."""
    return shards_of(build(tmp_path_factory.mktemp("expected"), f"--input={photos}", *FLAGS))


def run(
    command: str,
    *words: object,
    limits: Mapping[int, tuple[int, int]] | None = None,
    prefix: tuple[str, ...] = (),
    timeout: float = 120,
    **variables: object,
) -> subprocess.CompletedProcess[str]:
    """Runs a command under limits: (soft, hard) of each resource."""

    def set_limits() -> None:
        for one, values in (limits or {}).items():
            resource.setrlimit(one, values)

    return subprocess.run(
        [*prefix, BEAM_TFRECORDS, command, *map(str, words)],
        preexec_fn=set_limits,
        env={**os.environ, **{name: str(value) for name, value in variables.items()}},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def assert_refused(ran: subprocess.CompletedProcess[str], code: int, said: str) -> None:
    assert (ran.returncode, ran.stdout) == (code, ""), ran.stderr
    err = without_progress(ran.stderr)
    assert err.startswith("beam-tfrecords: ")
    assert err.count("\n") == 1, err
    assert said in ran.stderr


# Open files


@pytest.mark.nightly
def test_a_soft_limit_of_open_files_is_raised_as_far_as_needed(photos, expected, tmp_path):
    limits = {resource.RLIMIT_NOFILE: (20, 4096)}
    ran = run("convert", f"--input={photos}", f"--output={tmp_path / 'out'}", *FLAGS, limits=limits)
    assert ran.returncode == 0, ran.stderr
    assert shards_of(tmp_path / "out") == expected


@pytest.mark.nightly
@pytest.mark.parametrize("command", ["status", "inspect"])
def test_what_only_looks_at_a_dataset_needs_few_open_files(photos, tmp_path, build, command):
    output = build(tmp_path / "out", f"--input={photos}", *FLAGS)
    flag = f"--output={output}" if command == "status" else f"--dataset={output}"
    ran = run(command, flag, limits={resource.RLIMIT_NOFILE: (12, 12)})
    assert "Traceback" not in ran.stderr
    assert ran.returncode == 0 or len(ran.stderr.splitlines()) == 1, ran.stderr


# Memory


@pytest.mark.nightly
@pytest.mark.parametrize("megabytes", [1100, 2500])
def test_under_any_limit_of_memory_a_build_is_right_or_says_so_in_one_line(photos, expected, tmp_path, megabytes):
    flags = [f"--input={photos}", f"--output={tmp_path / 'out'}", *FLAGS, WORKERS]
    ran = run("convert", *flags, limits={resource.RLIMIT_AS: (megabytes * MIB,) * 2})
    if ran.returncode:
        assert_refused(ran, 1, "memory")
        ran = run("convert", *flags)
        assert ran.returncode == 0, ran.stderr
    assert shards_of(tmp_path / "out") == expected
    assert manifest_of(tmp_path / "out")["failures"] == 0


# Size of files


@pytest.mark.nightly
def test_a_limit_of_the_size_of_files_ends_a_build_which_resumes_without_it(photos, expected, tmp_path):
    flags = [f"--input={photos}", f"--output={tmp_path / 'out'}", *FLAGS, WORKERS]
    ran = run("convert", *flags, limits={resource.RLIMIT_FSIZE: (20 << 10,) * 2})
    assert_refused(ran, 1, "File too large; the same command resumes once files may be larger, see `ulimit -f`")
    ran = run("convert", *flags)
    assert ran.returncode == 0, ran.stderr
    assert shards_of(tmp_path / "out") == expected


# Temporary files


@pytest.mark.nightly
def test_a_missing_temporary_folder_is_not_missed(photos, expected, tmp_path):
    ran = run("convert", f"--input={photos}", f"--output={tmp_path / 'out'}", *FLAGS, TMPDIR=tmp_path / "gone")
    assert ran.returncode == 0, ran.stderr
    assert shards_of(tmp_path / "out") == expected


@pytest.fixture
def read_only_system(tmp_path) -> tuple[str, ...]:
    """Runs a command where no disk can be written."""
    (tmp_path / "root").mkdir()
    script = 'mount --rbind / "$0" && mount -o remount,bind,ro "$0" && mount -t tmpfs -o ro tmpfs "$0/dev/shm" &&'
    prefix = ("unshare", "--mount", "sh", "-c", f'{script} exec chroot "$0" "$@"', str(tmp_path / "root"))
    if (
        shutil.which("unshare") is None
        or subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("needs to mount a disk: root and unshare")
    return prefix


def test_without_a_temporary_folder_nothing_is_started(photos, tmp_path, read_only_system):
    ran = run("convert", f"--input={photos}", f"--output={tmp_path / 'out'}", *FLAGS, prefix=read_only_system)
    assert_refused(ran, 2, "No usable temporary directory found in ")
    assert "; set TMPDIR to a folder that can be written" in ran.stderr


@pytest.mark.nightly
def test_a_temporary_folder_may_have_a_path_that_is_too_long_for_sockets(photos, expected, tmp_path):
    folder = tmp_path / ("long" * 20)
    folder.mkdir()
    flags = [f"--input={photos}", f"--output={tmp_path / 'out'}", *FLAGS, WORKERS]
    command = [BEAM_TFRECORDS, "convert", *flags]
    environment = {**os.environ, "TMPDIR": str(folder)}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert shards_of(tmp_path / "out") == expected
    assert not list(folder.iterdir())


@pytest.mark.nightly
def test_a_build_goes_on_after_its_temporary_folder_was_removed_and_its_workers_died(photos, expected, tmp_path):
    temporary = tempfile.mkdtemp(dir="/tmp")
    flags = [f"--input={photos}", f"--output={tmp_path / 'out'}", *FLAGS, WORKERS]
    process = subprocess.Popen(
        [BEAM_TFRECORDS, "convert", *flags],
        env={**os.environ, "TMPDIR": temporary},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("out/.build/*/blocks/*.started")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.001)
    # A slow machine would end the build meanwhile.
    os.killpg(process.pid, signal.SIGSTOP)
    shutil.rmtree(temporary)
    for worker in workers_of(process.pid):
        os.kill(worker, signal.SIGSEGV)
    os.killpg(process.pid, signal.SIGCONT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, (out, err)
    assert shards_of(tmp_path / "out") == expected


def workers_of(launcher: int) -> list[int]:
    """The processes that the launcher's fork server has forked."""
    rows = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
    listed = [row.split(maxsplit=2) for row in rows.stdout.splitlines()]
    (server,) = [pid for pid, parent, args in listed if parent == str(launcher) and "server.serve" in args]
    return [int(pid) for pid, parent, _ in listed if parent == server]
