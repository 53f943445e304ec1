"""Queries a Flink cluster for its version, task slots and network buffers."""

from __future__ import annotations

import dataclasses
import socket
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any

from beam_tfrecords.beam_pipelines.runners.flink_rest import asking, get
from beam_tfrecords.beam_pipelines.runners.jobs import UnreachableError
from beam_tfrecords.errors import RequestError

_POLL = 1.0
# Seconds to wait for task managers to offer their slots again.
_SETTLING = 12.0
# Default network buffers for a sorted output, in number and bytes; sorted outputs of `ConvertBlocks`, which has more
# than any other stage; and other buffers of a slot. With 512 per output, 2,570 of 2,720 buffers were in use, and every
# attempt with 2,208 buffers failed.
_SORT_BUFFERS, _BUFFER_BYTES = 512, 32 << 10
_SORTED_OUTPUTS, _OTHER_BUFFERS = 5, 32
# Number of task managers to query, because those of a cluster are alike.
_MOST_ASKED = 16


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
      buffers: smallest number of network buffers per slot of a task manager; None if there is no task manager yet.
      sort_buffers: network buffers that Flink requires for each sorted output.
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
                settings = {one["key"]: one["value"] for one in get(f"{url}/jobmanager/config")}
                buffers = [
                    get(f"{url}/taskmanagers/{manager['id']}")["memoryConfiguration"]["networkMemory"]
                    // (_BUFFER_BYTES * max(1, manager["slotsNumber"]))
                    for manager in managers[:_MOST_ASKED]
                ]
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
            buffers=min(buffers, default=None),
            sort_buffers=int(settings.get("taskmanager.network.sort-shuffle.min-buffers", _SORT_BUFFERS)),
        )

    def check_buffers(self, shown: str) -> None:
        """Checks that the cluster has enough network buffers to start the tasks of a build.

        Args:
          shown: setting that names the cluster, as messages quote it.

        Raises:
          RequestError: there are too few buffers; Flink would restart the tasks until its restart strategy gives up.
        """
        needed = _SORTED_OUTPUTS * self.sort_buffers + _OTHER_BUFFERS
        if self.buffers is not None and self.buffers < needed:
            raise RequestError(
                f"{shown}: its task managers have {self.buffers:,} network buffers for each slot; a build needs "
                f"{needed:,} at least, as `taskmanager.network.sort-shuffle.min-buffers` is {self.sort_buffers}; give "
                "the cluster `taskmanager.network.sort-shuffle.min-buffers: 64` and "
                "`taskmanager.memory.network.fraction: 0.2`, as in deploy/flink/builds.yaml",
                code="too_few_network_buffers",
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
