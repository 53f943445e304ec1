"""The runner for Beam's job servers: one that the user has started, or one that Beam starts for Spark or Prism."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.runners.jobs import (
    FollowedJob,
    Job,
    JobRecord,
    JobState,
    Phase,
    PipelineJob,
    UnreachableError,
)
from beam_tfrecords.beam_pipelines.runners.runner import Runner
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.processes.descendants import find_children

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineResult

_TIMEOUT = 5.0
# Beam's states of jobs that have ended; jobs in any other state run.
_ENDED = {
    "DONE": Phase.DONE,
    "FAILED": Phase.FAILED,
    **dict.fromkeys(("CANCELLED", "UPDATED", "DRAINED", "STOPPED"), Phase.STOPPED),
}
# Classes that load the pipeline from the jar that they are in, with the classes whose package-private members they use.
_OF_THE_JOB = (
    "org/apache/beam/runners/flink/FlinkPipelineRunner",
    "org/apache/beam/runners/flink/FlinkPortableRunnerResult",
    "org/apache/beam/runners/jobsubmission/PortablePipelineJarUtils",
)


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


class PortableRunner(Runner):
    """A job server: the one at `job_endpoint`, or one that Beam starts and that ends with its launcher."""

    @property
    def _server(self) -> str:
        """The runner whose job server Beam starts; "" for a server of the user, or one that only Beam knows."""
        name = self.name.rpartition(".")[2].lower()
        is_ours = self.arguments.given["job_endpoint"] is None and name in ("sparkrunner", "prismrunner")
        return name if is_ours else ""

    def complete(self) -> list[str]:
        if not self._server:
            return super().complete()
        if self._server == "prismrunner":
            # Beam shows Prism's console output at any log level. It would reuse the Prism of an earlier pipeline in
            # this process, and ignore `prism_location`.
            words = self.arguments.add({"prism_log_kind": "text"})
            return [*words, "--experiments=disable_prism_server_singleton"]
        if shutil.which("java") is None:
            raise RequestError(
                f"`runner={self.name}` needs Java, and there is no java on the PATH; install Java 11 or 17",
                code="missing_program",
            )
        filled = self.arguments.worker_flags()
        if self.arguments.given["spark_job_server_jar"] is None:
            filled["spark_job_server_jar"] = find_jar("spark-3-job-server/spark-3-job-server.jar", "spark:3")
        master = str(self.arguments.given["spark_master_url"] or "local[4]")
        if cores := re.fullmatch(r"local\[(\d+)\]", master):
            filled["sdk_worker_parallelism"] = cores[1]
        self.note = f"Spark at {master}; set: {self.arguments.describe(filled)}"
        return self.arguments.add({**filled, "job_name": self.name_job()})

    def submit(self, pipeline: beam.Pipeline, remember: Callable[[JobRecord], None]) -> Job:
        if not self._server:
            return super().submit(pipeline, remember)
        before = find_children()
        result = pipeline.run()
        return _JobWithServer(None, result, find_children() - before)

    def describe_job(self, result: PipelineResult, options: PipelineOptions) -> JobRecord | None:
        endpoint = self.arguments.given["job_endpoint"]
        if endpoint:
            return ServerJob(endpoint, str(getattr(result, "_job_id", ""))).record
        return super().describe_job(result, options)

    def open_job(self, record: JobRecord) -> FollowedJob | None:
        return ServerJob.of(record) if record.url else None


@dataclasses.dataclass(frozen=True)
class _JobWithServer(PipelineJob):
    """A job with a job server that Beam has started."""

    server: frozenset[int]

    def wait(self) -> None:
        with ended_with_us(self.server):
            super().wait()


@contextlib.contextmanager
def ended_with_us(processes: Collection[int]) -> Iterator[None]:
    """Ends other processes on this machine if this process ends inside the block for any reason."""
    if not processes:
        yield
        return
    # The end of this process closes the pipe that the shell reads from.
    command = ["sh", "-c", 'read -r _; kill -9 "$@"', "sh", *map(str, processes)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as watching:
        try:
            yield
        finally:
            watching.kill()


def jar_folder() -> str:
    """Returns the folder for the jars that `deploy/*/job-server/build.sh` builds."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "beam-tfrecords", "jars")


def write_small_jar(jar: str, target: str) -> None:
    """Writes a small jar that submits jobs to a Flink cluster with Beam's job server among its libraries.

    Args:
      jar: the job server, as the cluster has it.
      target: path of the small jar.
    """
    content = io.BytesIO()
    with storage.open_read(jar) as file, zipfile.ZipFile(file) as whole, zipfile.ZipFile(content, "w") as small:
        for name in whole.namelist():
            if name.startswith(_OF_THE_JOB) or name == "META-INF/MANIFEST.MF":
                small.writestr(name, whole.read(name))
    storage.write_bytes(target, content.getvalue())


def find_jar(name: str, target: str) -> str:
    """Returns a locally built jar, or else Beam's jar, which is downloaded on first use.

    Args:
      name: name of the jar in `jar_folder`.
      target: Beam's name for the runner and its version, such as `flink:1.19`.

    Raises:
      RequestError: there is no jar, and the download fails.
    """
    from apache_beam.utils.subprocess_server import JavaJarServer

    jar = os.path.join(jar_folder(), name)
    if storage.exists(jar):
        return jar
    runner = target.split(":")[0]
    try:
        return str(JavaJarServer.local_jar(JavaJarServer.path_to_beam_jar(f":runners:{target}:job-server:shadowJar")))
    except (OSError, RuntimeError) as error:
        reason = str(error).partition(". Also failed")[0]
        raise RequestError(
            f"Beam's job server for {target.replace(':', ' ')} is not available: {reason}; build one with "
            f"deploy/{runner}/job-server/build.sh, or name a jar with `{runner}_job_server_jar`",
            code="missing_job_server",
        ) from error
