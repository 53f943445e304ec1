"""Retries failed requests to stores: one policy for all stores, bounded by time.

A busy store slows the build down: pauses grow, with full jitter, and the process spaces its requests.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from beam_tfrecords.storage import request_metrics

# HTTP statuses to retry, and the subset that means too many requests.
RETRIED = frozenset({408, 429, 500, 502, 503, 504})
REFUSALS = frozenset({429, 503})
# Seconds without any response of the store after which requests fail, unless the environment overrides it.
_MOST_SECONDS = 120.0
_VARIABLE = "BEAM_TFRECORDS_RETRY_SECONDS"
# A request that never succeeds fails after this many times as long, even if the store answers other requests.
_WHILE_ANSWERED = 5
# Retries of a request to a store that other requests have given up on.
_LEAST_RETRIES = 2
# Maximum of the first pause in seconds, and of any pause as a share of the time limit.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.4, 1 / 8
# Seconds between two requests of a process after the first refusal, and at most; each second with refusals doubles the
# distance, and each response shrinks it.
_FIRST_DISTANCE, _MOST_DISTANCE, _SHRINK = 0.002, 0.05, 0.95

# A separate generator, so that a seed in the user's program keeps its meaning.
JITTER = random.SystemRandom()

Result = TypeVar("Result")


class DamagedAnswerError(Exception):
    """A download differs from the stored object in length or checksum."""


def note_wait(error: Exception, seconds: float) -> None:
    """Records on an error how long its request was repeated."""
    error.waited = seconds  # type: ignore[attr-defined]


def describe_wait(error: Exception) -> str:
    """Describes how long the request of an error was repeated; empty if it was not."""
    link: BaseException | None = error
    while link is not None:
        if (seconds := getattr(link, "waited", None)) is not None:
            return f", for {seconds:.0f} s"
        # Libraries raise other errors in place of the one that ended the request.
        link = link.__cause__ or link.__context__
    return ""


class Store:
    """What this process knows about a store from its responses, for all of its threads."""

    def __init__(self) -> None:
        # Reentrant: objects that the garbage collector closes may send requests in the thread that holds the lock.
        self._lock = threading.RLock()
        self._last_answer = self._last_failure = self._turn = self._slowed = 0.0
        self._silent_since: float | None = None
        self._distance = 0.0

    def wait(self) -> None:
        """Waits until a request may be sent: requests to a busy store are spaced."""
        if not self._distance:
            return
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._turn)
            self._turn = turn + self._distance
        time.sleep(turn - now)

    def note_answer(self) -> None:
        """Records a response of the store; a permanent error is a response too."""
        if self._silent_since is None and not self._distance:
            return
        with self._lock:
            self._silent_since, self._last_answer = None, time.monotonic()
            self._distance = self._distance * _SHRINK if self._distance > _FIRST_DISTANCE / 2 else 0.0

    def pause(self, began: float, number: int, *, is_busy: bool = False) -> float | None:
        """Returns the seconds before a failed request is retried; None to give up.

        Args:
          began: first attempt of the request, by the monotonic clock.
          number: number of failed attempts before this one.
          is_busy: whether the store asked for fewer requests.
        """
        most = float(os.environ.get(_VARIABLE, _MOST_SECONDS))
        now = time.monotonic()
        with self._lock:
            # Failures long ago say nothing about the store's current state.
            if self._silent_since is None or now > self._last_failure + most:
                self._silent_since = max(began, self._last_answer)
            self._last_failure = now
            if is_busy and now > self._slowed + 1:
                self._slowed = now
                self._distance = min(max(2 * self._distance, _FIRST_DISTANCE), _MOST_DISTANCE)
            is_over = now > self._silent_since + most or now > began + _WHILE_ANSWERED * most
        if is_over and number >= _LEAST_RETRIES:
            return None
        request_metrics.count("retries")
        return JITTER.random() * min(_FIRST_PAUSE * 2 ** min(number, 16), _LONGEST_PAUSE * most)

    def waited(self, began: float) -> float:
        """Returns the seconds without any response of the store, or since the first attempt of a request.

        Args:
          began: first attempt of the request that is given up, by the monotonic clock.
        """
        now = time.monotonic()
        with self._lock:
            return now - (began if self._silent_since is None else min(began, self._silent_since))

    def send(
        self,
        request: Callable[[], Result],
        *,
        may_pass: Callable[[Exception], bool],
        is_busy: Callable[[Exception], bool] = lambda _: False,
    ) -> Result:
        """Sends a request, and retries it as long as the error is temporary; returns the result.

        Args:
          request: sends the request.
          may_pass: whether an error is temporary.
          is_busy: whether an error asks for fewer requests.

        Raises:
          Exception: the error of the last attempt.
        """
        began = time.monotonic()
        for number in itertools.count():
            try:
                result = request()
            except Exception as error:
                if not may_pass(error):
                    self.note_answer()
                    raise
                pause = self.pause(began, number, is_busy=is_busy(error))
                if pause is None:
                    note_wait(error, self.waited(began))
                    raise
                time.sleep(pause)
            else:
                self.note_answer()
                return result
        raise AssertionError
