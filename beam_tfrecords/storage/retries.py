"""When a request that a store refused or lost is sent again: one policy for all stores, bounded by time.

A busy store slows the build down: pauses grow, with full jitter, and the requests of a process keep their distance.
Those of many workers keep to what a bucket takes from the beginning; see `rate_limiter`.
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
from beam_tfrecords.storage.options import current_options
from beam_tfrecords.storage.rate_limiter import FirstRates, RateLimiter, rate_of

# HTTP statuses of requests that are sent again, and those of them that ask for fewer requests.
RETRIED = frozenset({408, 429, 500, 502, 503, 504})
REFUSALS = frozenset({429, 503})
# Seconds without any answer of the store after which requests are given up, unless the environment says another number.
_MOST_SECONDS = 120.0
_VARIABLE = "BEAM_TFRECORDS_RETRY_SECONDS"
# A request that never succeeds is given up after so many times as long, although the store answers others.
_WHILE_ANSWERED = 5
# Retries of a request to a store that others have given up.
_LEAST_RETRIES = 2
# Seconds of the first pause at most, and the share of the time above that a pause may take.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.4, 1 / 8
# Seconds between two requests of a process after the first refusal, and at most; a second with refusals doubles them,
# and an answer shrinks them.
_FIRST_DISTANCE, _MOST_DISTANCE, _SHRINK = 0.002, 0.05, 0.95

# Not that of the user's program, whose numbers a seed repeats.
JITTER = random.SystemRandom()

Result = TypeVar("Result")


class DamagedAnswerError(Exception):
    """What was downloaded is not what the store has: its length or its checksum does not fit."""


class Store:
    """What this process knows of the answers of a store, for all of its threads.

    Args:
      first: what a bucket takes to begin with.
    """

    def __init__(self, first: FirstRates) -> None:
        self._first = first
        self._reads, self._writes = RateLimiter(), RateLimiter()
        # What the garbage collector closes may make requests too, in the thread that holds it.
        self._lock = threading.RLock()
        self._last_answer = self._last_failure = self._turn = self._slowed = 0.0
        self._silent_since: float | None = None
        self._distance = 0.0

    def wait(self, *, is_write: bool = False) -> None:
        """Waits for the turn of a request: the share of this process in what a bucket takes, or less if it is busy."""
        options = current_options()
        if not (self._distance or options.workers):
            return
        seconds = 0.0
        with self._lock:
            now = time.monotonic()
            if self._distance:
                turn = max(now, self._turn)
                self._turn = turn + self._distance
                seconds = turn - now
            if options.workers:
                first = self._first.writes if is_write else self._first.reads
                rate = rate_of(first, seconds=time.time() - options.began, workers=options.workers)
                seconds = max(seconds, (self._writes if is_write else self._reads).take(now, rate))
        if seconds:
            time.sleep(seconds)

    def note_answer(self) -> None:
        """The store has answered a request; an error that it will repeat is an answer."""
        if self._silent_since is None and not self._distance:
            return
        with self._lock:
            self._silent_since, self._last_answer = None, time.monotonic()
            self._distance = self._distance * _SHRINK if self._distance > _FIRST_DISTANCE / 2 else 0.0

    def pause(self, began: float, number: int, *, is_busy: bool = False) -> float | None:
        """Seconds until a request that failed is sent again; None if it is given up.

        Args:
          began: when the request was sent first, by the monotonic clock.
          number: of its failed attempts before this one.
          is_busy: whether the store wants fewer requests.
        """
        most = float(os.environ.get(_VARIABLE, _MOST_SECONDS))
        now = time.monotonic()
        with self._lock:
            # Failures that are long past say nothing of now.
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

    def send(
        self,
        request: Callable[[], Result],
        *,
        may_pass: Callable[[Exception], bool],
        is_busy: Callable[[Exception], bool] = lambda _: False,
    ) -> Result:
        """The result of a request, sent again while it fails by an error that may pass.

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
                    raise
                time.sleep(pause)
            else:
                self.note_answer()
                return result
        raise AssertionError
