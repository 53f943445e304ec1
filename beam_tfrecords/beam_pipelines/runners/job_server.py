"""Follows the jobs of a Beam job server that the user has started, through its job service."""

from __future__ import annotations

import dataclasses
from typing import Any

from beam_tfrecords.beam_pipelines.runners.jobs import FollowedJob, JobRecord, JobState, Phase, UnreachableError

_TIMEOUT = 5.0
# Beam's states of jobs that have ended; jobs in any other state run.
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
      id: the server's id of the job.
    """

    endpoint: str
    id: str

    @classmethod
    def of(cls, record: JobRecord) -> ServerJob:
        """Returns the job for a record."""
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
        """Returns the answer to a request.

        Raises:
          UnreachableError: the server does not answer.
          _UnknownJobError: the server has no such job.
        """
        import grpc  # type: ignore[import-untyped]
        from apache_beam.portability.api import beam_job_api_pb2_grpc

        with grpc.insecure_channel(self.endpoint) as channel:
            try:
                return getattr(beam_job_api_pb2_grpc.JobServiceStub(channel), what)(request, timeout=_TIMEOUT)
            except grpc.RpcError as error:
                # Job servers written in Go do not use a status code for this.
                if error.code() == grpc.StatusCode.NOT_FOUND or "not found" in str(error.details()).lower():
                    raise _UnknownJobError from error
                raise UnreachableError(f"the job server at {self.endpoint}", str(error.details())) from error
