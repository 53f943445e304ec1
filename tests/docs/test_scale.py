"""What benchmarks/scale_cluster.py draws and counts, against simple oracles."""

from __future__ import annotations

import numpy as np
import pytest

from tests.docs.test_benchmarks import load

SCALE = load("scale_cluster")


def test_a_store_that_takes_enough_adds_nothing():
    assert SCALE.ramp_delay(10**6, 4000.0, first=5000) == pytest.approx(0)


def test_a_cold_store_adds_what_is_not_read_while_it_doubles():
    # 20 minutes at half of the rate: half of them are lost.
    assert SCALE.ramp_delay(10**9, 10_000.0, first=5000) == pytest.approx(600)
    # It never gets to double.
    assert SCALE.ramp_delay(10**6, 10_000.0, first=5000) == pytest.approx(100)


def test_who_is_done_takes_the_next_block():
    assert SCALE._run_dynamically(np.array([3.0, 1.0, 1.0, 1.0]), np.array([1.0, 1.0])) == 3
    assert SCALE._run_dynamically(np.array([1.0, 1.0, 1.0]), np.array([1.0, 4.0])) == 4


def test_the_clock_of_the_same_seed_is_the_same_and_no_faster_than_that_of_machines_that_are_alike():
    counts = np.full(5000, 400)
    one, other = (
        SCALE.draw_clock(counts, workers=50, rate=200.0, writes=30_000, generator=np.random.default_rng(1))
        for _ in range(2)
    )
    assert one == other
    assert one.even == pytest.approx(5000 * 400 / 200 / 50 / 3600)
    assert one.even * 0.9 < one.dynamic < one.fixed


def test_copies_are_those_of_the_upload_plan():
    # Shards of three parts of 10 MiB; nothing is cut.
    copies = SCALE.count_copies(np.full(30, 10 << 20), shards=10)
    assert (copies.copied, copies.uploaded, copies.looked_at, copies.begun) == (30, 0, 30, 10)
    assert (copies.writes, copies.reads) == (50, 30)
    # Parts of 4 MiB go through a worker, together.
    copies = SCALE.count_copies(np.full(40, 4 << 20), shards=10)
    assert (copies.copied, copies.uploaded, copies.read) == (0, 40, 70)


def test_soft_delete_keeps_what_is_deleted_for_a_week():
    assert SCALE.soft_delete_dollars(1e9 * 365.25 / 12) == pytest.approx(0.02 * 7)
