"""Locks that a thread may take again: the garbage collector closes what makes requests while they are held."""

from __future__ import annotations

import gc
import threading

from beam_tfrecords.storage import traffic


def test_requests_are_counted_while_counts_are_taken():
    class Closing(list):
        def __del__(self) -> None:
            traffic.count(traffic.DELETE)

    def collect() -> None:
        with traffic._lock:
            leaked = Closing()
            leaked.append(leaked)
            del leaked
            gc.collect()

    taken = traffic.take_traffic()
    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert traffic.take_traffic() == {traffic.DELETE: 1}
    traffic.add_traffic(taken)
