"""Inputs that are drawn with a meaning are read with that meaning, or refused with suggestions that read it."""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Iterator

import pytest

from tests.meanings.forms import draw_case
from tests.meanings.known import KNOWN
from tests.meanings.oracle import CRASH, WRONG
from tests.meanings.report import Found, group
from tests.meanings.runs import run_cases


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


@pytest.mark.parametrize(("form", "number"), [("list", 18), ("list", 171), ("list", 242), ("folder", 51), ("npz", 103)])
def test_what_was_wrong_once_is_right(form: str, number: int) -> None:
    found = [one for one in run_cases(1, 1, first=number, form=form) if one.outcome.kind in (WRONG, CRASH)]
    assert not found, show(found)


def test_a_seed_draws_the_same_input_again() -> None:
    first, again = draw_case(3, 5), draw_case(3, 5)
    assert (first.files, first.settings, first.meaning) == (again.files, again.settings, again.meaning)
