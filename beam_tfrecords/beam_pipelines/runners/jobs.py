"""The runs and jobs of builds: their records in a build folder, and the loop that follows a job."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import enum
import os
import re
import socket
import sys
import time
from typing import Any, TypeAlias

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.limits import describe_shortage
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.errors import BuildError, describe_exception, without_type
from beam_tfrecords.storage import StorageError
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.state_files import read_state, write_state

# Seconds between two queries, also while cancelling, and until a runner without an answer counts as lost.
_POLL, _CANCEL_POLL, AWAY = 1.0, 0.2, 60.0
# Seconds without a finished block until a job counts as stalled; most blocks take a few seconds.
_ADVANCING = 60.0
_TRACEBACK = "Traceback (most recent call last):"
# Error types of the build and of its stores.
_KINDS = "BuildError|AccessDeniedError|MissingBucketError|ServiceFaultError|StorageError"
_BUILD_ERROR = re.compile(
    rf"^(?:beam_tfrecords\.[a-z_.]+\.)?(?:{_KINDS}): (.*?)(?: \[while running .*\])?$", re.MULTILINE
)
_OS_ERROR = re.compile(r"\w+Error: \[Errno (\d+)\] (.*)")
_WHILE_RUNNING = re.compile(r" \[while running .*\]")
_JAVA_FRAME = re.compile(r"^\s+at ", re.MULTILINE)
_JAVA_ERROR = re.compile(r"^(?:Caused by: )?((?:[\w$]+\.)+[\w$]+(?:: .*)?)$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Run:
    """One attempt at a build.

    Attributes:
      began: start of the attempt, in seconds since the epoch, by the clock of its machine.
      listed: number of samples; 0 if a job is still to list them.
      done_before: number of samples that earlier attempts had converted.
      refusal: message of the `RequestError` with which a job that lists the input refuses it; "" if it does not.
    """

    host: str
    process: int
    began: float
    listed: int = 0
    blocks: int = 0
    done_before: int = 0
    refusal: str = ""

    @classmethod
    def of_this_process(cls) -> Run:
        """Returns an attempt that this process makes, or leaves to a job, before the input is listed."""
        return cls(socket.gethostname(), os.getpid(), time.time())

    @property
    def launcher(self) -> str:
        """The process in words, as its lease names it."""
        return f"process {self.process} on {self.host}"


@dataclasses.dataclass(frozen=True)
class JobRecord:
    """The record of a submitted job, or of a job about to be submitted, in its build folder.

    Attributes:
      runner: name of the runner.
      job_id: the runner's id of the job; empty until it is known.
      url: web page of the job, or address of its job server.
      name: name by which to find the job without an id.
    """

    runner: str
    job_id: str
    url: str
    name: str = ""

    def write(self, folder: str) -> None:
        """Writes the record to a build folder."""
        write_state(BuildFolder(folder).job, self)


def read_job(folder: str) -> JobRecord | None:
    """Reads the record of the job that was last submitted for a build; returns None if there is none."""
    return read_state(JobRecord, BuildFolder(folder).job)


class UnreachableError(Exception):
    """A runner does not answer.

    Args:
      place: address of the runner.
      reason: reason for the message.
    """

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place} does not answer ({reason})")
        self.reason = reason


class Phase(enum.Enum):
    """The phase of a job."""

    RUNNING = enum.auto()
    DONE = enum.auto()
    # Failed for a reason outside the build, such as a lost worker: another job may succeed.
    FAILED = enum.auto()
    # Canceled, or failed with an error of the build, which another job would repeat.
    STOPPED = enum.auto()
    # The runner does not know the job, or no longer knows it.
    FORGOTTEN = enum.auto()
    # The runner does not answer, or cannot be queried.
    UNKNOWN = enum.auto()


@dataclasses.dataclass(frozen=True)
class JobState:
    """The state of a job that a runner reports.

    Attributes:
      phase: phase of the job.
      why: how the job ended, why a running job cannot succeed, or that the runner does not answer, in one line; empty
        if unknown.
      notes: notes on events so far, for the user; the oldest first.
    """

    phase: Phase
    why: str = ""
    notes: tuple[str, ...] = ()

    @property
    def is_running(self) -> bool:
        """Whether the job has not ended."""
        return self.phase is Phase.RUNNING

    @property
    def may_run(self) -> bool:
        """Whether the job runs, or nobody knows whether it does."""
        return self.phase in (Phase.RUNNING, Phase.UNKNOWN)


class FollowedJob(abc.ABC):
    """A job that any launcher can follow by querying the runner, even if another launcher submitted it."""

    @property
    @abc.abstractmethod
    def record(self) -> JobRecord:
        """Record for the build folder."""

    @abc.abstractmethod
    def state(self) -> JobState:
        """Queries the runner for the state of the job.

        Raises:
          UnreachableError: the runner does not answer.
        """

    @abc.abstractmethod
    def end(self) -> None:
        """Asks the runner to end the job.

        Raises:
          UnreachableError: the runner does not answer.
        """

    def wait(self) -> None:
        """Waits until the job has finished, and prints notes on its progress.

        Raises:
          JobFailedError: the job failed, and another job may succeed.
          BuildError: the job failed for good, was canceled or cannot succeed; or its runner is gone or was restarted.
        """
        answered = time.monotonic()
        shown: set[str] = set()
        while True:
            try:
                state = self.state()
            except UnreachableError as error:
                if time.monotonic() - answered > AWAY:
                    raise BuildError(
                        f"{error}, for {AWAY:.0f} s; the same command follows the job if it still runs, and resumes "
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
        """Cancels the job; returns when it has ended, or when the runner does not answer."""
        deadline = time.monotonic() + AWAY
        with contextlib.suppress(UnreachableError):
            self.end()
            while self.state().is_running and time.monotonic() < deadline:
                time.sleep(_CANCEL_POLL)

    def _check(self, state: JobState) -> None:
        """Raises an error if the job has failed, or cannot succeed; cancels the job in the latter case."""
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
    """A job that Beam follows: only its launcher can query it, or it ends with the launcher, without a record."""

    record: JobRecord | None
    result: Any

    def wait(self) -> None:
        """Waits until the job has finished; raises the runner's exception if it fails."""
        self.result.wait_until_finish()

    def cancel(self) -> None:
        """Asks the runner to end the job; a job without a record ends with this process."""
        if self.record is not None:
            with contextlib.suppress(Exception):  # Reports the interruption even if the cancellation fails.
                self.result.cancel()


