"""A Flink cluster and its jobs, by its REST interface.

https://nightlies.apache.org/flink/flink-docs-stable/docs/ops/rest_api/
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import re
import socket
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from beam_tfrecords.beam_pipelines.runners.failures import JobFailedError, describe_trace, find_build_error
from beam_tfrecords.beam_pipelines.runners.jobs import JobRecord
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.errors import BuildError, RequestError

_TIMEOUT = 5.0
_POLL = 1.0
# Seconds that task managers may take to offer their slots again.
_SETTLING = 12.0
# Seconds that a job manager may be away before its job is given up.
_AWAY = 60.0
_ENDED = {"FINISHED", "FAILED", "CANCELED"}
_FORGOTTEN = "the job manager was restarted and no longer knows"
# Network buffers for an output that is sorted, unless the cluster says otherwise; such outputs that `ConvertBlocks` has
# at once, more than any other stage; and buffers for what else a slot does: 2,570 of 2,720 were in use where an output
# had 512, and with 2,208 every attempt failed.
_SORT_BUFFERS, _BUFFER_BYTES = 512, 32 << 10
_SORTED_OUTPUTS, _OTHER_BUFFERS = 5, 32
# Task managers that are asked: those of one cluster are alike.
_MOST_ASKED = 16
# What a request raises if Flink does not answer, or something else does.
UNREACHABLE = (OSError, http.client.HTTPException, ValueError, LookupError, TypeError)
# Java could not start the worker.
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_TOO_LARGE = "exceeds the maximum size of a sort buffer"


@dataclasses.dataclass(frozen=True)
class FlinkCluster:
    """A cluster that answers.

    Attributes:
      url: `http://host:port` of its job manager.
      version: of Flink, such as `1.19.3`.
      free_slots: those that no job has.
      slots_per_manager: of the largest task manager.
      buffers: network buffers for each slot of the task manager that has the fewest; None if there is none yet.
      sort_buffers: those that Flink wants for each output that it sorts.
    """

    url: str
    version: str
    slots: int
    free_slots: int
    slots_per_manager: int
    hosts: tuple[str, ...]
    buffers: int | None = None
    sort_buffers: int = _SORT_BUFFERS

    @property
    def minor_version(self) -> str:
        """The version as Beam names it, such as `1.19`."""
        return ".".join(self.version.split(".")[:2])

    @property
    def is_here(self) -> bool:
        """Whether all task managers run on this machine."""
        return all(map(_is_here, self.hosts))

    @classmethod
    def at(cls, master: str) -> FlinkCluster:
        """Asks a job manager for what its cluster has.

        Raises:
          RequestError: nothing that is Flink answers there.
        """
        url = master.strip().rstrip("/")
        url = url if "://" in url else f"http://{url}"
        deadline = time.monotonic() + _SETTLING
        try:
            version = _get(f"{url}/config")["flink-version"]
            # After a job manager was restarted, task managers return, and let go of its jobs' slots, one by one.
            while _is_settling(overview := _get(f"{url}/overview")) and time.monotonic() < deadline:
                time.sleep(_POLL)
            managers = _get(f"{url}/taskmanagers")["taskmanagers"]
            settings = {one["key"]: one["value"] for one in _get(f"{url}/jobmanager/config")}
            buffers = [
                _get(f"{url}/taskmanagers/{manager['id']}")["memoryConfiguration"]["networkMemory"]
                // (_BUFFER_BYTES * max(1, manager["slotsNumber"]))
                for manager in managers[:_MOST_ASKED]
            ]
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            raise RequestError(
                f"`flink_master={master}`: no Flink job manager answers there ({_reason(error)}); expected host:port "
                "of its REST interface, which also serves Flink's web page"
            ) from error
        return cls(
            url=url,
            version=version,
            slots=overview["slots-total"],
            free_slots=overview["slots-available"],
            slots_per_manager=max((manager["slotsNumber"] for manager in managers), default=1),
            hosts=tuple(sorted({_host(manager["path"]) for manager in managers})),
            buffers=min(buffers, default=None),
            sort_buffers=int(settings.get("taskmanager.network.sort-shuffle.min-buffers", _SORT_BUFFERS)),
        )

    def check_buffers(self, shown: str) -> None:
        """Checks that tasks of a build find the network buffers that they begin with.

        Args:
          shown: the setting that names the cluster, as messages quote it.

        Raises:
          RequestError: they do not; Flink would start them again until its restart strategy gives up.
        """
        needed = _SORTED_OUTPUTS * self.sort_buffers + _OTHER_BUFFERS
        if self.buffers is not None and self.buffers < needed:
            raise RequestError(
                f"{shown}: its task managers have {self.buffers:,} network buffers for each slot; a build needs "
                f"{needed:,} at least, as `taskmanager.network.sort-shuffle.min-buffers` is {self.sort_buffers}; give "
                "the cluster `taskmanager.network.sort-shuffle.min-buffers: 64` and "
                "`taskmanager.memory.network.fraction: 0.2`, as in deploy/flink/builds.yaml"
            )

    def find_job(self, name: str) -> FlinkJob | None:
        """The newest job of this name, if there is one."""
        return FlinkJob.named(self.url, name)


@dataclasses.dataclass(frozen=True)
class FlinkJob:
    """A job that was submitted.

    Attributes:
      id: Flink's number of the job.
    """

    url: str
    id: str

    @classmethod
    def of(cls, record: JobRecord) -> FlinkJob | None:
        """The job that a build's folder remembers; None if it was about to be submitted, and Flink knows none."""
        url = record.url.partition("/#")[0]
        return cls(url, record.job_id) if record.job_id else cls.named(url, record.name)

    @classmethod
    def named(cls, url: str, name: str) -> FlinkJob | None:
        """The newest job of a name, if there is one."""
        jobs = [job for job in _get(f"{url}/jobs/overview")["jobs"] if job["name"] == name]
        return cls(url, max(jobs, key=lambda job: job["start-time"])["jid"]) if jobs else None

    @property
    def record(self) -> JobRecord:
        """What the build's folder remembers of it."""
        return JobRecord("FlinkRunner", self.id, f"{self.url}/#/job/running/{self.id}")

    def is_running(self) -> bool | None:
        """Whether Flink knows the job, and it has not ended; None if Flink does not answer."""
        try:
            return self._state() not in _ENDED
        except urllib.error.HTTPError as error:
            return False if error.code == 404 else None
        except UNREACHABLE:
            return None

    def find_end(self) -> str | None:
        """Why the job has ended, in one line; None if it has not, or Flink does not answer."""
        try:
            state = self._state()
            return self._describe_end(state, self._failures()) if state in _ENDED else None
        except urllib.error.HTTPError as error:
            return f"{_FORGOTTEN} job {self.id}" if error.code == 404 else None
        except UNREACHABLE:
            return None

    def _describe_end(self, state: str, failures: Sequence[str]) -> str:
        if failures and state != "CANCELED":
            return _describe(failures[0])
        return f"job {self.id} was {state.lower()}"

    def wait(self) -> None:
        """Returns when the job has finished.

        Raises:
          BuildError: it failed, was cancelled, or the job manager is gone or was restarted. An error of the build that
            a second attempt repeats ends the job, whatever Flink's restart strategy is.
        """
        answered = time.monotonic()
        shown: set[str] = set()
        while True:
            try:
                state = self._state()
                failures = self._failures() if state != "FINISHED" else []
                answered = time.monotonic()
            except (OSError, http.client.HTTPException, ValueError) as error:
                if isinstance(error, urllib.error.HTTPError) and error.code == 404:
                    raise BuildError(
                        f"{_FORGOTTEN} job {self.id}; the same command resumes from the finished blocks"
                    ) from error
                if time.monotonic() - answered > _AWAY:
                    raise BuildError(
                        f"{self.url} did not answer for {_AWAY:.0f} s ({_reason(error)}); the same command follows the "
                        "job if it still runs, and resumes it if not"
                    ) from error
                state, failures = "", []
            if state == "FINISHED":
                return
            if state in _ENDED:
                why = self._describe_end(state, failures)
                is_definite = state == "CANCELED" or any(map(find_build_error, failures))
                raise BuildError(why) if is_definite else JobFailedError(why)
            missing = next((found[1] for text in failures if (found := _NO_PROGRAM.search(text))), None)
            if missing:
                self.cancel()
                raise BuildError(
                    f"a task manager has no {missing}; install this package there in the same place as here, or say "
                    "what starts Python workers, by `environment_type` and `environment_config`"
                )
            errors = [message for text in failures if (message := find_build_error(text))]
            if len(errors) != len(set(errors)):
                self.cancel()
                raise BuildError(errors[0])
            causes = dict.fromkeys(map(_describe, reversed(failures)))
            for cause in causes:
                if cause not in shown:
                    show(f"Flink starts tasks again: {cause}", file=sys.stderr)
            shown.update(causes)
            time.sleep(_POLL)

    def cancel(self) -> None:
        """Asks Flink to end the job, and returns when it has ended or Flink does not answer."""
        request = urllib.request.Request(f"{self.url}/jobs/{self.id}?mode=cancel", method="PATCH")
        deadline = time.monotonic() + _AWAY
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT):
                pass
            while self.is_running() and time.monotonic() < deadline:
                time.sleep(0.2)
        except (OSError, http.client.HTTPException):
            return

    def _state(self) -> str:
        return str(_get(f"{self.url}/jobs/{self.id}")["state"])

    def _failures(self) -> list[str]:
        """What made tasks start again so far, as stack traces, newest first."""
        answer = _get(f"{self.url}/jobs/{self.id}/exceptions")
        entries = (answer.get("exceptionHistory") or {}).get("entries", [])
        return [str(entry["stacktrace"]) for entry in entries] or [answer["root-exception"]] * bool(
            answer.get("root-exception")
        )


def _describe(failure: str) -> str:
    line = describe_trace(failure, more="Flink's page shows more")
    if _TOO_LARGE in failure:
        line += "; give the task managers more managed memory: `taskmanager.memory.managed.fraction`, or more memory"
    return line


def _is_settling(overview: Mapping[str, Any]) -> bool:
    """Whether slots are taken, or missing, although no job runs."""
    return not overview["jobs-running"] and (
        not overview["slots-total"] or overview["slots-available"] < overview["slots-total"]
    )


def _get(url: str) -> Any:
    # A stranger's folder may say any; others would be files of this machine.
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url} is no address of Flink")
    with urllib.request.urlopen(url, timeout=_TIMEOUT) as response:
        return json.load(response)


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return str(getattr(reason, "strerror", None) or reason or type(error).__name__)


def _host(path: str) -> str:
    """The address in `pekko.tcp://flink@10.0.0.5:37201/user/rpc/taskmanager_0`."""
    return urllib.parse.urlsplit(path).hostname or "127.0.0.1"


def _is_here(host: str) -> bool:
    """Whether an address is one of this machine."""
    try:
        kind, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as probe:
            probe.bind(address)
    except OSError:
        return False
    return True
