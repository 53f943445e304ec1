"""Who opens files, where the names of files stand, and what an import brings in."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable
from graphlib import TopologicalSorter
from pathlib import Path

from tests.each import each
from tests.package_code import nodes_of

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "beam_tfrecords"
# The repository's layout names them at the top too.
LINKS = ("transforms", "beam_pipelines")
# What is offered to users: the public names, each imported when it is first used, and the command.
FACES = {"beam_tfrecords", "beam_tfrecords.__main__", "beam_tfrecords.beam_pipelines.convert"}


def module_at(path: Path) -> str:
    """The name that a module is imported by."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {
    module_at(path): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if not path.name.endswith("_pb2.py") and module_at(path) not in FACES
}
# Owns the paths below `.build/`, and the names of the files of a dataset.
OWNERS = {"beam_tfrecords.transforms.workspace.build_folder", "beam_tfrecords.dataset.files"}
# Names that no other module spells out.
OWNED = re.compile(
    r"(?<!\w)\.build\b|_SUCCESS|^manifest\.json$|^failures\.jsonl$|^duplicates\.jsonl$|^changes\.json$|^report\.html$"
    r"|^README\.md$|^croissant\.json$|^dataset_info\.json$|^features\.json$|^label_map\.pbtxt$|\.labels\.txt$"
    r"|^LATEST$|^PINNED$|^_REMOVED$"
    r"|^(?:run|job|outcome)\.json$"
)
# What takes every error of a disk for a no, or leaves out what it cannot look at.
DISK_QUESTIONS = {
    "os.path": {"exists", "lexists", "isdir", "isfile", "islink", "ismount", "isjunction"},
    "os": {"walk", "fwalk", "access"},
    "glob": {"glob", "iglob", "glob0", "glob1"},
}
# Of `pathlib.Path` and `os.DirEntry`.
PATH_METHODS = {"exists", "is_dir", "is_file", "is_symlink", "is_mount", "is_junction", "glob", "rglob"}
# What opens, changes or deletes files; module -> its functions.
FILE_WORK = {
    "builtins": {"open"},
    "io": {"open", "open_code", "FileIO"},
    "os": {
        *("open", "stat", "lstat", "scandir", "listdir", "link", "symlink", "readlink", "mkdir", "makedirs", "mkfifo"),
        *("remove", "unlink", "rmdir", "rename", "renames", "replace", "truncate", "chmod", "chown", "utime", "pread"),
    },
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move", "rmtree", "disk_usage"},
    "tempfile": {"NamedTemporaryFile", "TemporaryFile", "SpooledTemporaryFile", "mkstemp"},
    "pa": {"OSFile", "memory_map", "output_stream", "input_stream"},
    "np": {"memmap", "fromfile", "load", "save", "savez"},
    "cv2": {"imread", "imwrite"},
}
# They open files of this machine alone: the terminal's end, and the kernel's view of a process.
WORK_ON_OWN_FILES = {
    "beam_tfrecords.beam_pipelines.terminal",
    "beam_tfrecords.transforms.processes.descendants",
    "beam_tfrecords.transforms.processes.fork_server",
    "beam_tfrecords.transforms.processes.server",
    "beam_tfrecords.transforms.processes.worker",
}
# Whose functions of these names are others; `files` and `blob_at` are of stores.
ASKED_RIGHTLY = {"storage", "_system", "file_stat", "ast", "files", "blob_at", "self._system"}


unparse = functools.cache(ast.unparse)


def imports_of(module: str) -> set[str]:
    """Modules of the project that a module imports, wherever in its code."""
    found = set()
    for node in nodes_of(MODULES[module].read_text()):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
            found.add(node.module)
    return (found & MODULES.keys()) - {module}


def test_the_top_level_names_are_links_that_nothing_imports() -> None:
    for name in LINKS:
        assert (ROOT / name).readlink() == Path("beam_tfrecords") / name
    # Imported by another name, a module would be there twice.
    folders = [ROOT / folder for folder in ("beam_tfrecords", "tests", "deploy")]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    # Not the environments of other tools below it.
    files += [path for pattern in ("*.py", "peers/*.py") for path in (ROOT / "benchmarks").glob(pattern)]
    by_name = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(LINKS)})(?:\.| import)", re.MULTILINE)
    assert not [path for path in files if by_name.search(path.read_text(encoding="utf-8"))]


