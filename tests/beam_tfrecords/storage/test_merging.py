"""merge_in_threads: everything once, at once, and nothing left behind."""

from __future__ import annotations

import functools
import itertools
import threading
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.storage.merging import merge_in_threads


@given(st.lists(st.integers(0, 2500), max_size=6), st.integers(1, 4))
def test_everything_comes_once_and_that_of_one_source_in_its_order(sizes, threads):
    sources = [functools.partial(zip, itertools.repeat(number), range(size)) for number, size in enumerate(sizes)]
    found = list(merge_in_threads(sources, threads=threads))
    assert Counter(found) == Counter((number, item) for number, size in enumerate(sizes) for item in range(size))
    for number, size in enumerate(sizes):
        assert [item for source, item in found if source == number] == list(range(size))


def test_sources_are_read_at_once():
    barrier = threading.Barrier(3, timeout=10)

    def wait():
        yield barrier.wait()

    assert sorted(merge_in_threads([wait] * 3, threads=3)) == [0, 1, 2]


def test_what_a_source_raises_is_raised():
    def fail():
        yield 1
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        list(merge_in_threads([functools.partial(range, 10), fail], threads=2))


def test_a_reader_that_goes_away_stops_endless_sources():
    merged = merge_in_threads([itertools.count] * 3, threads=2)
    next(merged)
    merged.close()
    assert not [thread for thread in threading.enumerate() if "ThreadPoolExecutor" in thread.name]
