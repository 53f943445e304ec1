"""Inputs that are drawn with a meaning are read with that meaning, or refused with readings that give it."""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Iterator, Mapping

import pytest

from tests.meanings.draws import draw_case, run_cases
from tests.meanings.oracle import CRASH, WRONG
from tests.meanings.report import Found, group

# Kinds of wrong outcomes that are known: how the kind begins -> why it stands. A kind is taken out with its fix.
KNOWN: Mapping[str, str] = {
    "guessed": "boxes beside two columns of classes: the one with a usual name is taken, and the other is named",
    "labels (label:list)": "some words in cells of a large table are one class each, with a note",
    "offer, boxes": "boxes of a few rows that fit two formats, offered with the labels",
    "offer, labels (label:list)": "texts of two or three words offered as one class each, among others",
    "offer, lost": "the images of one split, whose table is offered alone",
    "offer, publishes nothing": "a dataset of columns that lack values",
    "offer, values": "lists of numbers in a text as texts",
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Logs nothing: thousands of inputs are refused."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def find_wrong(seed: int, count: int, *, seconds: float = math.inf) -> list[Found]:
    """Returns the outcomes that are wrong, without those of a known kind.

    Args:
      seed: of the inputs.
      count: number of inputs.
      seconds: the last input is the one that this time ends in.
    """
    end = time.monotonic() + seconds
    in_time = itertools.takewhile(lambda _: time.monotonic() < end, run_cases(seed, count))
    found = [one for one in in_time if one.outcome.kind in (WRONG, CRASH)]
    return [one for one in found if not one.kind.startswith(tuple(KNOWN))]


def show(found: list[Found]) -> str:
    """Returns the smallest input of each kind."""
    return "\n".join(f"{len(ones)} x {kind}: {ones[0].show()}" for kind, ones in group(found).items())


def test_what_an_input_means_is_read_or_asked() -> None:
    found = find_wrong(seed=46, count=40)
    assert not found, show(found)


@pytest.mark.nightly
def test_what_thousands_of_inputs_mean_is_read_or_asked() -> None:
    found = find_wrong(seed=1, count=5000, seconds=90)
    assert not found, show(found)


def test_a_seed_draws_the_same_input_again() -> None:
    first, again = draw_case(3, 5), draw_case(3, 5)
    assert (first.files, first.settings, first.roles) == (again.files, again.settings, again.roles)
