"""Limits requests to a bucket without previous load, as stores need time to scale up.

Google asks for at most 5,000 reads and 1,000 writes a second at first, doubled every 20 minutes at most
(https://cloud.google.com/storage/docs/request-rate); Amazon accepts 5,500 and 3,500 per prefix, and more later.
"""

from __future__ import annotations

import dataclasses

_DOUBLING_SECONDS = 20 * 60.0
# No store is known to accept more.
_MOST_DOUBLINGS = 16
# Allowed burst in seconds of requests, so that a build waits only after it has exceeded its share for some time.
BURST_SECONDS = 1.0


@dataclasses.dataclass(frozen=True)
class FirstRates:
    """Requests per second that a bucket accepts at first, from all processes together."""

    reads: float
    writes: float


def rate_of(first: float, *, seconds: float, workers: int) -> float:
    """Returns the requests per second that each process may send.

    Args:
      first: requests per second that the bucket accepts at first, from all processes together.
      seconds: time since the load started; may be negative if clocks differ.
      workers: number of processes.
    """
    doublings = min(max(0.0, seconds) / _DOUBLING_SECONDS, _MOST_DOUBLINGS)
    return first * 2.0**doublings / workers


class RateLimiter:
    """Limits the rate of one kind of requests of a process."""

    def __init__(self) -> None:
        # Time at which all requests so far would have been sent at the allowed rate.
        self._sent_until = float("-inf")

    def take(self, now: float, rate: float) -> float:
        """Returns the seconds until the next request may be sent.

        Args:
          now: seconds of a monotonic clock.
          rate: requests per second.
        """
        turn = max(self._sent_until, now - BURST_SECONDS)
        self._sent_until = turn + 1 / rate
        return max(0.0, turn - now)
