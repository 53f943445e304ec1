"""A plugin of pytest: which lines of the project each test reaches in the process of the tests, by coverage.py.

A fixture that several tests share is measured under its own name.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "beam_tfrecords"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reached_lines", type=Path, help="the folder for what is measured")


def pytest_configure(config: pytest.Config) -> None:
    # With several processes, the first one only hands tests out.
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.register(_Measuring(config.getoption("reached_lines")))


class _Measuring:
    """Names the context of each test and shared fixture; writes the seconds and the shared fixtures of each test."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._tests = folder.joinpath(f"tests-{os.getpid()}.jsonl").open("a", buffering=1)
        self._coverage = Coverage(f"{folder}/lines", data_suffix=True, config_file=False, source=[str(PACKAGE)])
        self._coverage.set_option("run:disable_warnings", ["module-not-imported", "no-data-collected"])
        self._context = ""
        self._coverage.start()

    @contextlib.contextmanager
    def _named(self, context: str) -> Iterator[None]:
        before, self._context = self._context, context
        self._coverage.switch_context(context)
        try:
            yield
        finally:
            self._context = before
            self._coverage.switch_context(before)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        before, failed = sum(os.times()[:4]), item.session.testsfailed
        with self._named(item.nodeid):
            ran = yield
        shared = [name_of(one[-1]) for one in fixtures_of(item) if one[-1].scope != "function"]
        seconds = round(sum(os.times()[:4]) - before, 3)
        passed = item.session.testsfailed == failed
        line = {"test": item.nodeid, "seconds": seconds, "fixtures": sorted(shared), "passed": passed}
        self._tests.write(json.dumps(line) + "\n")
        return ran

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef) -> Iterator[Any]:
        with self._named(name_of(fixturedef)) if fixturedef.scope != "function" else contextlib.nullcontext():
            return (yield)

    def pytest_unconfigure(self) -> None:
        self._coverage.stop()
        self._coverage.save()


def fixtures_of(item: pytest.Item) -> list[Any]:
    """The definitions of each fixture of a test; the last one is used."""
    by_name = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009 - pytest has no public name for it
    return [by_name[name] for name in getattr(item, "fixturenames", ()) if by_name.get(name)]


def name_of(fixture: pytest.FixtureDef) -> str:
    return f"{fixture.baseid}::{fixture.argname}"
