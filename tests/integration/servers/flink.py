"""A Flink cluster of separate processes, and the jobs that it runs."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.integration.servers import processes

_SCRIPT = processes.PROJECT / "deploy" / "flink" / "local-cluster.sh"
# What Beam's libraries in Maven Central are for.
VERSION = "1.19.3"


@dataclasses.dataclass(frozen=True)
class FlinkCluster:
    """A running cluster.

    Attributes:
      master: `127.0.0.1:port`, for `--flink_master`.
      run_dir: holds its configuration, its logs and its process numbers.
    """

    master: str
    run_dir: Path

    def get(self, path: str) -> Any:
        """What the REST interface answers, as parsed JSON."""
        with urllib.request.urlopen(f"http://{self.master}{path}", timeout=10) as response:
            return json.load(response)

    def job_state(self, job: str) -> str:
        """Flink's name for the job's state: `RUNNING`, `RESTARTING`, `FINISHED`, `FAILED` and others."""
        return str(self.get(f"/jobs/{job}")["state"])

    def failures(self, job: str) -> list[str]:
        """What made the job start tasks again so far: the names of the exceptions, newest first."""
        history = self.get(f"/jobs/{job}/exceptions")["exceptionHistory"]["entries"]
        return [str(entry["exceptionName"]) for entry in history]

    def task_manager_pid(self, number: int) -> int:
        """Process number of a task manager, counted from 1."""
        return int((self.run_dir / f"taskmanager-{number}.pid").read_text())

    def kill_task_manager(self, number: int) -> None:
        """Ends a task manager with SIGKILL; returns when it is dead."""
        _cluster("kill-taskmanager", str(number), f"--run-dir={self.run_dir}")

    def start_task_manager(self) -> None:
        """Adds a task manager; returns when it has registered."""
        _cluster("start-taskmanager", f"--run-dir={self.run_dir}")

    def restart_job_manager(self) -> None:
        """Ends the job manager with SIGKILL and starts it again; returns when the task managers have registered."""
        _cluster("kill-jobmanager", f"--run-dir={self.run_dir}")
        _cluster("start-jobmanager", f"--run-dir={self.run_dir}")

    def running_jobs(self) -> list[str]:
        """Numbers of the jobs that have not ended."""
        return [job["id"] for job in self.get("/jobs")["jobs"] if job["status"] in ("CREATED", "RUNNING", "RESTARTING")]

    def cancel(self, job: str) -> None:
        """Cancels a job; returns when it has ended."""
        request = urllib.request.Request(f"http://{self.master}/jobs/{job}?mode=cancel", method="PATCH")
        urllib.request.urlopen(request, timeout=10).close()
        processes.wait_until(lambda: job not in self.running_jobs(), what="the end of a cancelled job")

    def logs(self) -> str:
        """What all processes have logged."""
        return "".join(path.read_text(errors="replace") for path in sorted((self.run_dir / "log").glob("*")))

    def python_workers(self) -> list[int]:
        """Process numbers of Beam's Python workers, which are children of the task managers."""
        managers = [int(path.read_text()) for path in self.run_dir.glob("taskmanager-*.pid")]
        return [child for manager in managers for child in processes.children(manager)]


@contextlib.contextmanager
def flink_cluster(
    run_dir: Path, *, task_managers: int = 2, slots: int = 1, options: Sequence[str] = ()
) -> Iterator[FlinkCluster]:
    """Runs a cluster on free loopback ports until the block ends.

    Args:
      run_dir: a folder of its own.
      task_managers: how many.
      slots: of each task manager.
      options: others of the script.

    Raises:
      processes.ServerError: it did not start; the message is the script's.
    """
    port = processes.free_port()
    try:
        _cluster(
            "up",
            f"--run-dir={run_dir}",
            f"--flink-version={VERSION}",
            f"--rest-port={port}",
            f"--rpc-port={processes.free_port()}",
            f"--task-managers={task_managers}",
            f"--slots={slots}",
            *options,
        )
        yield FlinkCluster(f"127.0.0.1:{port}", run_dir)
    finally:
        _cluster("down", f"--run-dir={run_dir}")


def _cluster(*words: str) -> None:
    completed = subprocess.run([_SCRIPT, *words], capture_output=True, text=True)
    if completed.returncode:
        raise processes.ServerError(f"{_SCRIPT}: {completed.stderr}{completed.stdout}")
