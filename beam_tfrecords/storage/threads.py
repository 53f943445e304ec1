"""Runs functions in threads, for stores that are slow per request and serve many requests at once."""

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
    """Returns the results of functions that run in one thread each, in order; waits for all even if one raises."""
    with ThreadPoolExecutor(len(functions)) as pool:
        # The threads inherit the context, so that a `DependencyTracker` also sees the files that they open.
        begun = [pool.submit(contextvars.copy_context().run, function) for function in functions]
        return [future.result() for future in begun]


class SharedCall:
    """Calls a function once for several threads; each gets the result of a call that started after its request."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._asking, self._calling = threading.Lock(), threading.Lock()
        # Outcome of the next call, which the first waiting thread makes after the current call has ended.
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
    """Yields the results for all items in order, while threads work on the next few."""
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
