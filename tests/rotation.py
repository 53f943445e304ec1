"""A share of tests that are alike, another one each day, so that a few days run them all."""

from __future__ import annotations

import datetime
import itertools
import math
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import pytest

Item = TypeVar("Item")
# A test with this many cases walks one rule over many. `--few` keeps a fifth of them, and at least one.
MANY, _FEW_SHARE = 3, 0.2


def add_options(parser: pytest.Parser) -> None:
    """Adds `--few`, `--share` and `--day`."""
    parser.addoption(
        "--few",
        action="store_true",
        help=f"run a fifth of the slow tests, and of the cases of each test that has {MANY} or more;"
        " `--exhaustive` runs the others",
    )
    parser.addoption(
        "--share",
        type=float,
        default=1.0,
        help="run this share (0 to 1) of the cases of each test that is marked `many`, at least one; with"
        " `--exhaustive` or `--beam_workers` that of every test, and of the tests of a module that have one case",
    )
    parser.addoption(
        "--day",
        type=int,
        default=datetime.date.today().toordinal(),
        help="the day that decides which cases `--few` and `--share` run; today by default",
    )


def is_whole(config: pytest.Config) -> bool:
    """Whether to run a test whole that `--few` shortens, and that other libraries than those of `make test` fail."""
    return not config.getoption("few") or bool(os.environ.get("CI"))


def describe(config: pytest.Config) -> str:
    """Returns the line that tells how to run the same cases again; empty if all are run."""
    few, share, day = (config.getoption(name) for name in ("few", "share", "day"))
    options = [*(["--few"] if few else []), *([f"--share={share}"] if share < 1 else [])]
    return f"not all cases were run; the same again: {' '.join(options)} --day={day}" if options else ""


def draw(
    cases: Iterable[Item], config: pytest.Config, *, name: Callable[[Item], str], share: float | None = None
) -> list[Item]:
    """Returns the cases of one test that this day runs, in their order.

    Args:
      cases: all cases.
      config: holds the share and the day.
      name: the name of a case; its hash is its place in the rotation.
      share: from 0 to 1, in place of that of `config`.
    """
    cases = list(cases)
    share = config.getoption("share") if share is None else share
    count = math.ceil(share * len(cases))
    mixed = sorted(cases, key=lambda case: zlib.crc32(name(case).encode(errors="replace")))
    first = config.getoption("day") * count % max(len(cases), 1)
    drawn = {name(case) for case in itertools.islice(itertools.cycle(mixed), first, first + count)}
    return [case for case in cases if name(case) in drawn]


def find_others(items: Iterable[pytest.Item], config: pytest.Config) -> set[pytest.Item]:
    """Returns the items that `--few` leaves out on this day."""
    groups: dict[object, list[pytest.Item]] = {}
    for item in items:
        # Slow tests are drawn from all of them.
        groups.setdefault("slow" if item.get_closest_marker("slow") else _function_of(item), []).append(item)
    others: set[pytest.Item] = set()
    for cases in groups.values():
        if len(cases) >= MANY:
            others |= set(cases) - set(draw(cases, config, name=_name_of, share=_FEW_SHARE))
    return others


def find_undrawn(items: Sequence[pytest.Item], config: pytest.Config) -> set[pytest.Item]:
    """Returns the items that another day runs."""
    draws_all = config.getoption("exhaustive") or config.getoption("beam_workers")
    drawn_from = [item for item in items if draws_all or item.get_closest_marker("many")]
    cases = Counter(_function_of(item) for item in drawn_from)
    groups: dict[object, list[pytest.Item]] = {}
    for item in drawn_from:
        # Tests of one case are drawn from those of their module.
        function = _function_of(item)
        groups.setdefault(function if cases[function] > 1 else item.path, []).append(item)
    undrawn: set[pytest.Item] = set()
    for group in groups.values():
        undrawn |= set(group) - set(draw(group, config, name=_name_of))
    return undrawn


def _name_of(item: pytest.Item) -> str:
    return item.nodeid


def _function_of(item: pytest.Item) -> object:
    return getattr(item, "function", item)
