"""The jobs of builds: what a build's folder remembers of its job, and the one loop that follows it."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import enum
import sys
import time
from typing import Any, Protocol

from beam_tfrecords.beam_pipelines.runners.failures import JobFailedError
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.state_files import read_state, write_state

# Seconds between two questions, and those that a runner may give no answer before its job is given up.
_POLL, _CANCEL_POLL, _AWAY = 1.0, 0.2, 60.0
# Seconds. Most blocks take a few.
_ADVANCING = 60.0


@dataclasses.dataclass(frozen=True)
class JobRecord:
    """A job that was submitted, or is about to be, as its build's folder remembers it.

    Attributes:
      job_id: the runner's number of it; empty until the runner has said it.
      url: where a person can watch it, or the job server that has it.
      name: by which it is found without a number.
    """

    runner: str
    job_id: str
    url: str
    name: str = ""

    def write(self, folder: str) -> None:
        """Writes the record to the build's folder for temporary files."""
        write_state(BuildFolder(folder).job, self)


def read_job(folder: str) -> JobRecord | None:
    """The job that was last submitted for a build; None if there is none."""
    return read_state(JobRecord, BuildFolder(folder).job)


class UnreachableError(Exception):
    """A runner does not answer.

    Args:
      place: its address.
      reason: why there is no answer, for people.
    """

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place} does not answer ({reason})")
        self.reason = reason


class Phase(enum.Enum):
    """How far a job is."""

    RUNNING = enum.auto()
    DONE = enum.auto()
    # Given up for a reason that is not the build's, such as a lost worker: another job may succeed.
    FAILED = enum.auto()
    # Cancelled, or ended by an error of the build, which another job would repeat.
    STOPPED = enum.auto()
    # The runner has no such job, or no longer.
    FORGOTTEN = enum.auto()


@dataclasses.dataclass(frozen=True)
class JobState:
    """What a runner says of a job.

    Attributes:
      why: one line: how the job ended, or why it cannot succeed although it runs; empty if neither is known.
      notes: lines about what has happened so far, for who waits; the oldest first.
    """

    phase: Phase
    why: str = ""
    notes: tuple[str, ...] = ()

    @property
    def is_running(self) -> bool:
        """Whether the job has not ended."""
        return self.phase is Phase.RUNNING


class Job(Protocol):
    """A job that was submitted, to be waited for."""

    @property
    def record(self) -> JobRecord | None:
        """What the build's folder remembers of it; None of a job that ends with this process."""

    def wait(self) -> None:
        """Returns when the job has finished; raises what the runner raises if it fails."""

    def cancel(self) -> None:
        """Asks the runner to end the job."""


class FollowedJob(abc.ABC):
    """A job that any launcher can follow, whichever has submitted it: its runner is asked how it is."""

    @property
    @abc.abstractmethod
    def record(self) -> JobRecord:
        """See `Job`."""

    @abc.abstractmethod
    def state(self) -> JobState:
        """Asks the runner.

        Raises:
          UnreachableError: it does not answer.
        """

    @abc.abstractmethod
    def end(self) -> None:
        """Asks the runner to end the job.

        Raises:
          UnreachableError: it does not answer.
        """

    def wait(self) -> None:
        """Returns when the job has finished; says on the way what happens to it.

        Raises:
          JobFailedError: the job failed, and another one may succeed.
          BuildError: it failed for good, was cancelled, cannot succeed, or its runner is gone or was restarted.
        """
        answered = time.monotonic()
        shown: set[str] = set()
        while True:
            try:
                state = self.state()
            except UnreachableError as error:
                if time.monotonic() - answered > _AWAY:
                    raise BuildError(
                        f"{error}, for {_AWAY:.0f} s; the same command follows the job if it still runs, and resumes "
                        "it if not"
                    ) from error
            else:
                if state.phase is Phase.DONE:
                    return
                self._check(state)
                answered = time.monotonic()
                for note in state.notes:
                    if note not in shown:
                        show(note, file=sys.stderr)
                shown.update(state.notes)
            time.sleep(_POLL)

    def cancel(self) -> None:
        """Returns when the job has ended, or its runner does not answer."""
        deadline = time.monotonic() + _AWAY
        with contextlib.suppress(UnreachableError):
            self.end()
            while self.state().is_running and time.monotonic() < deadline:
                time.sleep(_CANCEL_POLL)

    def _check(self, state: JobState) -> None:
        """Raises what has become of a job that is not done; cancels it if it cannot succeed."""
        if state.phase is Phase.FAILED:
            raise JobFailedError(state.why)
        if state.phase is Phase.FORGOTTEN:
            raise BuildError(f"{state.why}; the same command resumes from the finished blocks")
        if state.is_running and not state.why:
            return
        if state.is_running:
            self.cancel()
        raise BuildError(state.why)


@dataclasses.dataclass(frozen=True)
class PipelineJob:
    """A job that Beam follows: one that only its own launcher can ask about, or that ends with it."""

    record: JobRecord | None
    result: Any

    def wait(self) -> None:
        """See `Job`."""
        self.result.wait_until_finish()

    def cancel(self) -> None:
        """See `Job`; a job without a record ends with this process."""
        if self.record is not None:
            with contextlib.suppress(Exception):  # what was interrupted is said, whatever becomes of the job
                self.result.cancel()


def is_advancing(last_block: float | None) -> bool:
    """Whether a block of a build was converted within the last minute."""
    return last_block is not None and time.time() - last_block < _ADVANCING
