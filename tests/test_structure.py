"""The direction of imports and the size of modules."""

from __future__ import annotations

import ast
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("transforms", "beam_pipelines", "beam_tfrecords")
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if not path.name.endswith("_pb2.py")
}
STAGES = ("listing", "ordering", "blocks", "duplicates", "shards", "publishing", "verifying")


def imports_of(module: str) -> set[str]:
    """Modules of the project that a module imports, wherever in its code."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
            found.add(node.module)
    return {name for name in found if name in MODULES} - {module}


def stage_of(module: str) -> str | None:
    return next((stage for stage in STAGES if f"{module}.".startswith(f"transforms.{stage}.")), None)


def test_transforms_imports_nothing_of_the_programs() -> None:
    wrong = [
        (module, name)
        for module in MODULES
        if module.startswith("transforms")
        for name in imports_of(module)
        if not name.startswith("transforms")
    ]
    assert not wrong


def test_stages_do_not_import_each_other() -> None:
    wrong = [
        (module, name)
        for module in MODULES
        if (stage := stage_of(module))
        for name in imports_of(module)
        if stage_of(name) not in (None, stage)
    ]
    assert not wrong


def test_imports_have_no_cycle() -> None:
    # A package's __init__ may offer what its modules define.
    graph = {module: imports_of(module) for module in MODULES if MODULES[module].name != "__init__.py"}
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_at_most_300_lines(module: str) -> None:
    assert len(MODULES[module].read_text().splitlines()) <= 300


def test_no_module_has_the_name_of_one_of_the_standard_library() -> None:
    names = {module.rpartition(".")[2] for module in MODULES}
    assert not names & set(sys.stdlib_module_names)
