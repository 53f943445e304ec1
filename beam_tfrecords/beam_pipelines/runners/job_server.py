"""The jobs of a job server of Beam that the user has started, by its job service."""

from __future__ import annotations

import dataclasses
from typing import Any

from beam_tfrecords.beam_pipelines.runners.jobs import FollowedJob, JobRecord, JobState, Phase, UnreachableError

_TIMEOUT = 5.0
# Beam's names for the states of jobs that have ended; those of all others run.
_ENDED = {
    "DONE": Phase.DONE,
    "FAILED": Phase.FAILED,
    **dict.fromkeys(("CANCELLED", "UPDATED", "DRAINED", "STOPPED"), Phase.STOPPED),
}


class _UnknownJobError(Exception):
    """The server has no such job."""


@dataclasses.dataclass(frozen=True)
class ServerJob(FollowedJob):
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
        """See `FollowedJob`."""
        return JobRecord("PortableRunner", self.id, self.endpoint)

    def state(self) -> JobState:
        """See `FollowedJob`."""
        from apache_beam.portability.api import beam_job_api_pb2

        try:
            answer = self._ask("GetState", beam_job_api_pb2.GetJobStateRequest(job_id=self.id))
        except _UnknownJobError:
            return JobState(Phase.FORGOTTEN, f"the job server at {self.endpoint} no longer knows job {self.id}")
        name = str(beam_job_api_pb2.JobState.Enum.Name(answer.state))
        if name not in _ENDED:
            return JobState(Phase.RUNNING)
        return JobState(_ENDED[name], f"job {self.id} was {name.lower()}")

    def end(self) -> None:
        """See `FollowedJob`."""
        from apache_beam.portability.api import beam_job_api_pb2

        try:
            self._ask("Cancel", beam_job_api_pb2.CancelJobRequest(job_id=self.id))
        except _UnknownJobError:
            return

    def _ask(self, what: str, request: Any) -> Any:
        """The answer to a request.

        Raises:
          UnreachableError: there is none.
          _UnknownJobError: there is no such job.
        """
        import grpc  # type: ignore[import-untyped]
        from apache_beam.portability.api import beam_job_api_pb2_grpc

        with grpc.insecure_channel(self.endpoint) as channel:
            try:
                return getattr(beam_job_api_pb2_grpc.JobServiceStub(channel), what)(request, timeout=_TIMEOUT)
            except grpc.RpcError as error:
                # Servers in Go have no code for it.
                if error.code() == grpc.StatusCode.NOT_FOUND or "not found" in str(error.details()).lower():
                    raise _UnknownJobError from error
                raise UnreachableError(f"the job server at {self.endpoint}", str(error.details())) from error
