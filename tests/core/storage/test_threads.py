"""map_in_threads: all once, in order, few at a time; call_at_once: all at a time; SharedCall: one call for many."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage.threads import SharedCall, call_at_once, map_in_threads


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


def test_functions_run_at_once_and_give_their_results_in_order():
    barrier = threading.Barrier(3, timeout=30)
    assert call_at_once(*(lambda number=number: (barrier.wait(), number)[1] for number in range(3))) == [0, 1, 2]


def test_an_error_is_raised_when_all_functions_have_ended():
    ended = threading.Event()
    with pytest.raises(ZeroDivisionError):
        call_at_once(lambda: 1 // 0, lambda: (time.sleep(0.05), ended.set()))
    assert ended.is_set()


def test_files_that_are_opened_in_these_threads_are_noted(tmp_path):
    noted = storage.DependencyTracker()
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"")
    with storage.noting_files(noted):
        call_at_once(*(lambda name=name: storage.read_bytes(f"{tmp_path}/{name}") for name in ("a", "b")))
    assert sorted(noted.fingerprints) == [f"{tmp_path}/a", f"{tmp_path}/b"]


def test_a_shared_call_serves_all_who_asked_before_it_began():
    begun, go_on, calls = threading.Event(), threading.Event(), []

    def call() -> None:
        calls.append(len(calls))
        begun.set()
        assert go_on.wait(10)

    shared = SharedCall(call)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(shared)
        assert begun.wait(10)
        others = [pool.submit(shared) for _ in range(8)]
        # They do not have the outcome of a call that began before they asked.
        time.sleep(0.05)
        assert not any(one.done() for one in others)
        go_on.set()
        for one in (first, *others):
            one.result(10)
    assert calls == [0, 1]
    shared()
    assert calls == [0, 1, 2]


def test_a_shared_call_fails_for_all():
    def fail() -> None:
        raise BuildError("taken over")

    shared = SharedCall(fail)
    for _ in range(2):
        with pytest.raises(BuildError, match="taken over"):
            shared()
