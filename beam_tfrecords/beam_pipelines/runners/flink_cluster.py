"""A Flink cluster: its version, its task slots and its network buffers."""

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
# Seconds that task managers may take to offer their slots again.
_SETTLING = 12.0
# Network buffers for an output that is sorted, unless the cluster says otherwise; such outputs that `ConvertBlocks` has
# at once, more than any other stage; and buffers for what else a slot does: 2,570 of 2,720 were in use where an output
# had 512, and with 2,208 every attempt failed.
_SORT_BUFFERS, _BUFFER_BYTES = 512, 32 << 10
_SORTED_OUTPUTS, _OTHER_BUFFERS = 5, 32
# Task managers that are asked: those of one cluster are alike.
_MOST_ASKED = 16


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
            with asking(url):
                version = get(f"{url}/config")["flink-version"]
                # After a job manager was restarted, task managers return, and let go of its jobs' slots, one by one.
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


def _is_settling(overview: Mapping[str, Any]) -> bool:
    """Whether slots are taken, or missing, although no job runs."""
    return not overview["jobs-running"] and (
        not overview["slots-total"] or overview["slots-available"] < overview["slots-total"]
    )


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
