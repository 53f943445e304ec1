"""The messages of refusals, which tests compare with `data/refusals.json`.

It has code -> test -> one message of this code from each place that raises one in the test. Each of these tests
compares them, so a changed sentence fails there; `pytest --update-refusals` with the tests that fail writes the file
and the page docs/refusals.md. A new code gets one test for each place that raises it. To choose all tests again, delete
the file and run the whole suite with `--update-refusals`.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import hypothesis
import pytest

from beam_tfrecords.errors import RequestError
from beam_tfrecords.escaping import escape
from beam_tfrecords.transforms.sources.detect.interpretation import UnclearError
from tests.refusals import asserted

ROOT = Path(__file__).parents[2]
SNAPSHOT = ROOT / "tests/data/refusals.json"
PAGE = ROOT / "docs/refusals.md"
_PRODUCT = f"{ROOT / 'beam_tfrecords'}/"
_BEGIN = "| code | for example |\n|---|---|\n"
# Where a value differs between machines and runs -> what is written instead.
_REPLACED = (
    (re.compile(r":\d+\)"), ":1)"),
    (re.compile(r"\b\d{8}T\d{6}Z\b"), "20260102T030405Z"),
    (re.compile(r"\bthe sample \S+ gave different"), "the sample cat/1.png gave different"),
    (re.compile(r"\bprocess \d+ on [\w.-]+"), "process 1 on host"),
    (re.compile(r"\b(127\.0\.0\.1|localhost):\d+"), r"\1:8081"),
)


class Seen(NamedTuple):
    """A refusal that a test has asserted.

    Attributes:
      test: its node id.
      code: of the refusal.
      place: that raises it.
      message: as the snapshot has it.
    """

    test: str
    code: str
    place: str
    message: str


class RefusalSnapshot:
    """The plugin that compares the messages of tests with the snapshot, or writes them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config, self._is_update = config, config.getoption("update_refusals")
        self._snapshot = read_snapshot()
        self._written: list[Seen] = []
        self._ran: set[str] = set()
        self._folders = re.compile(r"$^")

    # Of each test: pytest 10 has no fixtures of a session that are methods of an instance.
    @pytest.fixture(autouse=True)
    def refusal_folders(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        """Finds out where tests have their files."""
        base = re.escape(str(tmp_path_factory.getbasetemp()))
        temporary = re.escape(tempfile.gettempdir())
        self._folders = re.compile(rf"(?:{base}/[\w.-]+|{temporary}/tmp\w{{8}})")

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Iterator[None]:
        """Compares the messages of a test."""
        asserted.clear()
        result = yield
        seen = [Seen(pyfuncitem.nodeid, one.code, _place(one), self._shown(one)) for one in asserted]
        # The first of each place: a loop may see hundreds.
        found = [*{(one.code, one.place): one for one in reversed(seen)}.values()][::-1]
        if self._is_update:
            self._ran.add(pyfuncitem.nodeid)
            self._written += found if is_repeatable(pyfuncitem) else []
            return result
        wanted = {
            code: tests[pyfuncitem.nodeid] for code, tests in self._snapshot.items() if pyfuncitem.nodeid in tests
        }
        given = {code: [one.message for one in found if one.code == code] for code in wanted}
        assert given == wanted, f"if the new message is right, say: pytest --update-refusals '{pyfuncitem.nodeid}'"
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self._is_update:
            return
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["refusals"] = [list(one) for one in self._written], sorted(self._ran)
        else:
            write_snapshot(merge(self._snapshot, self._written, self._ran))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Adds the refusals that a process of xdist has seen."""
        written, ran = getattr(node, "workeroutput", {}).get("refusals", ((), ()))
        self._written += [Seen(*one) for one in written]
        self._ran.update(ran)

    def _shown(self, error: RequestError) -> str:
        """Returns the message without paths, words of other libraries and values that differ between runs."""
        message = str(error)
        for one in _causes(error):
            if (words := _one_line(one)) and not _is_ours(one.__traceback__):
                message = message.replace(words, "…")
        message = self._folders.sub("/data", message).replace(f"{ROOT}/", "")
        for pattern, text in _REPLACED:
            message = pattern.sub(text, message)
        return message


def is_repeatable(test: pytest.Function) -> bool:
    """Whether a test always sees the same refusals."""
    return not hypothesis.is_hypothesis_test(test.function)


Snapshot = Mapping[str, Mapping[str, list[str]]]


def merge(snapshot: Snapshot, seen: Sequence[Seen], ran: Collection[str]) -> Snapshot:
    """Returns the snapshot with the messages of the tests that ran, and without tests that no longer exist."""
    found: dict[str, dict[str, list[str]]] = {}
    for one in seen:
        found.setdefault(one.code, {}).setdefault(one.test, []).append(one.message)
    merged: dict[str, dict[str, list[str]]] = {}
    for code, tests in snapshot.items():
        kept = {test: messages for test, messages in tests.items() if test not in ran and is_there(test)}
        again = {test: messages for test, messages in found.get(code, {}).items() if test in tests}
        merged[code] = {**kept, **again}
    for code in found:
        if not merged.get(code):
            # The test with the fewest words to read, for each place.
            tests = sorted(found[code], key=lambda test: (sum(map(len, found[code][test])), test), reverse=True)
            places = {one.place: test for test in tests for one in seen if (one.test, one.code) == (test, code)}
            merged[code] = {test: found[code][test] for test in places.values()}
    return {code: dict(sorted(tests.items())) for code, tests in sorted(merged.items()) if tests}


def is_there(test: str) -> bool:
    """Whether there still is a test of this node id, whatever its parameters."""
    path, _, name = test.partition("::")
    file = ROOT / path
    return file.exists() and f"def {name.partition('[')[0]}(" in file.read_text(encoding="utf-8")


def read_snapshot() -> Snapshot:
    """Code -> test -> messages."""
    return json.loads(SNAPSHOT.read_text(encoding="utf-8")) if SNAPSHOT.exists() else {}


def write_snapshot(snapshot: Snapshot) -> None:
    """Writes the snapshot, and the table of the page."""
    SNAPSHOT.write_text(f"{json.dumps(snapshot, indent=2, ensure_ascii=False)}\n", encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), snapshot), encoding="utf-8")


def with_table(page: str, snapshot: Snapshot) -> str:
    """Returns the page with the table of all codes at its end."""
    rows = (f"| `{code}` | {_as_cell(next(iter(tests.values()))[0])} |\n" for code, tests in snapshot.items())
    return page.partition(_BEGIN)[0] + _BEGIN + "".join(rows)


def _as_cell(message: str) -> str:
    return message.replace("|", "\\|").replace("<", "\\<")


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause = error.__cause__
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _one_line(error: BaseException) -> str:
    return escape(" ".join(str(error).split()))


def _frames(traceback: TracebackType | None) -> Iterator[str]:
    while traceback is not None:
        yield f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}"
        traceback = traceback.tb_next


def _is_ours(traceback: TracebackType | None) -> bool:
    return [*_frames(traceback), ""][-2:][0].startswith(_PRODUCT)


def _place(error: BaseException) -> str:
    """The lines that raise a refusal: of the first one where it was raised again, and of its cause if that is ours."""
    while isinstance(error.__context__, RequestError | UnclearError):
        error = error.__context__
    places = [*_frames(error.__traceback__)][-1:]
    if error.__cause__ is not None and _is_ours(error.__cause__.__traceback__):
        places += [*_frames(error.__cause__.__traceback__)][-1:]
    return " ".join(place.removeprefix(_PRODUCT) for place in places)
