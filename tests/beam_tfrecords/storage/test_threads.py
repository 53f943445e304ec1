"""map_in_threads: everything once, in order, and few at a time."""

from __future__ import annotations

import time

import pytest

from beam_tfrecords.storage.threads import map_in_threads


def test_results_come_in_the_order_of_the_items_and_few_are_waited_for():
    begun = []

    def work(number):
        begun.append(number)
        time.sleep((5 - number % 5) / 500)
        return number

    results = map_in_threads(work, range(100), threads=4)
    assert next(results) == 0
    assert len(begun) <= 9
    assert list(results) == list(range(1, 100))


def test_an_error_of_one_item_ends_the_results_before_it():
    results = map_in_threads(lambda number: 1 // (3 - number), range(100), threads=4)
    assert [next(results) for _ in range(3)] == [0, 0, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)
