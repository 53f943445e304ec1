"""The code of the package as syntax trees, parsed once for all tests of a process that look at it."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import beam_tfrecords

PACKAGE = Path(beam_tfrecords.__file__).parent


@functools.cache
def nodes_of(code: str) -> tuple[ast.AST, ...]:
    """Returns all nodes of a text of Python, its module first."""
    return tuple(ast.walk(ast.parse(code)))


@functools.cache
def package_nodes() -> dict[Path, tuple[ast.AST, ...]]:
    """Path -> nodes, of the modules that people have written."""
    paths = sorted(path for path in PACKAGE.rglob("*.py") if not path.name.endswith("_pb2.py"))
    return {path: nodes_of(path.read_text(encoding="utf-8")) for path in paths}
