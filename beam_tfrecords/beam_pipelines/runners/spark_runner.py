"""The runner for Spark, through Beam's job server: a process on this machine that ends with its launcher."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from beam_tfrecords.beam_pipelines.runners.jar_files import find_jar
from beam_tfrecords.beam_pipelines.runners.jobs import Job, JobRecord, PipelineJob
from beam_tfrecords.beam_pipelines.runners.runner import Runner
from beam_tfrecords.beam_pipelines.runners.worker_flags import worker_flags
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.processes.descendants import find_children

if TYPE_CHECKING:
    import apache_beam as beam


class SparkRunner(Runner):
    """Spark, through Beam's job server, which is a process on this machine."""

    def complete(self) -> list[str]:
        given = self.arguments.given
        if given["job_endpoint"] is not None:
            return super().complete()
        if shutil.which("java") is None:
            raise RequestError(
                "`runner=SparkRunner` needs Java, and there is no java on the PATH; install Java 11 or 17",
                code="missing_program",
            )
        job_name = self.name_job()
        filled = worker_flags(self.arguments, job_name)
        if given["spark_job_server_jar"] is None:
            filled["spark_job_server_jar"] = find_jar("spark-3-job-server/spark-3-job-server.jar", "spark:3")
        master = str(given["spark_master_url"] or "local[4]")
        cores = re.fullmatch(r"local\[(\d+)\]", master)
        if cores:
            filled["sdk_worker_parallelism"] = cores[1]
        self.note = f"Spark at {master}; set: {self.arguments.describe(filled)}"
        return self.arguments.add({**filled, "job_name": job_name})

    def submit(self, pipeline: beam.Pipeline, remember: Callable[[JobRecord], None]) -> Job:
        if self.arguments.given["job_endpoint"] is not None:
            return super().submit(pipeline, remember)
        before = find_children()
        result = pipeline.run()
        return _JobWithServer(None, result, find_children() - before)


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
