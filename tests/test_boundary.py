"""The wall: only `tests/core/` imports internals of the product.

All other tests use what users use: the names of `beam_tfrecords`, its documented modules, and the command's `main`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import beam_tfrecords

TESTS = Path(__file__).parent
_PUBLIC = {
    *(f"beam_tfrecords.{name}" for name in (*beam_tfrecords.__all__, "__version__", "grain", "torch", "__main__")),
    "beam_tfrecords.beam_pipelines.commands.cli.main",
    # What Beam's operator of Airflow runs: deploy/schedule.
    "beam_tfrecords.beam_pipelines.convert",
}
# As `monkeypatch.setattr` and `mock.patch` take them.
_DOTTED = re.compile(r"beam_tfrecords(?:\.\w+)+")


def named_in(tree: ast.AST) -> Iterator[str]:
    """Yields the dotted names of the product that a module imports or patches."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
            yield node.value


def is_internal(name: str) -> bool:
    """Whether a dotted name is one that users do not have."""
    names = name.split(".")
    above = {".".join(names[:count]) for count in range(2, len(names) + 1)}
    return names[0] == "beam_tfrecords" and len(names) > 1 and above.isdisjoint(_PUBLIC)


def test_only_core_names_internals():
    found = {
        path.relative_to(TESTS).as_posix(): sorted(names)
        for path in TESTS.rglob("*.py")
        if path.relative_to(TESTS).parts[0] != "core"
        and (names := set(filter(is_internal, named_in(ast.parse(path.read_text(encoding="utf-8"))))))
    }
    assert not found, "use what users use, or move the test of a stable contract to tests/core"
