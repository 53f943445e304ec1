"""The jobs of builds on clusters, as their folders remember them."""

from __future__ import annotations

import dataclasses
import json

from beam_pipelines.execution.flink import FlinkJob
from transforms import storage
from transforms.dataset import BUILD_FOLDER

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
        storage.write_bytes(storage.join(folder, JOB), json.dumps(dataclasses.asdict(self)).encode())


def read_job(folder: str) -> JobRecord | None:
    """The job that was last submitted for a build; None if there is none.

    Args:
      folder: the build's folder for temporary files.
    """
    path = storage.join(folder, JOB)
    if not storage.exists(path):
        return None
    try:
        return JobRecord(**json.loads(storage.read_bytes(path)))
    except (ValueError, TypeError):  # emptied by a power cut
        return None


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
    temporary = storage.join(output, BUILD_FOLDER)
    if not storage.is_folder(temporary):
        return None
    others = (storage.join(temporary, name) for name in storage.list_folders(temporary))
    jobs = (find_running_job(other) for other in others if other != folder.rstrip("/"))
    return next((job for job in jobs if job is not None), None)
