"""The mutation gate: whether an area's new tests notice what its old ones do: `python -m tests.mutations annotations`.

It needs coverage.py. Each mutant changes one line of the area's modules in a copy of the tree, where those tests that
reach the line run in a forked process: first the new ones, and the old ones if it survives. A mutant that only the old
ones kill asks for another case before the old tests are deleted.

The process that collects the tests of the copy gives each fork the changed functions. Lines that run at import need a
process that has not imported the product yet.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import dataclasses
import functools
import gc
import importlib
import inspect
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from coverage import CoverageData

from tests.reached_lines import ROOT


@dataclasses.dataclass(frozen=True)
class Area:
    """A part of the product and its tests.

    Attributes:
      modules: patterns of its modules below `beam_tfrecords`.
      old: tests that go; empty once they are gone.
      new: tests that take their place, below `tests`; `cases/NAME.yaml` stands for the cases of a file.
    """

    modules: Sequence[str]
    old: Sequence[str]
    new: Sequence[str]


_OF_COLUMNS = ("columns", "column_suggestions", "label_columns", "missing_images", "split_column", "unnamed_columns")
_OF_DOCUMENTS = (
    *("documents", "document_fields", "document_reads", "image_finder", "mapped_objects", "mapping", "recognition"),
    *("trees",),
)
_OF_FOLDERS = (
    *(f"detect/{name}" for name in ("folder_meaning", "interpretation", "tree")),
    *(f"meaning/{name}" for name in ("annotated", "candidates", "layouts", "pairs", "readings")),
)
_OF_RECORDS = ("folder_metadata", "object_features", "record_files", "tfrecord")
AREAS = {
    "arrays": Area(
        ["transforms/sources/arrays/*.py"],
        [],
        ["cases/arrays.yaml", "properties/test_arrays.py"],
    ),
    "annotations": Area(
        ["transforms/sources/annotated/[acvy]*.py", "beam_pipelines/build/checks/listing.py"],
        [],
        ["cases/test_cases.py", "properties/test_annotations.py"],
    ),
    "archives": Area(
        [
            "transforms/sources/archives/*.py",
            "storage/archives.py",
            "storage/members.py",
            "storage/*_archive.py",
            "transforms/sources/meaning/annotation_sidecars.py",
        ],
        [],
        [
            "cases/test_cases.py",
            "properties/test_archives_agree.py",
            *(f"core/test_{name}.py" for name in ("archives", "tar_bombs", "tar_reader", "zip_reader")),
        ],
    ),
    "folders": Area(
        [
            *("transforms/sources/folders/image_folder.py", "transforms/sources/folders/[pr]*.py"),
            *(f"transforms/sources/{name}.py" for name in ("selection", "path_labels", "path_rule", "opening")),
            *("transforms/sources/inputs.py", "transforms/sources/input_settings.py"),
            *(f"transforms/sources/{name}.py" for name in _OF_FOLDERS),
        ],
        [],
        [
            *("cases/test_cases.py", "properties/test_folder_files.py", "properties/test_archives_agree.py"),
            "core/sources/test_image_folder.py",
            "core/sources/test_layouts.py",
        ],
    ),
    "layouts": Area(
        [
            *("features/layouts.py", "transforms/blocks/place_objects.py", "transforms/objects/*.py"),
            "transforms/sources/records/*.py",
        ],
        [],
        [
            *(
                f"cases/{name}.yaml"
                for name in ("kept_records", "vectors", "several_images", "records", "oriented_boxes")
            ),
            *(f"cases/{name}.yaml" for name in ("datasets", "coco", "yolo")),
            *(f"properties/test_{name}.py" for name in ("captions", "kept_records", "layouts_read")),
            "properties/test_datasets_as_inputs.py",
        ],
    ),
    "masks": Area(
        [
            *("transforms/mask_colors.py", "transforms/images/*masks.py", "transforms/sources/folders/*mask*.py"),
            "transforms/sources/detect/mask_*.py",
        ],
        [],
        [
            *(f"cases/{name}.yaml" for name in ("mask_colors", "object_masks", "segmentation", "families", "coco")),
            *(f"cases/{name}.yaml" for name in ("datasets", "annotation_checks", "several_images", "table_objects")),
            *(f"cases/{name}.yaml" for name in ("tables", "tables_of_images", "voc", "public")),
            "properties/test_masks.py",
        ],
    ),
    "classes": Area(
        [
            *("beam_pipelines/build/checks/classes.py", "beam_pipelines/build/listing/class_lists.py"),
            *("transforms/class_list.py", "transforms/listing/shared_keys.py", "transforms/sources/class_files.py"),
            *("transforms/sources/detect/path_splits.py", "transforms/sources/unsupported_formats.py"),
        ],
        [],
        [
            *("cases/test_cases.py", "core/test_shared_keys.py"),
            *(f"properties/test_{name}.py" for name in ("classes", "path_splits", "unsupported_formats")),
        ],
    ),
    "documents": Area(
        [f"transforms/sources/annotated/{name}.py" for name in _OF_DOCUMENTS],
        [],
        ["cases/test_cases.py", "properties/test_known_formats.py"],
    ),
    "pixels": Area(
        ["transforms/sources/records/pixel_reader.py", "transforms/sources/records/image_features.py"],
        [],
        ["properties/test_pixels.py"],
    ),
    "labels": Area(
        [f"transforms/{name}.py" for name in ("class_list", "labels", "splits")],
        [],
        [
            *(f"core/test_{name}.py" for name in ("class_list", "labels", "splits")),
            *(f"cases/{name}.yaml" for name in ("class_names", "columns", "folders", "hints", "path_splits", "tables")),
            *("properties/test_classes.py", "beam_pipelines/test_class_order.py"),
        ],
    ),
    "duplicates": Area(
        ["transforms/duplicates/*.py"],
        [],
        ["beam_pipelines/test_duplicates.py", "core/test_duplicates.py", "core/test_near_duplicates.py"],
    ),
    "roots": Area(
        ["transforms/sources/image_roots.py", "transforms/sources/tables/flags.py"],
        [],
        [f"cases/{name}.yaml" for name in ("image_roots", "tables", "arrays")],
    ),
    "records": Area(
        [f"transforms/sources/records/{name}.py" for name in _OF_RECORDS],
        [],
        [
            *(f"cases/{name}.yaml" for name in ("record_files", "record_trees", "records")),
            "properties/test_record_files.py",
        ],
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
CASES = "cases/test_cases.py"
# Runs tests within seconds; returns the first that fails, or nothing.
Run = Callable[[Sequence[str], float], str]


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


def in_fork(run: Callable[[Path], None], copy: Path, *, seconds: float) -> str:
    """Runs a function, which writes the test that fails into a file; returns it, or nothing."""
    failed = copy.with_suffix(".failed")
    failed.unlink(missing_ok=True)
    process = os.fork()
    if not process:
        os.setsid()
        loud, quiet = os.dup(2), os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(quiet, stream)
        try:
            run(failed)
        except BaseException:
            os.write(loud, traceback.format_exc().encode())
        os._exit(0)
    deadline = time.monotonic() + seconds
    while os.waitpid(process, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            failed.write_text(f"no end within {seconds:.0f} s")
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            break
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)  # what tests have left
    return failed.read_text() if failed.exists() else ""


def run_pytest(copy: Path, tests: Sequence[str], plugin: object) -> int:
    """Runs pytest in the copy, with modules that nothing has imported yet."""
    os.chdir(copy)
    sys.path[:] = [str(copy), *(path for path in sys.path if path not in ("", str(ROOT)))]
    os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True  # a module may change twice within a second
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "beam_tfrecords")]:
        del sys.modules[name]
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    words = ["-qq", "-s", "-x", "-p", "no:xdist", f"--basetemp={copy.with_suffix('.tmp')}"]
    return pytest.main([*words, *files], plugins=[plugin])


def import_and_run(copy: Path, tests: Sequence[str], failed: Path) -> None:
    """Runs tests of the copy; writes the name of one that fails."""
    code = run_pytest(copy, tests, Selected(tests, failed))
    if code and not failed.exists():
        failed.write_text(f"pytest ends with {code}")


def changed_functions(mutation: Mutation) -> list[tuple[CodeType, CodeType]] | None:
    """Returns the functions that a mutation changes, with what they become; None if it changes what runs at import."""
    text = (ROOT / mutation.path).read_text(encoding="utf-8")
    lines = text.splitlines()
    lines[mutation.line - 1] = mutation.after
    return _changed(*(compile(one, mutation.path, "exec") for one in (text, "\n".join(lines))))


def _changed(old: CodeType, new: CodeType) -> list[tuple[CodeType, CodeType]] | None:
    if old == new:
        return []
    if old.co_flags & inspect.CO_OPTIMIZED and "<" not in old.co_name:
        return [(old, new)]
    # The code of a module or class, or a comprehension that runs with it.
    pairs = list(zip(old.co_consts, new.co_consts, strict=False))
    inner = [pair for pair in pairs if all(isinstance(one, CodeType) for one in pair)]
    plain = [[one for one in code.co_consts if not isinstance(one, CodeType)] for code in (old, new)]
    if (old.co_code, old.co_names, repr(plain[0])) != (new.co_code, new.co_names, repr(plain[1])):
        return None
    found: list[tuple[CodeType, CodeType]] = []
    for pair in inner:
        changed = _changed(*pair)
        if changed is None:
            return None
        found += changed
    return found


class Imported:
    """The functions and caches of the product in this process."""

    def __init__(self) -> None:
        gc.unfreeze()
        objects = gc.get_objects()
        gc.freeze()
        self._functions: dict[str, list[FunctionType]] = {}
        for one in objects:
            if type(one) is FunctionType:
                self._functions.setdefault(one.__code__.co_filename, []).append(one)
        caches = (one for one in objects if isinstance(one, functools._lru_cache_wrapper))
        self._caches = [one for one in caches if one.__module__.startswith("beam_tfrecords")]

    def change(self, path: Path, changed: Sequence[tuple[CodeType, CodeType]]) -> None:
        """Gives functions of a module other code; a module that is imported later has it already."""
        functions = self._functions.get(str(path), [])
        for old, new in changed if functions else ():
            found = [one for one in functions if one.__code__ == old]
            assert found, old
            for one in found:
                one.__code__ = new.replace(co_filename=str(path))
        for cache in self._caches:
            cache.cache_clear()


class Collected:
    """A plugin of pytest: instead of running the tests that it collects, hands out their runs in forked processes."""

    def __init__(self, copy: Path, work: Callable[[Callable[..., str]], None]) -> None:
        self._copy, self._work, self._failed = copy, work, Path()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items, imported = {item.nodeid: item for item in session.items}, Imported()

        def run(path: str, changed: Sequence[tuple[CodeType, CodeType]], tests: Sequence[str], seconds: float) -> str:
            chosen = [items[test] for test in tests]

            def run_them(failed: Path) -> None:
                imported.change(self._copy / path, changed)
                self._run(chosen, failed)

            return in_fork(run_them, self._copy, seconds=seconds)

        self._work(run)
        return True

    def _run(self, chosen: Sequence[pytest.Item], failed: Path) -> None:
        self._failed = failed
        for item, after in zip(chosen, [*chosen[1:], None], strict=True):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
            if failed.exists():
                return

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.write_text(report.nodeid)


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
    files = dict.fromkeys(f"tests/{CASES if path.endswith('.yaml') else path}" for path in (*area.old, *area.new))
    words = [*COMMAND, "-n2", *files, "-p", "tests.reached_lines", f"--reached_lines={folder}"]
    if CASES not in area.new:
        words += ["-k", " or ".join(["not test_cases.py", *map(_cases_of, area.new)])]
    subprocess.run(words, cwd=ROOT, check=True)


def _cases_of(path: str) -> str:
    """Returns how the names of a file's cases begin, or the path of another file."""
    return f"test_case[{Path(path).stem}:" if path.endswith(".yaml") else path


