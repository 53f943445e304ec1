"""Spark, by Beam's job server."""

from __future__ import annotations

import dataclasses
import re
import shutil
from typing import TYPE_CHECKING

from beam_tfrecords.beam_pipelines.runners.jar_files import find_jar
from beam_tfrecords.beam_pipelines.runners.jobs import Job, JobRecord, PipelineJob
from beam_tfrecords.beam_pipelines.runners.runner import Runner
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.processes.descendants import find_children

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineResult


class SparkRunner(Runner):
    """Spark, by Beam's job server, which is a process of this machine."""

    _children: frozenset[int] = frozenset()

    def complete(self) -> list[str]:
        given = self.arguments.given
        if given["job_endpoint"] is not None:
            return super().complete()
        if shutil.which("java") is None:
            raise RequestError(
                "`runner=SparkRunner` needs Java, and there is no `java` on the PATH; install Java 11 or 17"
            )
        job_name = self.name_job()
        filled = self.worker_environment(job_name)
        if given["spark_job_server_jar"] is None:
            filled["spark_job_server_jar"] = find_jar("spark-3-job-server/spark-3-job-server.jar", "spark:3")
        master = str(given["spark_master_url"] or "local[4]")
        cores = re.fullmatch(r"local\[(\d+)\]", master)
        if cores:
            filled["sdk_worker_parallelism"] = cores[1]
            self.workers = int(cores[1])
        self.note = f"Spark at {master}; set: {self.arguments.describe(filled)}"
        return self.arguments.add({**filled, "job_name": job_name})

    def before(self) -> JobRecord | None:
        self._children = find_children()
        return None

    def find_job(self, result: PipelineResult, options: PipelineOptions) -> Job:
        job = super().find_job(result, options)
        started = find_children() - self._children
        return dataclasses.replace(job, companions=started) if isinstance(job, PipelineJob) else job
