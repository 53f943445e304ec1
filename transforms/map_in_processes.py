"""MapInProcesses: applies a function to every element, in as many processes as this machine has cores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from transforms.pool import shared_pool

# Elements that wait for a process: enough that none is idle, few enough to be nothing to hold.
_WAITING_PER_PROCESS = 2


class MapInProcesses(beam.PTransform):
    """Applies a function to every element: element -> function(element).

    Beam's local runner deals all elements out to its workers before they begin, so one of them may stand
    idle while another has much left to do; and each of its workers is a whole Beam. Here each process takes
    the next element when it is done with one, and has only imported what the function needs.

    Args:
      function: importable, or built of what is; called once more with an element that killed its process.
      processes: how many; 0 applies it where the runner has the element, as on a cluster.
      name: gives the name of an element's call, if that may have been begun already.
    """

    def __init__(
        self, function: Callable[[Any], Any], *, processes: int, name: Callable[[Any], Hashable] | None = None
    ) -> None:
        super().__init__()
        self._function = function
        self._processes = processes
        self._name = name

    def expand(self, elements: beam.PCollection) -> beam.PCollection:
        """Adds the one step."""
        if not self._processes:
            return elements | "Apply" >> beam.Map(self._function)
        return elements | "ApplyInProcesses" >> beam.ParDo(
            _CallInProcesses(self._function, self._processes, self._name)
        )


class _CallInProcesses(beam.DoFn):
    """Hands elements to the processes and emits what comes back, in the elements' order."""

    def __init__(self, function: Callable[[Any], Any], processes: int, name: Callable[[Any], Hashable] | None) -> None:
        self._function = function
        self._processes = processes
        self._name = name
        self._waiting: deque[Future[Any]] = deque()

    def start_bundle(self) -> None:
        """Forgets what a failed bundle has left."""
        self._waiting.clear()

    def process(self, element: Any) -> Iterator[Any]:
        """Hands on one element; waits while too many others do."""
        name = self._name(element) if self._name else None
        self._waiting.append(shared_pool(self._processes).submit(self._function, element, name=name))
        while len(self._waiting) > _WAITING_PER_PROCESS * self._processes:
            yield self._waiting.popleft().result()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Waits for the rest."""
        while self._waiting:
            yield GlobalWindows.windowed_value(self._waiting.popleft().result())
