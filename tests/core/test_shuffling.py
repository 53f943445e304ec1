"""The orders of a shuffle and of a mixture: every number once, an order for each seed, close to a random one."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.reading.shuffling import LISTED, Shuffle, mix_order
from tests.each import each


@each("size", [1, 2, 3, 4, 5, 16, 17, 1000, LISTED, LISTED + 1, 65_536, 65_537])
def test_every_number_is_there_once(size):
    assert sorted(Shuffle(size, 0)(np.arange(size))) == list(range(size))


def test_a_place_alone_has_the_number_that_it_has_among_others():
    for size in (1000, 10_000):
        shuffle = Shuffle(size, 7, 3)
        order = shuffle(np.arange(size))
        assert [int(shuffle(np.array([place]))[0]) for place in (0, 500, 999)] == order[[0, 500, 999]].tolist()


def test_the_order_never_changes():
    # A state that was saved must fit the order of a later version.
    assert Shuffle(10, 0, 0)(np.arange(10)).tolist() == [6, 2, 3, 9, 5, 0, 1, 4, 7, 8]
    assert Shuffle(10_000, 0, 0)(np.arange(5)).tolist() == [8794, 4896, 360, 6698, 780]


def test_other_seeds_and_epochs_give_other_orders():
    orders = {tuple(Shuffle(100, *seeds)(np.arange(100))) for seeds in ((0, 0), (0, 1), (1, 0), (1, 1))}
    assert len(orders) == 4


@pytest.mark.parametrize("size", [2, 3, 4, 5, pytest.param(6, marks=pytest.mark.nightly)])
def test_every_order_of_a_few_numbers_is_as_frequent(size):
    # Chi-square over all permutations.
    orders = math.factorial(size)
    counts = Counter(tuple(Shuffle(size, seed)(np.arange(size)).tolist()) for seed in range(60 * orders))
    assert len(counts) == orders
    square = sum((count - 60) ** 2 / 60 for count in counts.values())
    assert abs(square - (orders - 1)) < 4 * math.sqrt(2 * (orders - 1))


def test_numbers_are_where_chance_would_put_them():
    # Of 200 orders of 64 numbers: how often each number is at each place. Chi-square, 63 * 63 degrees of freedom.
    counts = np.zeros((64, 64))
    for seed in range(6400):
        counts[np.arange(64), Shuffle(64, seed)(np.arange(64))] += 1
    square = ((counts - 100) ** 2 / 100).sum()
    assert abs(square - 63 * 63) < 5 * np.sqrt(2 * 63 * 63)


def test_neighbours_are_torn_apart():
    order = Shuffle(100_000, 0)(np.arange(100_000))
    distances = np.abs(np.diff(order))
    assert 32_000 < distances.mean() < 34_700  # a third of the size
    assert (distances == 1).sum() < 20


def test_a_billion_numbers_take_no_memory():
    shuffle = Shuffle(10**9, 0)
    assert 0 <= shuffle(np.array([10**9 - 1]))[0] < 10**9


PARTS = st.lists(st.tuples(st.integers(1, 300), st.floats(0.01, 10)), min_size=1, max_size=4)


@given(PARTS, st.integers(0, 5))
def test_every_stretch_of_a_mixture_has_the_proportions_and_an_epoch_gives_each_part_whole(parts, seed):
    sizes, weights = zip(*parts, strict=True)
    which, numbers = mix_order(sizes, weights, seed)
    total = sum(weights)
    for part, (size, weight) in enumerate(parts):
        own = numbers[which == part]
        assert own.tolist() == [number % size for number in range(len(own))]
        assert len(own) >= size
        counts = np.cumsum(which == part)
        # Weights are rounded to ten-thousandths.
        expected = np.arange(1, len(which) + 1) * weight / total
        assert np.abs(counts - expected).max() <= 2 + len(which) * 1e-4 + 0.01 * expected[-1]
    ends = [np.flatnonzero(which == part)[size - 1] for part, size in enumerate(sizes)]
    assert len(which) == max(ends) + 1


def test_the_order_of_a_mixture_never_changes():
    # A state that was saved must fit the order of a later version.
    assert mix_order([30, 12], [0.7, 0.3], 0)[0][:12].tolist() == [0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0]
