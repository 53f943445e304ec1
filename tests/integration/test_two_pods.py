"""Two builds into one bucket from two pods: other host names, and process numbers that the other pod does not see."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_tfrecords import open_dataset
from tests.integration import buckets
from tests.integration.servers.processes import PROJECT, wait_until

PHOTOS = Path(__file__).parents[1] / "data" / "photos"
_SLOW = """
import time

def slow(sample):
    time.sleep(0.5)
    return sample
"""
_SHORT = (1.0, 8.0)
_REAL = (20.0, 120.0)


def namespaces() -> list[str]:
    """The command that starts another one as a pod does; empty if the system forbids that."""
    words = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts"]
    is_usable = shutil.which("unshare") and subprocess.call([*words, "true"], stderr=subprocess.DEVNULL) == 0
    return words if is_usable else []


pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not namespaces(), reason="needs namespaces of unshare: root"),
]


@pytest.fixture(scope="module", params=buckets.SCHEMES)
def bucket(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with buckets.services(tmp_path_factory.mktemp(request.param), request.param):
        buckets.upload(PHOTOS / "cat", f"{request.param}://photos/in/cat")
        yield f"{request.param}://"


def start_pod(host: str, folder: Path, times: tuple[float, float], *words: str) -> subprocess.Popen[str]:
    """Starts a build in namespaces of its own, in a folder with the module `slow`."""
    (folder / "slow.py").write_text(_SLOW)
    program = [sys.executable, "-m", "tests.core.lease_times", *map(str, times), *words]
    named = ["sh", "-c", 'hostname "$0" && exec "$@"', host, *program]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    return subprocess.Popen([*namespaces(), *named], cwd=folder, env=environment, start_new_session=True, **piped)  # type: ignore[call-overload]


def wait_for_lease(pod: subprocess.Popen[str], output: str) -> None:
    wait_until(lambda: ".build/lease" in buckets.files_of(output) or pod.poll() is not None, what="the lease of a pod")
    assert pod.poll() is None, pod.communicate()[1]


def words_of(bucket: str, output: str, *more: str) -> list[str]:
    return [f"--input={bucket}photos/in", f"--output={output}", "--image_size=16", "--class_names=cat", *more]


@pytest.mark.parametrize("times", [_SHORT, pytest.param(_REAL, marks=pytest.mark.nightly)], ids=["short", "real"])
def test_a_pod_waits_for_a_killed_pod_and_then_builds(bucket, tmp_path, times):
    renewal, stale = times
    output = f"{bucket}datasets/killed-{stale:g}"
    first = start_pod("pod-a", tmp_path, times, *words_of(bucket, output, "--map=slow:slow"))
    try:
        wait_for_lease(first, output)
    finally:
        os.killpg(first.pid, signal.SIGKILL)  # as the kernel ends a container without memory
        first.communicate()
    began = time.monotonic()
    second = start_pod("pod-b", tmp_path, times, *words_of(bucket, output))
    _, err = second.communicate(timeout=stale + 300)
    assert second.returncode == 0, err
    (line,) = (line for line in err.splitlines() if line.startswith("waiting: "))
    assert line.startswith(f"waiting: {output} is held by process ")
    assert " on pod-a, which may have died: at most " in line
    most = int(line.partition("at most ")[2].split()[0])
    assert 0 < most <= stale
    assert time.monotonic() - began > most - renewal
    assert open_dataset(output).num_records == len(list((PHOTOS / "cat").iterdir()))


def test_a_pod_leaves_a_pod_that_lives_alone(bucket, tmp_path):
    output = f"{bucket}datasets/living"
    # The lease stays valid far longer than the second pod watches it.
    times = (0.5, 600.0)
    first = start_pod("pod-a", tmp_path, times, *words_of(bucket, output, "--map=slow:slow"))
    wait_for_lease(first, output)
    second = start_pod("pod-b", tmp_path, times, *words_of(bucket, output, f"--json_summary={tmp_path}/run.json"))
    _, err = second.communicate(timeout=300)
    assert second.returncode == 4, err
    waiting, refusal = err.splitlines()
    assert waiting.startswith(f"waiting: {output} is held by process ")
    assert f"nothing was started: --output={output}: another build is writing to it, process " in refusal
    assert " on pod-a; run the same command again after its end" in refusal
    assert '"status": "locked"' in (tmp_path / "run.json").read_text()
    _, err = first.communicate(timeout=300)
    assert first.returncode == 0, err