def tests_in(paths: Sequence[str], tests: Sequence[str]) -> list[str]:
    """Returns those tests that are in some files, file by file."""
    found = [test for path in paths for test in tests if _cases_of(path) in test]
    return list(dict.fromkeys(found))


class Gate:
    """Runs the tests of an area on mutants, and counts what they kill."""

    def __init__(self, area: Area, reached: Reached, copy: Path) -> None:
        self._area, self._reached, self._copy = area, reached, copy
        self._killed: Counter[str] = Counter()
        # Test that has killed a mutant -> whether it fails without a mutant too, so that it kills none.
        self._fails_anyway: dict[str, bool] = {}

    def compare(self, mutations: Sequence[tuple[int, Mutation]]) -> None:
        """Prints for each mutant which test kills it."""
        changed = {number: changed_functions(one) for number, one in mutations}
        for number, mutation in mutations:
            if changed[number] is None:
                self._try(number, mutation, self._import_and_run, self._import_and_run)
        tests = [test for test in self._reached.seconds if tests_in([*self._area.new, *self._area.old], [test])]

        def work(run: Callable[..., str]) -> None:
            for number, mutation in mutations:
                if changed[number] is not None:
                    run_changed = functools.partial(run, mutation.path, changed[number])
                    self._try(number, mutation, run_changed, functools.partial(run, "", []))

        run_pytest(self._copy, tests, Collected(self._copy, work))
        killed = self._killed
        print(f"{killed.total()} mutants: new tests kill {killed['new']}, old ones alone {killed['old']}")

    def _try(self, number: int, mutation: Mutation, run: Run, run_unchanged: Run) -> None:
        tests, killer = self._reached.tests_of(mutation), ""
        for name, paths in (("new", self._area.new), ("old", self._area.old)):
            while not killer and (some := [one for one in tests_in(paths, tests) if not self._fails_anyway.get(one)]):
                with mutated(mutation, self._copy):
                    failed = run(some, 120 + 10 * sum(self._reached.seconds[test] for test in some))
                if failed in some and failed not in self._fails_anyway:
                    self._fails_anyway[failed] = bool(run_unchanged([failed], 300))
                    print(f"fails without a mutant: {failed}\n" * self._fails_anyway[failed], end="", flush=True)
                if not self._fails_anyway.get(failed):
                    killer = f"{name}: {failed}" if failed else ""
                    break
        self._killed[killer[:3]] += 1
        print(f"{number} {killer or '-'}\n    {mutation}", flush=True)

    def _import_and_run(self, tests: Sequence[str], seconds: float) -> str:
        return in_fork(lambda failed: import_and_run(self._copy, tests, failed), self._copy, seconds=seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("area", choices=AREAS)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of mutants to run, of those of the seed")
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
    chosen = list(enumerate(random.Random(words.seed).sample(every, min(words.count, len(every)))))
    chosen = [(number, one) for number, one in chosen if not words.only or number in words.only]
    for library in LIBRARIES:
        importlib.import_module(library)
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "copy"
        copy_tree(copy)
        for path in (copy / "tests/cases").glob("*.yaml"):
            if {CASES, f"cases/{path.name}"}.isdisjoint(area.new):
                path.unlink()
        Gate(area, reached, copy).compare(chosen)


if __name__ == "__main__":
    main()
