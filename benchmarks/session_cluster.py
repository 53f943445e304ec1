"""Memory of a Flink session cluster over many builds, each a detached job of a `convert --no_wait`, one after another.

    python benchmarks/session_cluster.py --jobs=300       an hour: prints a row after each job, as JSON
    python benchmarks/session_cluster.py --metaspace=256m

The cluster runs on this machine with the numbers of `deploy/kubernetes/flink.yaml` and one task manager. A row has the
metaspace of the task manager and of the job manager in MB, as Flink's metrics tell it (they may be ten seconds old),
loaded classes, threads, and the memory of the Python processes that are left. Ends with exit code 1 at the first job
that does not publish.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import yaml
from peak_memory import memory_of

from beam_tfrecords.beam_pipelines.commands.cli import main as run_command

_PROJECT = pathlib.Path(__file__).resolve().parent.parent
_SCRIPT = _PROJECT / "deploy/flink/local-cluster.sh"
_METRICS = {
    "metaspace": "Status.JVM.Memory.Metaspace.Used",
    "non_heap": "Status.JVM.Memory.NonHeap.Used",
    "heap": "Status.JVM.Memory.Heap.Used",
    "loaded": "Status.JVM.ClassLoader.ClassesLoaded",
    "unloaded": "Status.JVM.ClassLoader.ClassesUnloaded",
    "threads": "Status.JVM.Threads.Count",
}
_MOST_SECONDS = 300.0  # of a job


class Cluster:
    """A cluster of one task manager, with the numbers that ship.

    Args:
      run_dir: holds its configuration and logs.
      metaspace: of the task manager, instead of the number that ships.
    """

    def __init__(self, run_dir: pathlib.Path, *, port: int, metaspace: str | None) -> None:
        self.run_dir, self.master = run_dir, f"127.0.0.1:{port}"
        spec = yaml.safe_load((_PROJECT / "deploy/kubernetes/flink.yaml").read_text())["spec"]
        settings = dict(spec["flinkConfiguration"])
        slots = settings.pop("taskmanager.numberOfTaskSlots")
        if metaspace:
            settings["taskmanager.memory.jvm-metaspace.size"] = metaspace
        run_dir.mkdir(parents=True)
        (run_dir / "settings.yaml").write_text("".join(f"{name}: {value}\n" for name, value in settings.items()))
        self._words = [f"--run-dir={run_dir}", f"--rest-port={port}", f"--rpc-port={port + 1}", "--task-managers=1"]
        self._words += [f"--slots={slots}", f"--memory={spec['taskManager']['resource']['memory']}"]
        self._words += [f"--settings={run_dir / 'settings.yaml'}"]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """The cluster runs until the block ends."""
        try:
            subprocess.run([_SCRIPT, "up", *self._words], check=True, stdout=subprocess.DEVNULL)
            yield
        finally:
            subprocess.run([_SCRIPT, "down", *self._words], check=True, stdout=subprocess.DEVNULL)

    def get(self, path: str) -> Any:
        """What the REST interface answers."""
        with urllib.request.urlopen(f"http://{self.master}{path}", timeout=30) as response:
            return json.load(response)

    def metrics(self) -> dict[str, dict[str, float]]:
        """What Flink measures of the task manager and the job manager."""
        (manager,) = self.get("/taskmanagers")["taskmanagers"]
        where = {"task_manager": f"/taskmanagers/{manager['id']}/metrics", "job_manager": "/jobmanager/metrics"}
        return {name: self._measure(path) for name, path in where.items()}

    def _measure(self, path: str) -> dict[str, float]:
        found = {one["id"]: float(one["value"]) for one in self.get(f"{path}?get={','.join(_METRICS.values())}")}
        return {name: found[of] / (1e6 if ".Memory." in of else 1) for name, of in _METRICS.items() if of in found}

    def collect(self) -> None:
        """Has both JVMs collect all garbage."""
        for file in self.run_dir.glob("*manager*.pid"):
            subprocess.run(["jcmd", file.read_text().strip(), "GC.run"], check=True, stdout=subprocess.DEVNULL)
        # Flink asks its task managers for their metrics every ten seconds.
        time.sleep(21)


def python_workers() -> list[int]:
    """Process numbers of the workers of jobs on this machine, and of what they are forked from."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes()
            if b"beam-tfrecords-worker" in line or b"beam_pipelines.execution.worker" in line:
                found.append(int(path.parent.name))
    return found


def run_job(cluster: Cluster, source: pathlib.Path, output: pathlib.Path, *words: str) -> str:
    """Submits a build and waits until its job has ended; returns its state, or what the command has said."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        flags = [f"--input={source}", f"--output={output}", "--image_size=64", "--no_wait", *words]
        code = run_command(["convert", *flags, "--runner=FlinkRunner", f"--flink_master={cluster.master}"])
    if code:
        return f"exit code {code}: {printed.getvalue()}"
    job = printed.getvalue().partition("submitted: job ")[2].split()[0]
    deadline = time.monotonic() + _MOST_SECONDS
    while (state := cluster.get(f"/jobs/{job}")["state"]) not in ("FINISHED", "FAILED", "CANCELED"):
        if time.monotonic() > deadline:
            return f"{state} after {_MOST_SECONDS:.0f} s"
        time.sleep(0.2)
    return str(state)


def main() -> int:
    """Runs the builds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument("--metaspace", help="of the task manager, instead of what ships; such as 128m")
    parser.add_argument("--collect_every", type=int, default=0, help="collects all garbage after so many jobs")
    parser.add_argument("--port", type=int, default=18081)
    arguments = parser.parse_args()
    # Else the cluster would stay.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    photos = sorted((_PROJECT / "tests/data/photos").rglob("*.jpg"))[::5]
    with tempfile.TemporaryDirectory(prefix="session-") as name:
        folder = pathlib.Path(name)
        for photo in photos:
            path = folder / "photos" / photo.parent.name / photo.name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(photo, path)
        cluster = Cluster(folder / "flink", port=arguments.port, metaspace=arguments.metaspace)
        with cluster.running():
            words = [f"--parallelism={arguments.parallelism}", f"--sdk_worker_parallelism={arguments.parallelism}"]
            for number in range(1, arguments.jobs + 1):
                start = time.monotonic()
                state = run_job(cluster, folder / "photos", folder / "out", *words)
                seconds = time.monotonic() - start
                is_published = (folder / "out/_SUCCESS").exists()
                if arguments.collect_every and number % arguments.collect_every == 0:
                    cluster.collect()
                left = python_workers()
                row = {"job": number, "state": state, "published": is_published, "seconds": seconds}
                row |= cluster.metrics()
                row["python"] = {"processes": len(left), "memory": sum(map(memory_of, left)) / 1e6}
                print(json.dumps(row), flush=True)
                if not is_published:
                    return 1
                shutil.rmtree(folder / "out")
    return 0


if __name__ == "__main__":
    sys.exit(main())
