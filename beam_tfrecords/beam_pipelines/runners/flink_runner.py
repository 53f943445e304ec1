"""The runner for Flink: submits jobs as a single jar, and follows them through the cluster's REST interface."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.runners.arguments import BeamArguments
from beam_tfrecords.beam_pipelines.runners.flink_cluster import FlinkCluster
from beam_tfrecords.beam_pipelines.runners.flink_job import FlinkJob
from beam_tfrecords.beam_pipelines.runners.jar_files import find_jar, write_small_jar
from beam_tfrecords.beam_pipelines.runners.jobs import Job, JobRecord, PipelineJob
from beam_tfrecords.beam_pipelines.runners.portable_runner import PortableRunner
from beam_tfrecords.errors import RequestError

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.runners.runner import PipelineResult

# Milliseconds that a worker waits for the next stage: more than Flink takes to start one, and less than restart
# strategies wait, so that a restarted task gets a new worker.
_KEPT_MILLISECONDS = "500"
# Seconds to wait for a submitted job to appear in the cluster's list.
_SUBMISSION_TIMEOUT = 120.0


class FlinkRunner(PortableRunner):
    """The Flink cluster that `flink_master` names.

    Raises:
      RequestError: `max_slots` is not a positive whole number, or is given together with `parallelism`.
    """

    is_detached = True
    idle_flags: Mapping[str, str] = MappingProxyType({})
    _cluster: FlinkCluster | None = None
    _scratch: tempfile.TemporaryDirectory[str] | None = None
    _job_name = ""

    def __init__(self, arguments: BeamArguments) -> None:
        super().__init__(arguments)
        word, parallelism = arguments.given["max_slots"], arguments.given["parallelism"]
        if None not in (word, parallelism):
            raise RequestError(
                f"--max_slots={word}: contradicts `parallelism={parallelism}`; give one of them",
                code="conflicting_settings",
            )
        self._most_slots = arguments.number("max_slots")

    def complete(self) -> list[str]:
        given, most = self.arguments.given, self._most_slots
        if given["job_endpoint"] is not None or (given["flink_master"] or "").startswith("["):
            if most is not None:
                raise RequestError(
                    f"--max_slots={most}: says how many of the free slots of a cluster are taken, which `flink_master` "
                    "names by host:port; here set `parallelism`",
                    code="setting_not_applicable",
                )
            return super().complete()
        if not given["flink_master"]:
            raise RequestError(
                "`flink_master` is missing; expected host:port of the REST interface of a Flink cluster, which also "
                "serves Flink's web page, or [local] for a cluster that ends with this process",
                code="missing_setting",
            )
        from apache_beam.options.pipeline_options import FlinkRunnerOptions

        cluster = self._cluster = FlinkCluster.at(given["flink_master"])
        version, known = cluster.minor_version, FlinkRunnerOptions.PUBLISHED_FLINK_VERSIONS
        where = f"`flink_master={given['flink_master']}`"
        if version not in known:
            raise RequestError(
                f"{where}: Flink {cluster.version}; this Beam runs jobs on {', '.join(known)}",
                code="unsupported_flink_version",
            )
        if given["flink_version"] not in (None, version):
            raise RequestError(
                f"`flink_version={given['flink_version']}`: the cluster runs Flink {cluster.version}; leave it out",
                code="flink_version_differs",
            )
        if not (cluster.free_slots or self.has_job) and given["parallelism"] is None:
            raise RequestError(
                f"{where}: none of its {cluster.slots} task slots is free; wait for the job that uses them, start task "
                "managers, or set `parallelism` for a job that waits",
                code="no_free_slots",
            )
        self._job_name = self.name_job()
        slots = min(cluster.free_slots, most or cluster.free_slots)
        filled = {
            **self.arguments.worker_flags(),
            "flink_version": version,
            "parallelism": str(slots),
            "sdk_worker_parallelism": str(min(slots, cluster.slots_per_manager)),
        }
        # Otherwise Beam lists all installed packages just for the log, which takes seconds.
        hidden = {"job_name": self._job_name, "experiments": "disable_logging_submission_environment"}
        if given["flink_job_server_jar"] is None:
            jar = find_jar(f"flink-{version}-job-server.jar", f"flink:{version}")
            if cluster.has_job_server:
                # Beam keeps workers between stages only if its classes outlive a job.
                filled["environment_cache_millis"] = _KEPT_MILLISECONDS
                self._scratch = tempfile.TemporaryDirectory(prefix="beam-tfrecords-")
                whole, jar = jar, storage.join(self._scratch.name, storage.basename(jar))
                write_small_jar(whole, jar)
            filled["flink_job_server_jar"] = jar
            # The cluster runs the jar itself, so no Java and no long-running server is needed here.
            hidden["flink_submit_uber_jar"] = ""
        found = f"Flink {cluster.version} with {cluster.free_slots} free task slots"
        self.note = f"{found}; set: {self.arguments.describe(filled)}"
        if not cluster.is_here:
            hosts = ", ".join(cluster.hosts[:3]) + (", ..." if len(cluster.hosts) > 3 else "")
            self.note += (
                f"\nnote: task managers run on other machines ({hosts}); input and output have to be there under the "
                "same names (a bucket, or a disk that is mounted everywhere), and this package in the same place"
            )
        return self.arguments.add({**filled, **hidden})

    def submit(self, pipeline: beam.Pipeline, remember: Callable[[JobRecord], None]) -> Job:
        """See `Runner.submit`; if the job does not appear in the cluster's list in time, Beam follows it."""
        if self._cluster is None:
            return super().submit(pipeline, remember)
        url, name = self._cluster.url, self._job_name
        # A build of archives runs two consecutive jobs with the same name.
        earlier = FlinkJob.find(url, name)
        # A name that the user gives may also be the name of other builds' jobs.
        if self.arguments.given["job_name"] is None:
            remember(JobRecord("FlinkRunner", "", url, name))
        result = pipeline.run()
        _remove_submitted(result)
        deadline = time.monotonic() + _SUBMISSION_TIMEOUT
        while time.monotonic() < deadline:
            job = FlinkJob.find(url, name)
            if job is not None and job != earlier:
                remember(job.record)
                return job
            time.sleep(0.5)
        return PipelineJob(None, result)

    def open_job(self, record: JobRecord) -> FlinkJob:
        return FlinkJob.of(record)


def _remove_submitted(result: PipelineResult) -> None:
    """Removes Beam's files of a submission, which are no longer needed: Flink has a copy of the uploaded jar."""
    service = getattr(result, "_job_service", None)
    for job in getattr(service, "_jobs", {}).values():
        job.delete_jar()
    folder = getattr(service, "_temp_dir", None)
    if folder is not None:
        with contextlib.suppress(OSError):
            storage.delete_tree(folder)
