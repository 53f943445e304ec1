"""How fast requests may come to a bucket whose load has just begun: a store makes room as the load grows.

Google asks for 5,000 reads and 1,000 writes a second at the beginning, and to double them every 20 minutes at most
(https://cloud.google.com/storage/docs/request-rate); Amazon takes 5,500 and 3,500 below each prefix, and more later.
"""

from __future__ import annotations

import dataclasses

_DOUBLING_SECONDS = 20 * 60.0
# More than this no store is known to bear.
_MOST_DOUBLINGS = 16
# Requests of so many seconds may come at once, so that a build waits only if it has sent more than its share for long.
BURST_SECONDS = 1.0


@dataclasses.dataclass(frozen=True)
class FirstRates:
    """Requests a second that a bucket takes to begin with, of all processes."""

    reads: float
    writes: float


def rate_of(first: float, *, seconds: float, workers: int) -> float:
    """Requests a second that each of some processes may send.

    Args:
      first: what a bucket takes to begin with, of all of them.
      seconds: since the load began; a clock may be behind.
      workers: number of processes.
    """
    doublings = min(max(0.0, seconds) / _DOUBLING_SECONDS, _MOST_DOUBLINGS)
    return first * 2.0**doublings / workers


class RateLimiter:
    """Keeps the requests of one kind of a process to a rate."""

    def __init__(self) -> None:
        # When all requests so far would have been sent at the rate.
        self._sent_until = float("-inf")

    def take(self, now: float, rate: float) -> float:
        """Seconds until the next request may be sent.

        Args:
          now: seconds by a clock that is never put back.
          rate: requests a second.
        """
        turn = max(self._sent_until, now - BURST_SECONDS)
        self._sent_until = turn + 1 / rate
        return max(0.0, turn - now)
