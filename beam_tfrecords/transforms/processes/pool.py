"""A pool of worker processes on this machine."""

from __future__ import annotations

import contextlib
import os
import queue
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms.processes.worker import OUT_OF_MEMORY, Worker, WorkerDiedError

# Niceness of processes beyond the cores. Processes with equal priority would finish their blocks at the same time and
# wait for the store together, which cost 4% of a build from bucket to bucket at 20 ms per request.
_NICE = 3


class WorkerPool:
    """Calls functions in worker processes; each process takes the next call when it has finished one.

    Args:
      processes: number of workers; each starts at its first call. Workers beyond the cores run with lower priority.
    """

    def __init__(self, processes: int) -> None:
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="pool")
        cores = usable_cores()
        self._workers = [Worker(nice=0 if number < cores else _NICE) for number in range(processes)]
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Calls a function as `Worker.call` does; retries once if the process dies."""
        return self._threads.submit(self._call, function, *arguments)

    def close(self) -> None:
        """Kills the workers at once, without waiting."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.close()

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        worker = self._idle.get()
        try:
            with contextlib.suppress(WorkerDiedError):
                return worker.call(function, *arguments)
            return worker.call(function, *arguments, is_second=True)
        except WorkerDiedError as error:
            why = f"; {OUT_OF_MEMORY}" if error.is_killed else ""
            raise BuildError(f"a worker process ended twice at the same work: {error}{why}") from error
        finally:
            self._idle.put(worker)


def usable_cores() -> int:
    """Returns the number of cores that this process may use, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
