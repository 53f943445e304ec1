"""MapInProcesses: applies a function to every element, in as many processes as this machine has cores."""

from __future__ import annotations

import functools
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.typehints.decorators import no_annotations
from apache_beam.utils.windowed_value import WindowedValue

from beam_tfrecords import storage
from beam_tfrecords.transforms.processes.worker import WorkerPool, prepare_process

# Elements that wait per process: enough to keep all processes busy, and few enough to hold in memory.
_WAITING_PER_PROCESS = 2
# Distinguishes this process from processes on other machines, which can have the same number.
_THIS_PROCESS = uuid.uuid4().hex


class MapInProcesses(beam.PTransform):
    """Applies a function to every element: element -> function(element, **named).

    Beam's local runner assigns all elements to its workers in advance, so one worker may be idle while another
    has much left to do. Here each process takes the next element when it has finished one, and if a process dies, only
    its element is retried.

    Args:
      function: importable, or made of importable objects.
      processes: number of processes; 0 applies the function in the runner's worker, as on a cluster. If the worker runs
        in the process that built the pipeline (Prism, Beam's in-process workers), each of the runner's threads starts a
        process, because a decoder that crashes or hangs ends its process.
      named: further arguments of the function: values, or side inputs with one value.
    """

    def __init__(self, function: Callable[..., Any], *, processes: int, **named: Any) -> None:
        super().__init__()
        self._function = function
        self._processes = processes
        self._named = named

    def expand(self, elements: beam.PCollection) -> beam.PCollection:
        call = _Call(self._function, self._processes)
        return elements | "Apply" >> beam.ParDo(call, **self._named).with_output_types(Any)


class _Call(beam.DoFn):
    """Applies the function, and emits the results in the order of the elements.

    Uses processes of its own, or the runner's worker, or one process if that worker is the process that built the
    pipeline.
    """

    def __init__(self, function: Callable[..., Any], processes: int) -> None:
        self._function = function
        self._processes = processes
        self._launcher = _THIS_PROCESS
        self._options = storage.current_options()

    def setup(self) -> None:
        storage.set_options(self._options)
        processes = self._processes or int(self._launcher == _THIS_PROCESS)
        self._pool = WorkerPool(processes) if processes else None
        if self._pool is None:
            prepare_process()

    def start_bundle(self) -> None:
        self._waiting: deque[Future[Any]] = deque()

    @no_annotations  # Beam checks further arguments against their annotation, and finds too few types.
    def process(self, element: Any, **named: Any) -> Iterator[Any]:
        function = functools.partial(self._function, **named)
        if self._pool is None:
            yield function(element)
            return
        self._waiting.append(self._pool.submit(function, element))
        while len(self._waiting) > _WAITING_PER_PROCESS * self._processes:
            yield self._waiting.popleft().result()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        while self._waiting:
            yield GlobalWindows.windowed_value(self._waiting.popleft().result())

    def teardown(self) -> None:
        if self._pool is not None:
            self._pool.close()
