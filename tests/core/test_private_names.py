"""Private names of libraries: which modules use them, and that the libraries still have them."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import pytest
from apache_beam.io.filesystems import FileSystems

from beam_tfrecords.beam_pipelines.settings.command_line import Parser, add_beam_flags, flag_names
from beam_tfrecords.storage import beam_files
from tests.package_code import PACKAGE, package_nodes

# Module -> the private names of others that it uses. Of the standard library: a process ends by `os._exit`, arguments
# are read by argparse, and processes are started by multiprocessing's fork server. Each library has an upper bound in
# setup.py; those of urllib3 are overridden in storage/web.py, and Pillow's `_setup` in images/tiff.py.
ALLOWED = {
    "beam_pipelines/commands/cli.py": {"_exit", "_run_exitfuncs"},
    "beam_pipelines/commands/completion.py": {"_actions"},
    "beam_pipelines/runners/worker.py": {"_exit"},
    "beam_pipelines/settings/command_line.py": {
        "_action_groups",
        "_actions",
        "_add_argparse_args",
        "_option_string_actions",
    },
    "quiet_beam.py": {"_getframe"},
    "storage/beam_files.py": {"_pipeline_options"},
    "storage/botocore_private.py": {"_endpoint", "_manager", "_proxy_config"},
    "storage/gcs_private.py": {"_http", "_predicate", "_properties"},
    "reading/collating.py": {"_utils"},
    "transforms/images/tiff.py": {"_Tile"},
    "transforms/processes/server.py": {"_exit"},
}
# Of a named tuple: public in spite of its name.
NAMED_TUPLE = {"_replace"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def names_defined_in(nodes: Iterable[ast.AST]) -> set[str]:
    found = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_self(node.value):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # `__slots__`, `setattr`
            found.add(node.value)
    return found


def private_names_in(nodes: Iterable[ast.AST]) -> set[str]:
    found = set()
    for node in nodes:
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith("beam_tfrecords"):
            found.update(node.module.split("."), (alias.name for alias in node.names))
    return set(filter(is_private, found))


def test_private_names_of_libraries_are_used_in_few_modules():
    modules = {str(path.relative_to(PACKAGE)): nodes for path, nodes in package_nodes().items()}
    ours = NAMED_TUPLE.union(*map(names_defined_in, modules.values()))
    found = {path: private_names_in(nodes) - ours for path, nodes in modules.items()}
    assert {path: names for path, names in found.items() if names} == ALLOWED


def test_beam_keeps_the_options_of_its_file_systems_where_they_are_looked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(FileSystems, "_pipeline_options", None)
    FileSystems.set_options(beam_files.PipelineOptions(["--region=here"]))
    assert FileSystems._pipeline_options.get_all_options()["region"] == "here"


def test_beam_adds_its_flags_to_a_parser_whose_flags_argparse_lists():
    parser = add_beam_flags(Parser(add_help=False, allow_abbrev=False))
    assert {"runner", "flink_master", "temp_location", "max_slots"} <= set(flag_names(parser))
