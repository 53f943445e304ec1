"""Processes on this machine that stay warm from one stage to the next."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Hashable
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
        self._children = [Child() for _ in range(processes)]
        self._idle: queue.SimpleQueue[Child] = queue.SimpleQueue()
        for child in self._children:
            self._idle.put(child)
        self._begun: dict[Hashable, Future[Any]] = {}
        self._closed = False

    def submit(self, function: Callable[..., Any], *arguments: Any, name: Hashable = None) -> Future[Any]:
        """Calls a function; one whose process dies is called once more.

        Args:
          function: importable, or built of what is.
          arguments: of the function.
          name: of the call, for one that may have been begun already.
        """
        begun = self._begun.pop(name, None)
        return begun or self._threads.submit(self._call, function, *arguments)

    def begin(self, name: Hashable, function: Callable[..., Any], *arguments: Any) -> None:
        """Calls a function ahead of its `submit`, which then gets the outcome of this call.

        Args:
          name: of the call.
          function: as for `submit`.
          arguments: of the function.
        """
        self._begun[name] = self.submit(function, *arguments)

    def start(self, *modules: str) -> None:
        """Starts all processes and has them import some modules; does not wait for it."""
        for child in self._children:
            child.start()
        for _ in range(self.processes):
            self.submit(import_modules, *modules)

    def close(self) -> None:
        """Ends the processes, whatever they are doing."""
        self._closed = True
        for child in self._children:
            child.close()
        self._threads.shutdown(cancel_futures=True)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        child = self._idle.get()
        try:
            return child.call(function, *arguments)
        except ChildDiedError:
            if self._closed:
                raise
            return child.call(function, *arguments)
        finally:
            self._idle.put(child)


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
