"""The job of a build on a cluster, as the build's folder remembers it."""

from __future__ import annotations

import dataclasses
import json

from transforms import storage

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
