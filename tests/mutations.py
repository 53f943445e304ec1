"""One-line mutations of the packages, and whether the tests notice: `python -m tests.mutations --count=200 --seed=0`.

It needs coverage.py. Each mutation is made in a copy of the tree, where the tests that reach its line run in a forked
process: first those of `make test`, which make the cut, then, if none has failed, those of `--exhaustive`. A survivor
is a line that a programmer may break unnoticed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import dataclasses
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest
from coverage import CoverageData

from tests.reached_lines import PACKAGE, ROOT

TURNED = {
    ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq], ast.Is: [ast.IsNot], ast.IsNot: [ast.Is], ast.In: [ast.NotIn],
    ast.NotIn: [ast.In], ast.Lt: [ast.LtE, ast.GtE], ast.LtE: [ast.Lt, ast.Gt], ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
}  # fmt: skip
# What takes seconds to import, and is of no mutation.
LIBRARIES = ("apache_beam", "pyarrow.parquet", "cv2", "hypothesis", "tensorflow")
COMMAND = [sys.executable, "-m", "pytest"]


@dataclasses.dataclass(frozen=True)
class Mutation:
    """A line, and what becomes of it."""

    path: str
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}\n    - {self.before.strip()}\n    + {self.after.strip()}"


def mutations_of(path: Path) -> Iterator[Mutation]:
    """Every mutation of a module."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node, news in _changes(ast.parse(text)):
        # Before Python 3.12 the columns of several lines, or of what stands in an f-string, do not point at the text.
        if node.lineno != node.end_lineno:
            continue
        line = lines[node.lineno - 1]
        data = line.encode()
        for new in news:
            after = (data[: node.col_offset] + new.encode() + data[node.end_col_offset :]).decode()
            if after != line:
                yield Mutation(str(path.relative_to(ROOT)), node.lineno, line, after)


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr, list[str]]]:
    """Expressions, and what may stand in their places."""
    if isinstance(node, ast.expr):
        yield node, list(_others(node))
    for field, value in ast.iter_fields(node):
        # Annotations and docstrings do nothing.
        if field in ("annotation", "returns") or isinstance(node, ast.JoinedStr):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue
            if isinstance(child, ast.AST):
                yield from _changes(child)
    if isinstance(node, (ast.If, ast.IfExp)):
        yield node.test, ["True", "False"]


def _others(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Compare(left, [operator, *rest], comparators):
            for turned in TURNED[type(operator)]:
                yield ast.unparse(ast.Compare(left, [turned(), *rest], comparators))
        case ast.Constant(bool(value)):
            yield str(not value)
        case ast.Constant(int(value)):
            yield str(value + 1)
        case ast.Constant(str(value)) if value.isidentifier():
            yield repr(f"{value}_")
        case ast.BoolOp(operator, values):
            for dropped in values:
                left = [value for value in values if value is not dropped]
                yield f"({ast.unparse(ast.BoolOp(operator, left) if len(left) > 1 else left[0])})"
        case ast.UnaryOp(ast.Not(), operand):
            yield f"({ast.unparse(operand)})"
        case ast.Call(function, arguments, named):
            if len(arguments) > 1:
                yield ast.unparse(ast.Call(function, arguments[:-1], named))
            for dropped in named:
                yield ast.unparse(ast.Call(function, arguments, [one for one in named if one is not dropped]))


class Reached:
    """Which tests of `make test` reach which lines, as `tests.reached_lines` has measured."""

    def __init__(self, folder: Path) -> None:
        rows = [json.loads(line) for path in folder.glob("tests-*.jsonl") for line in path.read_text().splitlines()]
        self.seconds = {row["test"]: row["seconds"] for row in rows if row["passed"]}
        self._users: dict[str, list[str]] = {}
        for row in rows:
            for fixture in row["fixtures"]:
                self._users.setdefault(fixture, []).append(row["test"])
        self._data = [CoverageData(str(path)) for path in folder.glob("lines.*")]
        for data in self._data:
            data.read()

    @cache  # noqa: B019 - there is a single object
    def _of_module(self, path: str) -> dict[int, set[str]]:
        found: dict[int, set[str]] = {}
        for data in self._data:
            for line, contexts in data.contexts_by_lineno(str(ROOT / path)).items():
                for context in contexts:
                    found.setdefault(line, set()).update(self._users.get(context, [context]))
        return {line: tests & self.seconds.keys() for line, tests in found.items()}

    def tests_of(self, mutation: Mutation) -> list[str]:
        """The tests that reach a line, those of its module first, then the quickest ones.

        What runs at import is reached by all tests of its module, or of the modules that import it.
        """
        lines = self._of_module(mutation.path)
        tests = lines.get(mutation.line, set()) or set().union(*lines.values())
        stem = Path(mutation.path).stem
        if not tests:
            for path in modules():
                if f"{stem} import" in path.read_text(encoding="utf-8"):
                    tests = tests.union(*self._of_module(str(path.relative_to(ROOT))).values())
        return sorted(tests, key=lambda test: (f"test_{stem}" not in test, self.seconds[test], test))


def modules() -> list[Path]:
    paths = sorted(PACKAGE.rglob("*.py"))
    return [path for path in paths if not path.name.endswith("_pb2.py")]


class Selected:
    """A plugin of pytest: leaves those tests that are to run, and remembers one that fails."""

    def __init__(self, tests: Sequence[str], failed: Path) -> None:
        self._tests, self._failed = {test: number for number, test in enumerate(tests)}, failed

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self._tests]
        first: dict[Path, int] = {}
        for item in items:
            first[item.path] = min(self._tests[item.nodeid], first.get(item.path, len(self._tests)))
        items.sort(key=lambda item: first[item.path])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.write_text(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._failed.write_text(f"{report.nodeid} is not imported")


def run_forked(copy: Path, tests: Sequence[str], *options: str, seconds: float) -> str:
    """The test that fails in a copy of the tree, or nothing."""
    failed = copy.with_suffix(".failed")
    failed.unlink(missing_ok=True)
    process = os.fork()
    if not process:
        os.setsid()
        with contextlib.suppress(BaseException):
            _run_here(copy, tests, options, failed)
        os._exit(0)
    deadline = time.monotonic() + seconds
    while os.waitpid(process, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            failed.write_text(f"no end within {seconds:.0f} s")
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            break
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)  # what tests have left
    return failed.read_text() if failed.exists() else ""


def _run_here(copy: Path, tests: Sequence[str], options: Sequence[str], failed: Path) -> None:
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(quiet, stream)
    os.chdir(copy)
    sys.path[:] = [str(copy), *(path for path in sys.path if path not in ("", str(ROOT)))]
    os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True  # a module may change twice within a second
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "beam_tfrecords")]:
        del sys.modules[name]
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    temporary = f"--basetemp={copy.with_suffix('.tmp')}"
    pytest.main(["-x", "-p", "no:xdist", temporary, *options, *files], plugins=[Selected(tests, failed)])