def test_no_stage_is_left_out_of_the_rule_that_stages_do_not_import_each_other() -> None:
    # `processes` applies a function to elements, for all stages; `workspace` knows the build's folder.
    shared = {"processes", "workspace"}
    stages = {path.parent.name for path in (PACKAGE / "transforms").glob("*/stage.py")} - shared
    rules = (ROOT / "pyproject.toml").read_text()
    assert set(re.findall(r'^  "beam_tfrecords\.transforms\.(\w+)",$', rules, re.MULTILINE)) == stages


def test_imports_have_no_cycle() -> None:
    # A package's __init__ may offer what its modules define.
    graph = {module: imports_of(module) for module in MODULES if MODULES[module].name != "__init__.py"}
    TopologicalSorter(graph).prepare()


def names_of_files_in(module: str) -> list[str]:
    nodes = nodes_of(MODULES[module].read_text())
    documents = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if node.body and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents
        if OWNED.search(node.value)
    ]


def test_names_of_files_stand_in_one_module() -> None:
    found = {module: names_of_files_in(module) for module in MODULES.keys() - OWNERS}
    assert {module: names for module, names in found.items() if names} == {}


def test_no_module_has_the_name_of_one_of_the_standard_library() -> None:
    names = {module.rpartition(".")[2] for module in MODULES}
    assert not names & set(sys.stdlib_module_names)


def test_one_function_prints_what_comes_from_outside() -> None:
    # The first prints; the others print generated files.
    printing = {"beam_tfrecords.beam_pipelines.terminal"}
    printing |= {
        "beam_tfrecords.beam_pipelines.settings.definitions",
        "beam_tfrecords.beam_pipelines.settings.typed_settings",
    }
    for module in MODULES.keys() - printing:
        calls = [node.func for node in nodes_of(MODULES[module].read_text()) if isinstance(node, ast.Call)]
        assert not [call for call in calls if isinstance(call, ast.Name) and call.id == "print"], module


def search(find: Callable[[str], Collection[str]], modules: Iterable[str]) -> dict[str, Collection[str]]:
    """What a rule finds in the code of modules, of those in which it finds something."""
    found = {module: find(MODULES[module].read_text()) for module in modules}
    return {module: one for module, one in found.items() if one}


def questions_to_disks(code: str) -> set[str]:
    """Calls that take an error of a disk for a no, by their names."""
    found = set()
    for node in nodes_of(code):
        if isinstance(node, ast.ImportFrom) and node.module in DISK_QUESTIONS:
            found.update(alias.name for alias in node.names if alias.name in DISK_QUESTIONS[node.module])
        if not isinstance(node, ast.Attribute):
            continue
        owner = unparse(node.value)
        if owner in DISK_QUESTIONS:
            found.update({node.attr} & DISK_QUESTIONS[owner])
        elif owner.partition("(")[0] not in ASKED_RIGHTLY:
            found.update({node.attr} & PATH_METHODS)
    return found


def test_one_module_asks_disks_what_is_there() -> None:
    assert not search(questions_to_disks, MODULES.keys() - {"beam_tfrecords.storage.file_stat"})


def work_on_files(code: str) -> set[str]:
    """Names of the calls that open, change or delete files, and of `pathlib`, which does all of that."""
    found = set()
    for node in nodes_of(code):
        if isinstance(node, ast.Import):
            found.update({alias.name for alias in node.names} & {"pathlib"})
        elif isinstance(node, ast.ImportFrom):
            found.update({node.module} & {"pathlib"})
            found.update({alias.name for alias in node.names} & FILE_WORK.get(node.module or "", set()))
        elif isinstance(node, ast.Attribute):
            found.update({node.attr} & FILE_WORK.get(unparse(node.value), set()))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.update({node.id} & FILE_WORK["builtins"])
    return found


def test_files_are_opened_by_storage_alone() -> None:
    modules = [name for name in MODULES.keys() - WORK_ON_OWN_FILES if not name.startswith("beam_tfrecords.storage")]
    assert not search(work_on_files, modules)


def questions_about_runners(code: str) -> set[str]:
    """What asks which runner it is: the names of the classes, and the arguments and facts that are theirs to ask."""
    found = set()
    for node in nodes_of(code):
        if isinstance(node, ast.Attribute):
            found.update({node.attr} & {"given", "is_detached", "resubmits", "idle_flags"})
        elif isinstance(node, ast.Name | ast.alias):
            name = node.id if isinstance(node, ast.Name) else node.name
            found.update(
                {name} if re.fullmatch(r"(?:Local|Prism|Flink|Spark|Dataflow|Fn\w+|Direct)Runner", name) else ()
            )
        elif isinstance(node, ast.Compare):
            found.update(word for word in map(ast.unparse, node.comparators) if re.search("(?i)runner[\"']$", word))
    return found


