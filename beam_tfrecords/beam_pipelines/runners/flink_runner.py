"""The runner for Flink: asks a cluster for its slots, submits jobs as a single jar, and follows them over REST."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import re
import socket
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.runners.arguments import BeamArguments
from beam_tfrecords.beam_pipelines.runners.jobs import (
    FollowedJob,
    Job,
    JobRecord,
    JobState,
    Phase,
    PipelineJob,
    UnreachableError,
    describe_trace,
    find_build_error,
)
from beam_tfrecords.beam_pipelines.runners.portable_runner import PortableRunner, find_jar, write_small_jar
from beam_tfrecords.errors import RequestError, describe_exception

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.runners.runner import PipelineResult

# Milliseconds that a worker waits for the next stage: more than Flink takes to start one, and less than restart
# strategies wait, so that a restarted task gets a new worker.
_KEPT_MILLISECONDS = "500"
# Seconds to wait for a submitted job to appear in the cluster's list.
_SUBMISSION_TIMEOUT = 120.0
_POLL = 1.0
# Seconds to wait for task managers to offer their slots again.
_SETTLING = 12.0
# The jar of `deploy/flink/job-server/build.sh`, or Beam's.
_JOB_SERVER = re.compile(r"flink-[\d.]+-job-server[^/]*\.jar$")
_ENDED = {"FINISHED": Phase.DONE, "FAILED": Phase.FAILED, "CANCELED": Phase.STOPPED}
_FORGOTTEN = "the job manager was restarted and no longer knows job {}"
_NEVER_SEEN = "Flink knows no job {}: its launcher ended before it was submitted, or the job manager was restarted"
# Java's message if it cannot start a worker.
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_TOO_LARGE = "exceeds the maximum size of a sort buffer"
_TIMEOUT = 5.0


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
                    f"--max_slots={most}: limits the free slots that a build takes of a cluster with `flink_master` "
                    "host:port; here set `parallelism`",
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


@dataclasses.dataclass(frozen=True)
class FlinkCluster:
    """The properties of a running cluster.

    Attributes:
      url: `http://host:port` of the job manager.
      version: Flink version, such as `1.19.3`.
      slots: number of task slots.
      free_slots: number of free task slots.
      slots_per_manager: slots of the largest task manager.
      hosts: addresses of the task managers.
      has_job_server: whether Beam's job server is among the cluster's libraries.
    """

    url: str
    version: str
    slots: int
    free_slots: int
    slots_per_manager: int
    hosts: tuple[str, ...]
    has_job_server: bool = False

    @property
    def minor_version(self) -> str:
        """Version in Beam's notation, such as `1.19`."""
        return ".".join(self.version.split(".")[:2])

    @property
    def is_here(self) -> bool:
        """Whether all task managers run on this machine."""
        return all(map(_is_here, self.hosts))

    @classmethod
    def at(cls, master: str) -> FlinkCluster:
        """Queries the job manager of a cluster.

        Raises:
          RequestError: no Flink job manager answers at this address.
        """
        url = master.strip().rstrip("/")
        url = url if "://" in url else f"http://{url}"
        deadline = time.monotonic() + _SETTLING
        try:
            with asking(url):
                version = get(f"{url}/config")["flink-version"]
                # After a restart of the job manager, task managers return and free the slots of its jobs one by one.
                while _is_settling(overview := get(f"{url}/overview")) and time.monotonic() < deadline:
                    time.sleep(_POLL)
                managers = get(f"{url}/taskmanagers")["taskmanagers"]
                classpath = get(f"{url}/jobmanager/environment")["classpath"]
        except UnreachableError as error:
            raise RequestError(
                f"`flink_master={master}`: no Flink job manager answers there ({error.reason}); expected host:port "
                "of its REST interface, which also serves Flink's web page",
                code="cluster_unreachable",
            ) from error
        return cls(
            url=url,
            version=version,
            slots=overview["slots-total"],
            free_slots=overview["slots-available"],
            slots_per_manager=max((manager["slotsNumber"] for manager in managers), default=1),
            hosts=tuple(sorted({_host(manager["path"]) for manager in managers})),
            has_job_server=any(map(_JOB_SERVER.search, classpath)),
        )


def _is_settling(overview: Mapping[str, Any]) -> bool:
    """Whether slots are occupied or missing although no job runs."""
    return not overview["jobs-running"] and (
        not overview["slots-total"] or overview["slots-available"] < overview["slots-total"]
    )


def _host(path: str) -> str:
    """Returns the address in `pekko.tcp://flink@10.0.0.5:37201/user/rpc/taskmanager_0`."""
    return urllib.parse.urlsplit(path).hostname or "127.0.0.1"


