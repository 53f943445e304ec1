"""Locks that a thread may take again: the garbage collector closes what makes requests while they are held."""

from __future__ import annotations

import gc
import threading

from beam_tfrecords.storage import request_metrics


def test_requests_are_counted_while_counts_are_taken():
    class Closing(list):
        def __del__(self) -> None:
            request_metrics.count(request_metrics.DELETE)

    def collect() -> None:
        with request_metrics._lock:
            leaked = Closing()
            leaked.append(leaked)
            del leaked
            gc.collect(0)

    taken = request_metrics.take_request_metrics()
    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert request_metrics.take_request_metrics() == {request_metrics.DELETE: 1}
    request_metrics.add_request_metrics(taken)
