"""The jobs of builds on clusters, as their folders remember them."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import Any, Protocol

from beam_tfrecords.beam_pipelines.runners.forking import ended_with_us
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.state_files import read_state, write_state

# Seconds. Most blocks take a few.
_ADVANCING = 60.0


@dataclasses.dataclass(frozen=True)
class JobRecord:
    """A job that was submitted, or is about to be.

    Attributes:
      job_id: the runner's number of it; empty until the runner has said it.
      url: where a person can watch it.
      name: by which it is found without a number.
    """

    runner: str
    job_id: str
    url: str
    name: str = ""

    def write(self, folder: str) -> None:
        """Writes the record to the build's folder for temporary files."""
        write_state(BuildFolder(folder).job, self)


class Job(Protocol):
    """A job that was submitted, to be followed."""

    @property
    def record(self) -> JobRecord | None:
        """What the build's folder remembers of it; None of a job that ends with this process."""

    def wait(self) -> None:
        """Returns when the job has finished; raises what the runner raises if it fails."""

    def cancel(self) -> None:
        """Asks the runner to end the job."""


@dataclasses.dataclass(frozen=True)
class PipelineJob:
    """A job that Beam follows.

    Attributes:
      companions: processes that Beam has started for the job; they end with this process, even if it is killed.
    """

    record: JobRecord | None
    result: Any
    companions: frozenset[int] = frozenset()

    def wait(self) -> None:
        """See `Job`."""
        with ended_with_us(self.companions):
            self.result.wait_until_finish()

    def cancel(self) -> None:
        """See `Job`; a job without a record ends with this process."""
        if self.record is not None:
            with contextlib.suppress(Exception):  # what was interrupted is said, whatever becomes of the job
                self.result.cancel()


def read_job(folder: str) -> JobRecord | None:
    """The job that was last submitted for a build; None if there is none."""
    return read_state(JobRecord, BuildFolder(folder).job)


def is_advancing(last_block: float | None) -> bool:
    """Whether a block of a build was converted within the last minute."""
    return last_block is not None and time.time() - last_block < _ADVANCING
