"""A share of the cases that are alike: each day the same ones, and within a few days all."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rotation import draw, is_whole

ROOT = Path(__file__).parents[1]


class Options:
    def __init__(self, share: float, day: int, **others: bool) -> None:
        self.given = {"share": share, "day": day, "few": False, **others}

    def getoption(self, name: str) -> float | bool:
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


def in_folder(folder: Path, *words: str) -> str:
    """What pytest prints of the tests of a folder, with the options of these tests."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "--rootdir=.", *words]
    ran = subprocess.run(command, cwd=folder, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    return ran.stdout + ran.stderr


@pytest.mark.exhaustive
def test_the_cases_that_few_leaves_out_are_exhaustive(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('number', range(9))\ndef test_many(number): ...\n"
        "@pytest.mark.parametrize('number', range(2))\ndef test_two(number): ...\n"
    )
    found = {
        option: set(re.findall(r"test_some.py::(\S+)", in_folder(tmp_path, "--collect-only", "-q", "--day=3", option)))
        for option in ("--few", "--exhaustive")
    }
    few, others = found.values()
    assert (len(few), len(others), few & others) == (3 + 2, 6, set())
    # Whatever the share: they take little.
    assert "6 passed" in in_folder(tmp_path, "--exhaustive", "--share=0.25", "--day=3")
    assert "the same again: --few --day=3" in in_folder(tmp_path, "--few", "--day=3")


@pytest.mark.parametrize(
    ("few", "ci", "whole"), [(False, "", True), (True, "", False), (True, "true", True)], ids=["alone", "few", "CI"]
)
def test_what_needs_the_libraries_of_make_test_is_whole_in_ci(monkeypatch, few: bool, ci: str, whole: bool) -> None:
    monkeypatch.setenv("CI", ci)
    assert is_whole(Options(1.0, 5, few=few)) is whole


@pytest.mark.exhaustive
def test_a_run_says_how_to_repeat_it_and_tests_that_are_not_marked_stay(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "@pytest.mark.many\n@pytest.mark.parametrize('number', range(9))\ndef test_many(number): ...\n"
        "@pytest.mark.parametrize('number', range(9))\ndef test_each(number): ...\n"
    )
    printed = in_folder(tmp_path, "--share=0.33", "--day=3")
    assert "12 passed, 6 deselected" in printed, printed
    assert "the same again: --share=0.33 --day=3" in printed
