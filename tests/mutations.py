"""The mutation gate: whether an area's new tests notice what its old ones do: `python -m tests.mutations annotations`.

It needs coverage.py. Each mutant changes one line of the area's modules in a copy of the tree, where those tests that
reach the line run in a forked process: first the old ones, then the new ones. A mutant that only the old ones kill asks
for another case before the old tests are deleted.
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
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from coverage import CoverageData

from tests.reached_lines import ROOT


@dataclasses.dataclass(frozen=True)
class Area:
    """A part of the product and its tests.

    Attributes:
      modules: patterns of its modules below `beam_tfrecords`.
      old: tests that go; empty once they are gone.
      new: tests that take their place, below `tests`.
    """

    modules: Sequence[str]
    old: Sequence[str]
    new: Sequence[str]


_OF_COLUMNS = ("columns", "column_suggestions", "label_columns", "missing_images", "split_column", "unnamed_columns")
_OF_DOCUMENTS = (
    *("documents", "document_fields", "first_samples", "image_finder", "mapped_objects", "mapping", "recognition"),
    *("trees",),
)
AREAS = {
    "annotations": Area(
        ["transforms/sources/annotated/[acvy]*.py", "beam_pipelines/build/checks/annotations.py"],
        [],
        ["cases/test_cases.py", "properties/test_annotations.py"],
    ),
    "archives": Area(
        [
            "transforms/sources/archives/*.py",
            "storage/archives.py",
            "storage/members.py",
            "storage/*_archive.py",
            "transforms/sources/detect/annotation_sidecars.py",
        ],
        [],
        [
            "cases/test_cases.py",
            "properties/test_archives_agree.py",
            *(f"core/test_{name}.py" for name in ("archives", "tar_bombs", "tar_reader", "zip_reader")),
        ],
    ),
    "layouts": Area(
        [
            *("features/layouts.py", "transforms/blocks/place_objects.py", "transforms/objects/*.py"),
            "transforms/sources/records/*.py",
        ],
        [
            *(f"beam_pipelines/test_{name}.py" for name in ("captions", "detection", "kept_records", "polygons")),
            *(f"beam_pipelines/test_{name}.py" for name in ("several_images", "tfrecord_input", "vectors")),
        ],
        [
            "cases/test_cases.py",
            *(f"properties/test_{name}.py" for name in ("captions", "kept_records", "layouts_read")),
        ],
    ),
    "masks": Area(
        [
            *("transforms/mask_colors.py", "transforms/images/*masks.py", "transforms/sources/folders/*mask*.py"),
            *("transforms/sources/tables/mask_cells.py", "transforms/sources/detect/mask_*.py"),
        ],
        [
            *("beam_pipelines/test_segmentation.py", "beam_pipelines/test_masks_of_objects.py"),
            *("beam_pipelines/test_mask_colors.py", "transforms/test_mask_colors.py"),
        ],
        ["cases/test_cases.py", "properties/test_masks.py"],
    ),
    "documents": Area(
        [f"transforms/sources/annotated/{name}.py" for name in _OF_DOCUMENTS],
        [],
        ["cases/test_cases.py", "properties/test_known_formats.py"],
    ),
    "tables": Area(
        ["transforms/sources/tables/*.py", *(f"transforms/sources/detect/{name}.py" for name in _OF_COLUMNS)],
        [],
        [
            *("cases/test_cases.py", "properties/test_tables.py", "properties/test_formats_agree.py"),
            *("core/test_table_rows.py", "core/test_row_ranges.py", "core/test_parquet_pages.py"),
        ],
    ),
}

TURNED = {
    ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq], ast.Is: [ast.IsNot], ast.IsNot: [ast.Is], ast.In: [ast.NotIn],
    ast.NotIn: [ast.In], ast.Lt: [ast.LtE, ast.GtE], ast.LtE: [ast.Lt, ast.Gt], ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
}  # fmt: skip
# Libraries that take seconds to import.
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
    """Which tests reach which lines, as `tests.reached_lines` has measured."""

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

    def tests_of(self, mutation: Mutation) -> list[str]:
        """The tests that reach a line, the quickest first; of what runs at import, all that reach its module."""
        found: dict[int, set[str]] = {}
        for data in self._data:
            for line, contexts in data.contexts_by_lineno(str(ROOT / mutation.path)).items():
                for context in contexts:
                    found.setdefault(line, set()).update(self._users.get(context, [context]))
        tests = set().union(*found.values()) if _runs_at_import(mutation) else found.get(mutation.line, set())
        return sorted(tests & self.seconds.keys(), key=lambda test: (self.seconds[test], test))


def _runs_at_import(mutation: Mutation) -> bool:
    """Whether a line is outside of all functions, so that only the test that imports it first reaches it."""
    nodes = ast.walk(ast.parse((ROOT / mutation.path).read_text(encoding="utf-8")))
    functions = (node for node in nodes if isinstance(node, ast.FunctionDef))
    return not any(node.body[0].lineno <= mutation.line <= (node.end_lineno or 0) for node in functions)


class Selected:
    """A plugin of pytest: leaves those tests that are to run, and remembers one that fails."""

    def __init__(self, tests: Sequence[str], failed: Path) -> None:
        self._tests, self._failed = set(tests), failed

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self._tests]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.write_text(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._failed.write_text(f"{report.nodeid} is not imported")


def run_forked(copy: Path, tests: Sequence[str], *, seconds: float) -> str:
    """The test that fails in a copy of the tree, or nothing."""
    failed = copy.with_suffix(".failed")
    failed.unlink(missing_ok=True)
    process = os.fork()
    if not process:
        os.setsid()
        with contextlib.suppress(BaseException):
            _run_here(copy, tests, failed)
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


def _run_here(copy: Path, tests: Sequence[str], failed: Path) -> None:
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
    code = pytest.main(["-x", "-p", "no:xdist", temporary, *files], plugins=[Selected(tests, failed)])
    if code and not failed.exists():
        failed.write_text(f"pytest ends with {code}")


@contextlib.contextmanager
def mutated(mutation: Mutation, copy: Path) -> Iterator[None]:
    """Changes a line in a copy of the tree within a block."""
    path = copy / mutation.path
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    lines[mutation.line - 1] = f"{mutation.after}\n"
    path.write_text("".join(lines), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")


def copy_tree(copy: Path) -> None:
    """Copies the files that git does not ignore."""
    words = ["git", "ls-files", "-co", "--exclude-standard"]
    for name in subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
        if (ROOT / name).exists() or (ROOT / name).is_symlink():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)


def measure(area: Area, folder: Path) -> None:
    """Runs the area's tests once."""
    files = [f"tests/{path}" for path in (*area.old, *area.new) if (ROOT / "tests" / path).exists()]
    words = [sys.executable, "-m", "pytest", "-n2", *files, "-p", "tests.reached_lines", f"--reached_lines={folder}"]
    subprocess.run(words, cwd=ROOT, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("area", choices=AREAS)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    words = parser.parse_args()
    area = AREAS[words.area]
    folder = ROOT / "build/mutations" / words.area
    if not folder.exists():
        measure(area, folder)
    reached = Reached(folder)
    package = ROOT / "beam_tfrecords"
    modules = sorted({path for pattern in area.modules for path in package.glob(pattern)})
    every = [mutation for path in modules for mutation in mutations_of(path)]
    print(f"{words.count} of {len(every):,} mutants, with seed {words.seed}", flush=True)
    for library in LIBRARIES:
        importlib.import_module(library)
    killed: Counter[tuple[bool, bool]] = Counter()
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "copy"
        copy_tree(copy)
        if problem := run_forked(copy, sorted(reached.seconds, key=reached.seconds.__getitem__)[:20], seconds=300):
            raise SystemExit(f"without a mutant: {problem}")
        for mutation in random.Random(words.seed).sample(every, min(words.count, len(every))):
            tests = reached.tests_of(mutation)
            found = []
            with mutated(mutation, copy):
                for files in (area.old, area.new):
                    some = [one for one in tests if one.partition("::")[0].removeprefix("tests/") in files]
                    limit = 120 + 10 * sum(reached.seconds[test] for test in some)
                    found.append(run_forked(copy, some, seconds=limit) if some else "")
            killed[bool(found[0]), bool(found[1])] += 1
            print(f"old: {found[0] or '-'}\nnew: {found[1] or '-'}\n    {mutation}", flush=True)
    old, new = killed[True, False] + killed[True, True], killed[False, True] + killed[True, True]
    print(f"{killed.total()} mutants: old tests kill {old}, new ones {new}; old ones alone {killed[True, False]}")


if __name__ == "__main__":
    main()
