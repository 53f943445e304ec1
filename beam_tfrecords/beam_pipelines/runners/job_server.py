"""The jobs of a job server of Beam that the user has started, by its job service."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from beam_tfrecords.beam_pipelines.runners.failures import JobFailedError
from beam_tfrecords.beam_pipelines.runners.jobs import JobRecord
from beam_tfrecords.errors import BuildError

_TIMEOUT = 5.0
_POLL = 1.0
# Seconds that a job server may be away before its job is given up.
_AWAY = 60.0
_ENDED = {"DONE", "FAILED", "CANCELLED", "UPDATED", "DRAINED", "STOPPED"}
_FORGOTTEN = "FORGOTTEN"


@dataclasses.dataclass(frozen=True)
class ServerJob:
    """A job that a job server runs.

    Attributes:
      endpoint: `host:port` of the job server.
      id: its number of the job.
    """

    endpoint: str
    id: str

    @classmethod
    def of(cls, record: JobRecord) -> ServerJob:
        """The job that a build's folder remembers."""
        return cls(record.url, record.job_id)

    @property
    def record(self) -> JobRecord:
        """What the build's folder remembers of it."""
        return JobRecord("PortableRunner", self.id, self.endpoint)

    def is_running(self) -> bool | None:
        """Whether the server knows the job, and it has not ended; None if the server does not answer."""
        state = self._state()
        return None if state is None else state not in (*_ENDED, _FORGOTTEN)

    def find_end(self) -> str | None:
        """Why the job has ended, in one line; None if it has not, or the server does not answer."""
        state = self._state()
        if state == _FORGOTTEN:
            return f"the job server at {self.endpoint} no longer knows job {self.id}"
        return f"job {self.id} was {state.lower()}" if state in _ENDED else None

    def wait(self) -> None:
        """Returns when the job has finished.

        Raises:
          BuildError: it failed, was cancelled, or the server is gone or was restarted.
        """
        answered = time.monotonic()
        while (state := self._state()) not in _ENDED:
            if state == _FORGOTTEN:
                raise BuildError(f"{self.find_end()}; the same command resumes from the finished blocks")
            answered = time.monotonic() if state is not None else answered
            if time.monotonic() - answered > _AWAY:
                raise BuildError(
                    f"the job server at {self.endpoint} did not answer for {_AWAY:.0f} s; the same command follows the "
                    "job if it still runs, and resumes it if not"
                )
            time.sleep(_POLL)
        if state != "DONE":
            raise (JobFailedError if state == "FAILED" else BuildError)(f"job {self.id} was {state.lower()}")

    def cancel(self) -> None:
        """Asks the server to end the job, and returns when it has ended or the server does not answer."""
        from apache_beam.portability.api import beam_job_api_pb2

        deadline = time.monotonic() + _AWAY
        self._ask("Cancel", beam_job_api_pb2.CancelJobRequest(job_id=self.id))
        while self.is_running() and time.monotonic() < deadline:
            time.sleep(0.2)

    def _state(self) -> str | None:
        """Beam's name for the job's state; None if the server does not answer."""
        from apache_beam.portability.api import beam_job_api_pb2

        answer = self._ask("GetState", beam_job_api_pb2.GetJobStateRequest(job_id=self.id))
        if answer is None or answer == _FORGOTTEN:
            return answer
        return str(beam_job_api_pb2.JobState.Enum.Name(answer.state))

    def _ask(self, what: str, request: Any) -> Any:
        """The answer to a request; None if there is none, `_FORGOTTEN` if there is no such job."""
        import grpc  # type: ignore[import-untyped]
        from apache_beam.portability.api import beam_job_api_pb2_grpc

        with grpc.insecure_channel(self.endpoint) as channel:
            try:
                return getattr(beam_job_api_pb2_grpc.JobServiceStub(channel), what)(request, timeout=_TIMEOUT)
            except grpc.RpcError as error:
                # Servers in Go have no code for it.
                is_unknown = error.code() == grpc.StatusCode.NOT_FOUND or "not found" in str(error.details()).lower()
                return _FORGOTTEN if is_unknown else None
