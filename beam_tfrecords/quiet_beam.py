"""Limits Beam's logging while this package imports or runs Beam."""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

_LOGGER = logging.getLogger("apache_beam")
# Functions that log to the root logger, and install a handler if it has none.
_ROOT_FUNCTIONS = ("debug", "info", "warning", "error", "exception")
_lock = threading.Lock()
# Levels of all active `beam_logs_from` blocks, in all threads.
_asked: list[int] = []
_routing = contextlib.ExitStack()
# Whether the program itself has set no level for Beam's loggers.
_is_ours = False


@contextlib.contextmanager
def beam_logs_from(level: int) -> Iterator[None]:
    """Limits Beam to log records of this level and above, by its own loggers. The lowest level of all blocks counts.

    Beam warns on import about extras that are not installed, and logs many lines per pipeline. A level that the program
    has set for Beam's loggers is kept.
    """
    with _lock:
        if not _asked:
            _start()
        _asked.append(level)
        _set_level()
    try:
        yield
    finally:
        with _lock:
            _asked.remove(level)
            _set_level()
            if not _asked:
                _routing.close()


def _start() -> None:
    global _is_ours
    _is_ours = _LOGGER.level == logging.NOTSET
    for name in _ROOT_FUNCTIONS:
        _routing.callback(setattr, logging, name, getattr(logging, name))
        setattr(logging, name, _route(getattr(logging, name)))


def _set_level() -> None:
    if _is_ours:
        _LOGGER.setLevel(min(_asked, default=logging.NOTSET))


def _route(log: Callable[..., None]) -> Callable[..., None]:
    """Wraps a function of the module `logging`, so that calls from Beam's modules use the loggers of these modules."""

    @functools.wraps(log)
    def route(message: object, *arguments: Any, **named: Any) -> None:
        caller = str(sys._getframe(1).f_globals.get("__name__"))
        by_caller = getattr(logging.getLogger(caller), log.__name__) if caller.startswith("apache_beam.") else log
        by_caller(message, *arguments, **{**named, "stacklevel": named.get("stacklevel", 1) + 1})

    return route