def left_out(tests: Iterable[str], exhaustive: Sequence[str]) -> list[str]:
    """Tests that `make test` leaves out, and that may reach a line because those do which it runs.

    They are other combinations of the same functions first, then others of the same files.
    """
    tests = list(tests)
    functions = {test.partition("[")[0] for test in tests}
    files = {test.partition("::")[0] for test in tests}
    near = [test for test in exhaustive if test.partition("[")[0] in functions]
    return [*near, *(test for test in exhaustive if test.partition("::")[0] in files and test not in near)]


def within(tests: Iterable[str], reached: Reached, seconds: float) -> list[str]:
    """The first tests, as many as take so many seconds; those that were not measured take one each."""
    chosen = []
    for test in tests:
        seconds -= reached.seconds.get(test, 1)
        if seconds < 0 and chosen:
            break
        chosen.append(test)
    return chosen


def evaluate(
    mutation: Mutation, reached: Reached, exhaustive: Sequence[str], copy: Path, seconds: float
) -> tuple[str, str]:
    """Who kills a mutation, and by which test."""
    tests = reached.tests_of(mutation)
    if not tests:
        return "not reached", ""
    path = copy / mutation.path
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    lines[mutation.line - 1] = f"{mutation.after}\n"
    path.write_text("".join(lines), encoding="utf-8")
    try:
        for killer, options, some in (
            ("cut", (), tests),
            ("full", ("--exhaustive",), left_out(tests, exhaustive)),
        ):
            chosen = within(some, reached, seconds)
            limit = 120 + 5 * sum(reached.seconds.get(test, 1) for test in chosen)
            if chosen and (failed := run_forked(copy, chosen, *options, seconds=limit)):
                return killer, failed
    finally:
        path.write_text(text, encoding="utf-8")
    return "survived", f"{len(tests)} tests reach it"


def tests_listed(*options: str) -> list[str]:
    words = [*COMMAND, "--collect-only", *options]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line.startswith("tests/")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("modules", nargs="*", default=["."], help="files or folders; all by default")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60, help="of tests for a mutation and a suite")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/reached_lines", help="what was measured before")
    words = parser.parse_args()
    if not list(words.folder.glob("lines.*")):
        options = ["-n", "2", "--dist", "loadfile", "-p", "tests.reached_lines", f"--reached_lines={words.folder}"]
        subprocess.run([*COMMAND, *options], cwd=ROOT, check=False)
    reached, exhaustive = Reached(words.folder), tests_listed("--exhaustive")
    below = [(ROOT / module).resolve() for module in words.modules]
    mutations = [
        mutation for path in modules() if any(map(path.is_relative_to, below)) for mutation in mutations_of(path)
    ]
    print(f"{words.count} of {len(mutations):,} mutations, with seed {words.seed}", flush=True)
    for library in LIBRARIES:
        importlib.import_module(library)
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "copy"
        ignored = shutil.ignore_patterns(".git", ".venv*", "build", "out", "*_cache")
        shutil.copytree(ROOT, copy, symlinks=True, ignore=ignored)
        for mutation in random.Random(words.seed).sample(mutations, min(words.count, len(mutations))):
            killer, test = evaluate(mutation, reached, exhaustive, copy, words.seconds)
            found[killer] += 1
            print(f"{killer}: {mutation}\n    {test}", flush=True)
    print(", ".join(f"{killer}: {count}" for killer, count in sorted(found.items())))


if __name__ == "__main__":
    main()
