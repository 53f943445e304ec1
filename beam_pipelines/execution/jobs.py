"""The jobs of builds on clusters, as their folders remember them."""

from __future__ import annotations

import dataclasses

from beam_pipelines.execution.flink import FlinkJob
from transforms import storage
from transforms.output_folder import list_build_folders
from transforms.state_files import read_state, write_state

JOB = "job.json"


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

    def write(self, folder: str) -> None:
        """Writes the record to the build's folder for temporary files."""
        write_state(storage.join(folder, JOB), self)


def read_job(folder: str) -> JobRecord | None:
    """The job that was last submitted for a build; None if there is none.

    Args:
      folder: the build's folder for temporary files.
    """
    return read_state(JobRecord, storage.join(folder, JOB))


def find_running_job(folder: str) -> FlinkJob | None:
    """The job of a build that an earlier launcher has left running on Flink.

    Args:
      folder: the build's folder for temporary files.
    """
    record = read_job(folder)
    if record is None or not record.runner.endswith("FlinkRunner"):
        return None
    job = FlinkJob(record.url.partition("/#")[0], record.job_id)
    return job if job.is_running() else None


def find_other_job(output: str, folder: str) -> FlinkJob | None:
    """The job of another build that still writes to an output.

    Args:
      output: the folder that was given to `convert`.
      folder: this build's folder for temporary files.
    """
    jobs = (find_running_job(other) for other in list_build_folders(output) if other != folder.rstrip("/"))
    return next((job for job in jobs if job is not None), None)