# A submitted job.
Job: TypeAlias = FollowedJob | PipelineJob


def is_advancing(last_block: float | None) -> bool:
    """Whether a build has finished a block within the last minute."""
    return last_block is not None and time.time() - last_block < _ADVANCING


class JobFailedError(BuildError):
    """A job failed for a reason outside the build, such as a lost worker."""


def find_build_error(text: str) -> str | None:
    """Returns the message of a `BuildError` in a runner's error text; None if there is none."""
    found = _BUILD_ERROR.search(text)
    return found[1] if found else None


def describe_trace(text: str, *, more: str) -> str:
    """Describes a stack trace in one line; `more` says where to find details."""
    message = find_build_error(text)
    if message:
        return message
    if _JAVA_FRAME.search(text) and _TRACEBACK not in text:
        lines = _JAVA_ERROR.findall(text) or text.splitlines()[:1]
    else:
        python = text.split(_TRACEBACK, 1)[-1]
        lines = re.split(r"\n\s+at |\nCaused by: ", _WHILE_RUNNING.sub("", python))[0].splitlines()
    lines = [line.strip() for line in lines if line.strip()] or ["no reason is given"]
    fault = _OS_ERROR.fullmatch(lines[-1])
    if fault and storage.is_service_fault(OSError(int(fault[1]), "")):
        return f"{fault[2]}; the same command resumes once this is fixed"
    return f"{without_type(lines[-1])} ({more})"


def describe_error(error: Exception) -> str:
    """Describes a failed pipeline in one line; runners report a worker's exception as text with its traceback."""
    text = str(error)
    if isinstance(error, BuildError | StorageError):  # The local runner keeps the type.
        return _WHILE_RUNNING.sub("", text)
    shortage = describe_shortage(error)
    if shortage:
        return shortage
    if "\n" not in text.strip() and not isinstance(error, RuntimeError):  # There is no traceback with the type.
        text = describe_exception(error)
    return describe_trace(text, more="`verbose` shows more")
