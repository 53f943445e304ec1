"""Works in threads: for stores that answer one request slowly and many at once."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def call_at_once(*functions: Callable[[], Any]) -> list[Any]:
    """The results of functions that run in a thread each, in their order; all have ended if one raises."""
    with ThreadPoolExecutor(len(functions)) as pool:
        # What notes the files that are opened here does so there too.
        begun = [pool.submit(contextvars.copy_context().run, function) for function in functions]
        return [future.result() for future in begun]


class SharedCall:
    """Calls a function for several threads at once: each has the outcome of a call that began after it asked."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._asking, self._calling = threading.Lock(), threading.Lock()
        # Of the next call, which whoever asks first makes once the call under way has ended.
        self._next: Future[None] | None = None

    def __call__(self) -> None:
        with self._asking:
            is_first, outcome = self._next is None, self._next or Future()
            self._next = outcome
        if is_first:
            with self._calling:
                with self._asking:
                    self._next = None
                try:
                    outcome.set_result(self._function())
                except BaseException as error:
                    outcome.set_exception(error)
        outcome.result()


def map_in_threads(function: Callable[[Item], Result], items: Iterable[Item], *, threads: int) -> Iterator[Result]:
    """Yields the results for all items in their order, and calls the function for the next few meanwhile."""
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
