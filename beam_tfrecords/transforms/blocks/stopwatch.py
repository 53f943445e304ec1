"""Measures the time spent in the steps of a loop."""

from __future__ import annotations

import time
from collections import defaultdict


class Stopwatch:
    """Adds up the time spent in each step of a loop."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._last = time.perf_counter()

    def lap(self, step: str) -> None:
        """Adds the time since the previous call to a step."""
        now = time.perf_counter()
        self._seconds[step] += now - self._last
        self._last = now

    @property
    def msec(self) -> dict[str, int]:
        """Step -> milliseconds spent in it."""
        return {step: round(1000 * seconds) for step, seconds in self._seconds.items()}