def _is_here(host: str) -> bool:
    """Whether an address belongs to this machine."""
    try:
        kind, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as probe:
            probe.bind(address)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def asking(url: str) -> Iterator[None]:
    """Turns exceptions of requests into `UnreachableError` if Flink does not answer, or another server does.

    Args:
      url: `http://host:port` of the job manager.
    """
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as error:
        reason = getattr(error, "reason", error)
        said = getattr(reason, "strerror", None)
        said = said or (describe_exception(reason) if isinstance(reason, BaseException) else str(reason))
        raise UnreachableError(url, said) from error


def get(url: str) -> Any:
    """Returns the JSON answer to a request.

    Raises:
      HTTPError: the job manager rejects the request, with code 404 for an unknown job.
      OSError, HTTPException, ValueError: no server, or another server, answers.
    """
    # An untrusted folder may contain any URL, and other schemes could read files of this machine.
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url} is not an address of Flink")
    with urllib.request.urlopen(url, timeout=_TIMEOUT) as response:
        return json.load(response)


def _patch(url: str) -> None:
    """Sends a PATCH request and ignores the answer; raises the same errors as `get`."""
    with urllib.request.urlopen(urllib.request.Request(url, method="PATCH"), timeout=_TIMEOUT):
        pass


@dataclasses.dataclass(frozen=True)
class FlinkJob(FollowedJob):
    """A Flink job, given by its id or its name.

    Attributes:
      url: `http://host:port` of the job manager.
      id: Flink's id of the job; empty if Flink knows no job of that name.
      name: name of the job; empty if there is an id.
    """

    url: str
    id: str
    name: str = ""

    @classmethod
    def of(cls, record: JobRecord) -> FlinkJob:
        """Returns the job for a record.

        Raises:
          UnreachableError: the record has no id, and Flink does not answer.
        """
        url = record.url.partition("/#")[0]
        if record.job_id:
            return cls(url, record.job_id)
        return cls.find(url, record.name) or cls(url, "", record.name)

    @classmethod
    def find(cls, url: str, name: str) -> FlinkJob | None:
        """Returns the newest job with a name; None if there is none.

        Raises:
          UnreachableError: Flink does not answer.
        """
        with asking(url):
            jobs = [job for job in get(f"{url}/jobs/overview")["jobs"] if job["name"] == name]
            return cls(url, max(jobs, key=lambda job: job["start-time"])["jid"]) if jobs else None

    @property
    def record(self) -> JobRecord:
        """See `FollowedJob`."""
        return JobRecord("FlinkRunner", self.id, f"{self.url}/#/job/running/{self.id}")

    def state(self) -> JobState:
        """See `FollowedJob`.

        Whatever Flink's restart strategy is, a job cannot succeed if a worker cannot be started, or if a second attempt
        repeats an error of the build.
        """
        if not self.id:
            return JobState(Phase.FORGOTTEN, _NEVER_SEEN.format(self.name))
        with asking(self.url):
            try:
                name = str(get(f"{self.url}/jobs/{self.id}")["state"])
                failures = self._failures() if name != "FINISHED" else []
            except urllib.error.HTTPError as error:
                if error.code != 404:
                    raise
                return JobState(Phase.FORGOTTEN, _FORGOTTEN.format(self.id))
        if name not in _ENDED:
            restarts = dict.fromkeys(map(_describe, reversed(failures)))
            notes = tuple(f"Flink starts tasks again: {cause}" for cause in restarts)
            return JobState(Phase.RUNNING, _find_obstacle(failures), notes)
        phase = _ENDED[name]
        if phase is not Phase.FAILED or not failures:
            return JobState(phase, f"job {self.id} was {name.lower()}")
        is_the_builds = any(map(find_build_error, failures))
        return JobState(Phase.STOPPED if is_the_builds else phase, _describe(failures[0]))

    def end(self) -> None:
        """See `FollowedJob`."""
        with asking(self.url):
            _patch(f"{self.url}/jobs/{self.id}?mode=cancel")

    def _failures(self) -> list[str]:
        """Returns the stack traces of all task failures so far, newest first."""
        answer = get(f"{self.url}/jobs/{self.id}/exceptions")
        root, entries = answer.get("root-exception"), (answer.get("exceptionHistory") or {}).get("entries", [])
        return [str(entry["stacktrace"]) for entry in entries] or ([root] if root else [])


def _find_obstacle(failures: Sequence[str]) -> str:
    """Returns why no attempt can succeed, in one line; "" if one may."""
    missing = next((found[1] for text in failures if (found := _NO_PROGRAM.search(text))), None)
    if missing:
        return (
            f"a task manager has no {missing}; install this package there in the same place as here, or set "
            "the command of Python workers by `environment_type` and `environment_config`"
        )
    errors = [message for text in failures if (message := find_build_error(text))]
    return errors[0] if len(errors) != len(set(errors)) else ""


def _describe(failure: str) -> str:
    line = describe_trace(failure, more="Flink's page shows more")
    if _TOO_LARGE in failure:
        line += "; give the task managers more managed memory: `taskmanager.memory.managed.fraction`, or more memory"
    return line
