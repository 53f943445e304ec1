"""Reads several iterators in threads: for stores that answer one request slowly and many at once."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")

# Items that a thread hands over at a time, and how often it may do so before somebody takes them.
_ITEMS = 1000
_WAITING = 32
# Seconds until a thread looks whether it is still needed.
_LOOK = 0.1


def merge_in_threads(sources: Sequence[Callable[[], Iterable[Item]]], *, threads: int) -> Iterator[Item]:
    """Yields what all sources yield, in no set order; those of one source keep theirs.

    Args:
      sources: make what is read, each in a thread.
      threads: sources that are read at once.

    Raises:
      Exception: what a source raises; the other sources are given up.
    """
    ready: queue.Queue[list[Item] | BaseException | None] = queue.Queue(_WAITING)
    stop = threading.Event()

    def hand_over(what: list[Item] | BaseException | None) -> None:
        while not stop.is_set():
            try:
                return ready.put(what, timeout=_LOOK)
            except queue.Full:
                continue

    def read(source: Callable[[], Iterable[Item]]) -> None:
        try:
            items = iter(source() if not stop.is_set() else ())
            while not stop.is_set() and (some := list(itertools.islice(items, _ITEMS))):
                hand_over(some)
            hand_over(None)
        except BaseException as error:
            hand_over(error)

    with ThreadPoolExecutor(threads) as pool:
        try:
            for source in sources:
                pool.submit(read, source)
            left = len(sources)
            while left:
                found = ready.get()
                if isinstance(found, BaseException):
                    raise found
                left -= found is None
                yield from found or ()
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
