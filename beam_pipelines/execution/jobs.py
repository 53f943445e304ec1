"""The jobs of builds on clusters, as their folders remember them."""

from __future__ import annotations

import dataclasses
import time

from beam_pipelines.execution.flink import FlinkJob
from transforms.workspace.build_folder import BuildFolder, Workspace
from transforms.workspace.state_files import read_state, write_state

# Seconds. Most blocks take a few.
_ADVANCING = 60.0


@dataclasses.dataclass(frozen=True)
class JobRecord:
    """A job that was submitted.

    Attributes:
      runner: name of Beam's runner.
      job_id: the runner's name for the job.
      url: where a person can watch it.
    """

    runner: str
    job_id: str
    url: str

    @property
    def is_on_flink(self) -> bool:
        """Whether Flink can be asked about it."""
        return self.runner.endswith("FlinkRunner")

    def find_running(self) -> FlinkJob | None:
        """The job, if Flink still runs it."""
        job = FlinkJob(self.url.partition("/#")[0], self.job_id)
        return job if self.is_on_flink and job.is_running() else None

    def write(self, folder: str) -> None:
        """Writes the record to the build's folder for temporary files."""
        write_state(BuildFolder(folder).job, self)


def read_job(folder: str) -> JobRecord | None:
    """The job that was last submitted for a build; None if there is none.

    Args:
      folder: the build's folder for temporary files.
    """
    return read_state(JobRecord, BuildFolder(folder).job)


def find_running_job(folder: str) -> FlinkJob | None:
    """The job of a build that an earlier launcher has left running on Flink.

    Args:
      folder: the build's folder for temporary files.
    """
    record = read_job(folder)
    return record.find_running() if record is not None else None


def find_other_job(output: str, folder: str) -> JobRecord | None:
    """The job of another build that still writes to an output: Flink says so, or else it has just converted a block.

    Args:
      output: the folder that was given to `convert`.
      folder: this build's folder for temporary files.
    """
    from transforms.workspace.counts import read_last_block_time  # Beam, which a refused request has no need of.

    for other in Workspace(output).list_builds():
        record = read_job(other) if other != folder.rstrip("/") else None
        if record is None:
            continue
        if record.is_on_flink:
            is_running = record.find_running() is not None
        else:
            is_running = is_advancing(read_last_block_time(other), now=time.time())
        if is_running:
            return record
    return None


def is_advancing(last_block: float | None, *, now: float) -> bool:
    """Whether a block of a build was converted within the last minute.

    Args:
      last_block: from `read_last_block_time`.
      now: seconds since the epoch.
    """
    return last_block is not None and now - last_block < _ADVANCING
