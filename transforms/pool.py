"""Processes on this machine that stay warm from one stage to the next."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from transforms.child import Child, ChildDiedError, import_modules


class ProcessPool:
    """Calls functions in processes; each takes the next call when it is done with one.

    Args:
      processes: how many; each is started with its first call.
    """

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="pool")
        self._local = threading.local()
        self._children: list[Child] = []

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Calls a function; one whose process dies is called once more.

        Args:
          function: importable, or built of what is.
          arguments: of the function.
        """
        return self._threads.submit(self._call, function, *arguments)

    def warm(self, *modules: str) -> None:
        """Starts all processes and has them import some modules; does not wait for it."""
        for _ in range(self.processes):
            self.submit(import_modules, *modules)

    def close(self) -> None:
        """Ends the processes, whatever they are doing."""
        for child in self._children:
            child.close()
        self._threads.shutdown(cancel_futures=True)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        child: Child | None = getattr(self._local, "child", None)
        if child is None:
            child = self._local.child = Child()
            self._children.append(child)
        try:
            return child.call(function, *arguments)
        except ChildDiedError:
            return child.call(function, *arguments)


_pools: dict[int, ProcessPool] = {}


def shared_pool(processes: int) -> ProcessPool:
    """The pool of so many processes, which all stages share."""
    if processes not in _pools:
        _pools[processes] = ProcessPool(processes)
    return _pools[processes]


def close_pools() -> None:
    """Ends the processes of all shared pools."""
    while _pools:
        _, pool = _pools.popitem()
        pool.close()


def usable_cores() -> int:
    """Cores that this process may use; fewer than the machine has in a container."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
