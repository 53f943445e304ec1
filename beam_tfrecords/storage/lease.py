"""The lease of an output: lets one build write at a time, across machines."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage.locks import try_lock

_log = logging.getLogger(__name__)
# Seconds between two renewals, and the age at which another process may take a lease.
_RENEWAL = 20.0
_STALE = 120.0
# Seconds for which a check in a store counts. A slow request may arrive as late after a check. That does no harm:
# files are created, never overwritten.
MOMENT = _RENEWAL / 10
# Reads of another process's lease while its holder has time for one renewal.
_LOOKS = 10
# Attempts to write a lease that nobody holds.
_ATTEMPTS = 10


class Lease:
    """A lease that this process holds; a thread renews it until it is released or the process ends.

    As a context manager, the lease is released at the end of the block.
    """

    def __init__(self, path: str, content: dict[str, Any], *, renewal: float, stale: float) -> None:
        """Stores the arguments; `take` makes leases."""
        self._path, self._content = path, content
        self._renewal, self._stale = renewal, stale
        self._is_lost, self._is_locked = False, False
        self._renewed = self._seen = now_awake()
        # Version of the file, if it was checked and not written since.
        self._version: str | None = None
        self._lock = contextlib.ExitStack()
        self._renewing = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_the_end, name="lease", daemon=True)

    @classmethod
    def take(
        cls,
        path: str,
        holder: str,
        *,
        waiting: Callable[[str, float], None] = lambda *_: None,
        renewal: float = _RENEWAL,
        stale: float = _STALE,
    ) -> Lease | str:
        """Takes a lease that is free, or whose holder is dead.

        A process on this machine is dead if it does not exist, or if its lock of a local lease is free; any other
        process is dead if it has not renewed the lease for `stale` seconds by the clock of the store. Waits while it is
        unknown whether the holder lives: until it renews or releases the lease, or until the lease is stale.

        Args:
          path: the lease file; a local lease also has `PATH.lock`.
          holder: describes this process to those who do not get the lease.
          waiting: called before the wait with a description of the holder, and the most seconds that the wait takes.
          renewal: seconds between two renewals.
          stale: seconds; a multiple of `renewal`.

        Returns:
          The lease, or the description of its holder.

        Raises:
          BuildError: the store does not answer.
          OSError: the lease may not be written.
        """
        content = {"holder": holder, "id": os.urandom(16).hex(), "renewals": 0, **_describe_process()}
        lease = cls(path, content, renewal=renewal, stale=stale)
        with contextlib.ExitStack() as stack:
            is_locked = stack.enter_context(try_lock(f"{path}.lock"))
            lease._is_locked = is_locked is True
            try:
                other = lease._write(is_locked, waiting)
                if other is not None:
                    return other
                lease._lock = stack.pop_all()
                lease._thread.start()
            except BaseException:  # Ctrl-C, after the lease may have been written
                lease.give_back()
                raise
        return lease

    def check(self) -> None:
        """Checks that this process still holds the lease, and renews it unless it was renewed recently.

        In a store, a check of the last moment counts.

        Raises:
          BuildError: the lease is lost.
        """
        if storage.has_scheme(self._path) and not self._is_lost and now_awake() - self._seen < self._renewal / 10:
            return
        self._renew(unless_within=self._renewal)
        if self._is_lost:
            raise BuildError(f"this build has lost its lease {self._path}: another build may write the output now")

    def give_back(self) -> None:
        """Releases the lease; a lost lease stays with its new holder."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join()
        # If the file cannot be deleted, the lease becomes stale in two minutes; the error that ended the build matters
        # more.
        with self._lock, contextlib.suppress(OSError, BuildError):
            # If another process has taken the lease since the check, the version differs.
            if self._version is None and (state := storage.read_state(self._path)) and self._is_mine(state[0]):
                self._version = state[1]
            if self._version is not None:
                storage.delete(self._path, version=self._version)
            if self._is_locked:
                storage.delete_files([f"{self._path}.lock"])

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()

    def _write(self, is_locked: bool | None, waiting: Callable[[str, float], None]) -> str | None:
        """Writes the file if the lease is available; otherwise returns a description of the holder."""
        for _ in range(_ATTEMPTS - 1):
            # Without locks, the holder may be cleaning the folder, and remove this process's temporary file.
            with contextlib.suppress(FileNotFoundError):
                return self._write_once(is_locked, waiting)
        return self._write_once(is_locked, waiting)

    def _write_once(self, is_locked: bool | None, waiting: Callable[[str, float], None]) -> str | None:
        watched: bytes | None = None
        while True:
            if is_locked is not False and storage.write_new(self._path, self._encoded()):
                return None
            state = storage.read_state(self._path)
            if state is None and is_locked is not False:  # released in the meantime
                continue
            if state is None:
                return "a build that has just started"
            data, version = state
            other = _decoded(data)
            holder = str(other.get("holder", "an unknown build"))
            if is_locked is False:
                return holder
            # The lock was free, so a writer on this machine is dead.
            is_dead = is_locked is True and other.get("machine") == self._content["machine"]
            is_running = False if is_dead else _is_running(other)
            left = 0.0 if is_running is False else self._seconds_until_stale()
            if left <= 0:
                if storage.replace(self._path, self._encoded(), version=version):
                    return None
                continue
            if is_running or watched not in (None, data):
                return holder
            if watched is None:
                waiting(holder, left)
            watched = data
            self._watch(data, left)

    def _seconds_until_stale(self) -> float:
        """Returns the seconds until the lease is too old, by the store's times of the lease and of a new file."""
        now = storage.now(self._path)
        try:
            # A time in the future is wrong, and must not make the wait longer.
            return min(self._stale, self._stale - (now - storage.stat(self._path).modified))
        except OSError:
            if storage.exists(self._path):
                raise
            return 0.0  # released in the meantime: replacing it fails

    def _watch(self, data: bytes, seconds: float) -> None:
        """Returns when another process's lease has changed, or after `seconds`."""
        end = now_awake() + seconds
        while (left := end - now_awake()) > 0:
            time.sleep(min(left, self._renewal / _LOOKS))
            state = storage.read_state(self._path)
            if state is None or state[0] != data:
                return

    def _renew_until_the_end(self) -> None:
        while not self._end.wait(self._renewal) and not self._is_lost:
            # The lease ages while the store does not answer.
            with contextlib.suppress(OSError, BuildError):
                self._renew()

    def _renew(self, *, unless_within: float = 0.0) -> None:
        """Renews the lease; if it was renewed in the last `unless_within` seconds, only checks it with one request."""
        with self._renewing:
            # A replacement can fail without a new holder, for example if its temporary file vanishes; the id decides.
            while not self._is_lost:
                state, now = storage.read_state(self._path), now_awake()
                self._version, self._seen = None, now
                if state is None or not self._is_mine(state[0]):
                    self._is_lost = True
                    _log.info("lost the lease %s", self._path)
                elif now < self._renewed + unless_within:
                    self._version = state[1]
                    return
                else:
                    self._content["renewals"] += 1
                    if storage.replace(self._path, self._encoded(), version=state[1]):
                        self._renewed = now
                        return

    def _is_mine(self, data: bytes) -> bool:
        return _decoded(data).get("id") == self._content["id"]

    def _encoded(self) -> bytes:
        return json.dumps(self._content).encode()


