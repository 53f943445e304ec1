"""Asks the REST interface of a Flink job manager, and follows its jobs.

https://nightlies.apache.org/flink/flink-docs-stable/docs/ops/rest_api/
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

from beam_tfrecords.beam_pipelines.runners.failures import describe_trace, find_build_error
from beam_tfrecords.beam_pipelines.runners.jobs import FollowedJob, JobRecord, JobState, Phase, UnreachableError
from beam_tfrecords.errors import describe_exception

_ENDED = {"FINISHED": Phase.DONE, "FAILED": Phase.FAILED, "CANCELED": Phase.STOPPED}
_FORGOTTEN = "the job manager was restarted and no longer knows job {}"
_NEVER_SEEN = "Flink knows no job {}: its launcher ended before it was submitted, or the job manager was restarted"
# Java's message if it cannot start a worker.
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_TOO_LARGE = "exceeds the maximum size of a sort buffer"
_TIMEOUT = 5.0


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
        raise ValueError(f"{url} is no address of Flink")
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
