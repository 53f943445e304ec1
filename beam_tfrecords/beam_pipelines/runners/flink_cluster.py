"""Queries a Flink cluster for its version and task slots."""

from __future__ import annotations

import dataclasses
import re
import socket
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any

from beam_tfrecords.beam_pipelines.runners.flink_job import asking, get
from beam_tfrecords.beam_pipelines.runners.jobs import UnreachableError
from beam_tfrecords.errors import RequestError

_POLL = 1.0
# Seconds to wait for task managers to offer their slots again.
_SETTLING = 12.0
# The jar of `deploy/flink/job-server/build.sh`, or Beam's.
_JOB_SERVER = re.compile(r"flink-[\d.]+-job-server[^/]*\.jar$")


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