def now_awake() -> float:
    """Returns seconds by a clock that runs while the machine sleeps, where there is one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.time()


def find_holder(path: str) -> str | None:
    """Describes the holder of a lease; None if nobody holds it, as far as can be determined without taking it."""
    try:
        state = storage.read_state(path)
        if state is None or now_at(path) - storage.stat(path).modified > _STALE:
            return None
    except FileNotFoundError:
        return None
    content = _decoded(state[0])
    return None if _is_running(content) is False else str(content.get("holder", "an unknown build"))


def now_at(path: str) -> float:
    """Returns the time by the store's clock, or by this machine's clock without write permission."""
    try:
        return storage.now(path)
    except OSError:
        return time.time()


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _describe_process() -> dict[str, Any]:
    """Describes this process; `machine` is equal for all processes that see each other's locks, also in containers.

    `processes` is equal for all that see each other's process ids, until the machine restarts; None if unknown. A
    container may get the ids of an earlier one, so `started` tells their processes apart.
    """
    process = os.getpid()
    try:
        machine = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # In a container, /proc may be that of the machine, with other process ids.
        is_own = os.readlink("/proc/self") == str(process)
        processes = f"{machine} {os.readlink('/proc/self/ns/pid')}" if is_own else None
        return {"machine": machine, "processes": processes, "process": process, "started": _find_start(process)}
    except OSError:
        machine = socket.gethostname()
        # Other systems have no namespaces of processes.
        processes = None if sys.platform == "linux" else f"{machine} {uuid.getnode()}"
        return {"machine": machine, "processes": processes, "process": process, "started": None}


def _find_start(process: int) -> int | None:
    """Returns when a process started, in clock ticks since the machine started; None if it has ended.

    These are fields 3 (state) and 22 in proc_pid_stat(5).
    """
    # The second field, the name of the program, may contain spaces and parentheses.
    state, *fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return None if state in ("Z", "X") else int(fields[18])


def _is_running(process: dict[str, Any]) -> bool | None:
    """Whether a process described by `_describe_process` runs; None if this process cannot tell."""
    processes, number, started = (process.get(name) for name in ("processes", "process", "started"))
    if processes is None or processes != _describe_process()["processes"] or not isinstance(number, int):
        return None
    try:
        with contextlib.suppress(PermissionError):  # another user's process
            os.kill(number, 0)
        return _find_start(number) == started if isinstance(started, int) else None
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # other users' processes may be hidden
        return None
