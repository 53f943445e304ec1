"""Beam's own log, while this package imports or runs Beam."""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

_LOGGER = logging.getLogger("apache_beam")
# What logs to the root logger, and gives it a handler if it has none.
_ROOT_FUNCTIONS = ("debug", "info", "warning", "error", "exception")
_lock = threading.Lock()
# The levels that blocks have asked for, in all threads.
_asked: list[int] = []
_routing = contextlib.ExitStack()
# Whether the program has set no level for Beam's loggers.
_is_ours = False


@contextlib.contextmanager
def beam_logs_from(level: int) -> Iterator[None]:
    """Within it, Beam logs records of this level and above, by its own loggers; of several levels the lowest counts.

    Beam warns on import about extras that are not installed, and tells much of every pipeline. A level that the program
    has set for Beam's loggers stays.
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
    """A function of the module `logging`; what Beam's modules log by it is logged by their loggers."""

    @functools.wraps(log)
    def route(message: object, *arguments: Any, **named: Any) -> None:
        caller = str(sys._getframe(1).f_globals.get("__name__"))
        by_caller = getattr(logging.getLogger(caller), log.__name__) if caller.startswith("apache_beam.") else log
        by_caller(message, *arguments, **{**named, "stacklevel": named.get("stacklevel", 1) + 1})

    return route
