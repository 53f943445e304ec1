"""Requests of many workers keep to what a bucket takes, and those of few do not wait."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords import storage
from beam_tfrecords.storage.rate_limiter import BURST_SECONDS, FirstRates, RateLimiter, rate_of
from beam_tfrecords.storage.retries import Store

DOUBLING = 1200.0
SECONDS = st.floats(0, 10**6)
WORKERS = st.integers(1, 10**5)


@given(SECONDS, SECONDS, WORKERS)
def test_all_workers_begin_with_what_a_bucket_takes_and_double_it_in_twenty_minutes(seconds, later, workers):
    def rate(at: float) -> float:
        return rate_of(5000, seconds=at, workers=workers) * workers

    # A clock that is behind says that the load has not begun.
    assert rate(-later) == rate(0) == pytest.approx(5000)
    assert rate(seconds) <= rate(seconds + later)
    assert rate(seconds + DOUBLING) <= rate(seconds) * 2 * (1 + 1e-9)
    if seconds < 16 * DOUBLING:
        assert rate(seconds) == pytest.approx(5000 * 2 ** (seconds / DOUBLING))


@given(st.lists(st.floats(0, 3), max_size=200), st.floats(0.1, 10**4))
def test_no_span_has_more_requests_than_the_rate_allows(pauses, rate):
    pace, now, sent = RateLimiter(), 1000.0, []
    for pause in pauses:
        now += pause
        now += pace.take(now, rate)
        sent.append(now)
    for first in range(len(sent)):
        for last in range(first, len(sent), 7):
            assert last - first <= rate * (sent[last] - sent[first] + BURST_SECONDS) * (1 + 1e-6)


@given(st.lists(st.floats(0, 3), max_size=200), st.floats(0.1, 10**4))
def test_whoever_asks_less_never_waits(pauses, rate):
    pace, now = RateLimiter(), 1000.0
    for pause in pauses:
        now += pause + 1 / rate
        assert pace.take(now, rate) == pytest.approx(0, abs=1e-6)


def test_a_store_is_asked_at_the_share_of_this_process(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "time", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))

    def ask(number: int, **kind: bool) -> float:
        before, store = now[0], Store(FirstRates(reads=1000, writes=100))
        for _ in range(number):
            store.wait(**kind)
        return now[0] - before

    assert ask(10_000) == 0  # nobody knows how many share the bucket
    with storage.using(storage.StorageOptions(workers=10, began=1000.0)):
        assert ask(100) == 0
        assert ask(1100) == pytest.approx(10, rel=0.03)
        assert ask(110, is_write=True) == pytest.approx(10, rel=0.03)
        now[0] = 1000 + 2 * DOUBLING
        assert ask(4400) == pytest.approx(10, rel=0.03)
