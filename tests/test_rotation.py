"""A share of the cases that are alike: each day the same ones, and within a few days all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.rotation import draw

ROOT = Path(__file__).parents[1]


class Options:
    def __init__(self, share: float, day: int) -> None:
        self.given = {"share": share, "day": day}

    def getoption(self, name: str) -> float:
        return self.given[name]


@pytest.mark.parametrize(("count", "days"), [(1, 1), (2, 2), (3, 3), (5, 3), (20, 3)])
def test_each_case_is_run_within_a_few_days_and_one_on_each(count: int, days: int) -> None:
    cases = [f"case {number}" for number in range(count)]
    drawn = [draw(cases, Options(0.33, day), name=str) for day in range(7, 7 + days)]
    assert all(drawn)
    assert {case for some in drawn for case in some} == set(cases)
    assert draw(cases, Options(0.33, 7), name=str) == drawn[0]


def test_all_are_run_without_a_share() -> None:
    assert draw("abc", Options(1.0, 5), name=str) == ["a", "b", "c"]


@pytest.mark.exhaustive
def test_a_run_says_how_to_repeat_it_and_tests_that_are_not_marked_stay(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "@pytest.mark.many\n@pytest.mark.parametrize('number', range(9))\ndef test_many(number): ...\n"
        "@pytest.mark.parametrize('number', range(9))\ndef test_each(number): ...\n"
    )
    # The options are those of these tests.
    words = ["-p", "tests.conftest", "-p", "no:cacheprovider", "--share=0.33", "--day=3", "--rootdir=.", "test_some.py"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert "12 passed, 6 deselected" in ran.stdout, ran.stdout + ran.stderr
    assert "the same again: --share=0.33 --day=3" in ran.stdout