# The classes; the table of their names; what runs pipelines with them; and where Beam's arguments are read.
RUNNERS = {"arguments", "execution", "find_runner", "runner"} | {
    f"{name}_runner" for name in ("dataflow", "flink", "local", "portable")
}


def test_nothing_asks_which_runner_it_is() -> None:
    runners = {f"beam_tfrecords.beam_pipelines.runners.{name}" for name in RUNNERS}
    assert not search(questions_about_runners, MODULES.keys() - runners)


def imported_by(modules: Collection[str], names: Collection[str]) -> str:
    """The first module whose import brings others in, and which; nothing if none does. It takes a process."""
    code = f"""
import importlib, sys
for module in {modules}:
    importlib.import_module(module)
    found = [name for name in sys.modules if name.partition(".")[0] in {names}]
    if found:
        print(module, "imports", found[0])
        break
"""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_modules_that_need_no_pipeline_start_without_beam() -> None:
    modules = [
        "beam_tfrecords.beam_pipelines.commands.status",
        "beam_tfrecords.beam_pipelines.commands.inspect_dataset",
        "beam_tfrecords.beam_pipelines.report.page",
        "beam_tfrecords.beam_pipelines.commands.verify",
        *(
            f"beam_tfrecords.transforms.{name}"
            for name in ("blocks.convert_block", "listing.indexing", "shards.compose")
        ),
        *("beam_tfrecords.transforms.verifying.checks", "beam_tfrecords.transforms.duplicates.groups"),
        "beam_tfrecords.dataset.dataset",
    ]
    assert imported_by(modules, ["apache_beam"]) == ""
    assert imported_by(["string", "wave"], ["wave"]) == "wave imports wave\n"


def test_reading_small_files_needs_neither_arrow_nor_an_image_codec() -> None:
    heavy = ["numpy", "pyarrow", "cv2", "PIL", "simplejpeg", "tensorflow"]
    modules = ["beam_tfrecords.storage", "beam_tfrecords", "beam_tfrecords.beam_pipelines.commands.status"]
    assert imported_by(modules, heavy) == ""


def reads_with_threads(code: str) -> list[str]:
    """The reads of Parquet files that may leave threads behind when they return."""
    calls = [node for node in nodes_of(code) if isinstance(node, ast.Call)]
    alone = {"iter_batches", "read_row_group", "read_row_groups", "to_table", "to_batches"}
    return [
        ast.unparse(call)
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and (
            call.func.attr in {"read_table", "ParquetDataset", "dataset"}
            or (call.func.attr in alone and "use_threads=False" not in ast.unparse(call))
        )
    ] + re.findall(r"pyarrow\.dataset|pyarrow import dataset", code)


def test_parquet_is_read_without_threads() -> None:
    # A process that ends while Arrow's threads end is aborted, or never ends.
    assert not search(reads_with_threads, MODULES)


def test_parquet_is_opened_by_few_modules() -> None:
    """The index and the list of shards by their own, which read them in batches; and tables of users by theirs."""
    own = {"beam_tfrecords.dataset.index", "beam_tfrecords.dataset.shard_list"}
    tables = "beam_tfrecords.transforms.sources.tables"
    opening = {module for module, path in MODULES.items() if "pq.ParquetFile(" in path.read_text()}
    assert opening == {*own, f"{tables}.parquet_table", f"{tables}.parquet_pages"}


FOUND = {
    questions_to_disks: [
        "from os.path import isdir", "from os import access", "for folder, *_ in os.walk(root): pass",
        "is_there = os.path.isfile", "glob.glob(pattern)", "Path(path).exists()", "(folder / name).is_dir()",
    ],
    work_on_files: [
        "with open(path) as file: pass", "reading = open", "from os import replace", "import pathlib",
        "from pathlib import Path", "pixels = np.load(path)",
    ],
    questions_about_runners: [
        "isinstance(runner, LocalRunner)", "from a.dataflow_runner import DataflowRunner",
        "if record.runner == 'FlinkRunner': pass", "if runner.is_detached: pass", "runner.arguments.given['a']",
    ],
    reads_with_threads: [
        "pq.read_table(x, use_threads=False)", "file.iter_batches(9)", "import pyarrow.dataset",
    ],
}  # fmt: skip
ALLOWED = (
    "storage.exists(path); _system(path).is_file(path); glob.escape(path); storage.open_read(path); os.fspath(path)"
)


@each("find", FOUND, ids=lambda find: find.__name__)
def test_each_rule_finds_what_it_forbids(find: Callable[[str], Collection[str]]) -> None:
    assert [code for code in FOUND[find] if not find(code)] == []
    assert not find(ALLOWED)
