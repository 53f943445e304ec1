"""Measures the structure of the product: how much of it there is, and how much one build goes through.

    python -m tests.house            prints the table of docs/architecture.md

Counted are the modules of `beam_tfrecords/`, without generated ones.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "beam_tfrecords"
_PHOTOS = ROOT / "tests/data/photos"
_GENERATED = {"example_pb2.py", "build_settings.py"}
# Bases and decorators of a class that is a value.
_VALUE_BASES = {"NamedTuple", "TypedDict"}
_BUILD = """
import sys
import threading

entered = set()

def note(frame, event, _):
    # Functions alone: bodies of modules and classes run where a module is imported.
    if event == "call" and frame.f_code.co_flags & 1:
        entered.add(frame.f_code.co_filename)

threading.setprofile(note)
sys.setprofile(note)
from beam_tfrecords import build
build(input={photos!r}, output={output!r}, image_size=32, report=False)
sys.setprofile(None)
modules = {{module.__file__ for name, module in list(sys.modules.items()) if name.split(".")[0] == "beam_tfrecords"}}
print(len(modules), len(modules & entered))
"""


def modules() -> dict[str, ast.Module]:
    """Path below the package -> its code, parsed."""
    paths = sorted(path for path in PACKAGE.rglob("*.py") if path.name not in _GENERATED)
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def lines() -> int:
    """Lines of all files of the package, generated ones included."""
    return sum(path.read_bytes().count(b"\n") for path in PACKAGE.rglob("*") if path.suffix in (".py", ".jinja"))


def classes(trees: dict[str, ast.Module]) -> list[tuple[str, ast.ClassDef]]:
    """Module and definition of each class at the top level of a module."""
    return [(name, node) for name, tree in trees.items() for node in tree.body if isinstance(node, ast.ClassDef)]


def is_value(node: ast.ClassDef) -> bool:
    """Whether a class is a dataclass or a named tuple."""
    bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    return bool(bases & _VALUE_BASES) or any("dataclass" in ast.unparse(one) for one in node.decorator_list)


def names_defined_twice(trees: dict[str, ast.Module]) -> dict[str, int]:
    """Class name -> how many modules define it, of those that several do."""
    counts = Counter(node.name for _, node in classes(trees))
    return {name: count for name, count in sorted(counts.items()) if count > 1}


def modules_that_take(trees: dict[str, ast.Module], kind: str) -> list[str]:
    """Modules with a function that has an argument annotated with a type."""
    annotated = re.compile(rf"\b{kind}\b")
    return [
        name
        for name, tree in trees.items()
        if any(
            isinstance(node, ast.arg) and node.annotation and annotated.search(ast.unparse(node.annotation))
            for node in ast.walk(tree)
        )
    ]


def count_modules_of_a_build() -> tuple[int, int]:
    """Modules of the package that the launcher of a build of a folder imports, and those whose functions it runs."""
    with tempfile.TemporaryDirectory() as folder:
        program = _BUILD.format(photos=str(_PHOTOS), output=f"{folder}/out")
        run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)
    imported, entered = map(int, run.stdout.split()[-2:])
    return imported, entered


def main() -> None:
    """Prints the table."""
    trees = modules()
    twice = names_defined_twice(trees)
    imported, entered = count_modules_of_a_build()
    rows = {
        "modules": len(trees),
        "lines": lines(),
        "modules that the launcher imports for a build of a folder": imported,
        "modules whose functions it runs": entered,
        "value types (dataclasses, named tuples)": sum(is_value(node) for _, node in classes(trees)),
        f"class names defined twice ({', '.join(twice) or 'none'})": len(twice),
        "modules that take the whole `SourceSpec`": len(modules_that_take(trees, "SourceSpec")),
    }
    print("| | |\n|---|---|")
    for name, number in rows.items():
        print(f"| {name} | {number:,} |")


if __name__ == "__main__":
    main()
