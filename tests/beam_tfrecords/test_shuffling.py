"""The shuffled order: every number once, an order for each seed, close to a random one."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from beam_tfrecords.reading.shuffling import LISTED, Shuffle
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
