"""What every script of this folder writes with its figures, so that they can be repeated; prints the hashes.

    python benchmarks/figures.py

A result names the commit and the version of the project, and has a hash of the files that decide it: the package, the
script, what the script imports from this folder, and the peers that it starts. The command prints the hashes of a
checkout, so `git checkout COMMIT` and this say whether a result is of the files that it names.
"""

from __future__ import annotations

import ast
import datetime
import functools
import hashlib
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

_HERE = pathlib.Path(__file__).resolve().parent
_PROJECT = _HERE.parent
RESULTS = _HERE / "results"
_PACKAGE = _PROJECT / "beam_tfrecords"
# A script that imports this starts the programs of peers/.
_STARTS_PEERS = "contestants"
_LIBRARIES = (
    "apache-beam",
    "beam-tfrecords",
    "boto3",
    "daft",
    "datasets",
    "google-cloud-storage",
    "grain",
    "img2dataset",
    "litdata",
    "mosaicml-streaming",
    "numpy",
    "opencv-python-headless",
    "pillow",
    "pyarrow",
    "ray",
    "simplejpeg",
    "tensorflow",
    "tensorflow-datasets",
    "torch",
    "torchvision",
)
_LIST_VERSIONS = (
    "import importlib.metadata, json;"
    "print(json.dumps({d.name.lower(): d.version for d in importlib.metadata.distributions()}))"
)


def write_figures(
    path: pathlib.Path, *, script: str, rounds: int, versions: Mapping[str, Any] | None = None, **figures: Any
) -> None:
    """Writes what a script measured, with the machine, the day, the code and the libraries.

    Args:
      path: the file.
      script: path of the script that measured.
      rounds: timed rounds.
      versions: of the libraries, by environment; None are those of this process.
      figures: what was measured, and on what.
    """
    known = {
        "rounds": rounds,
        "machine": describe_machine(),
        "code": describe_code(pathlib.Path(script).resolve()),
        "versions": list_versions() if versions is None else versions,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**known, **figures}, indent=1) + "\n")


def describe_machine() -> dict[str, Any]:
    """Processor, cores, memory in bytes, system, Python and date."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
    }


@functools.lru_cache(maxsize=1)
def describe_code(script: pathlib.Path) -> Mapping[str, Any]:
    """Version and commit of the project, whether files that decide differ from the commit, and their hash.

    Those of the first call: a script may write after each round.
    """
    files = deciding_files(script)
    commit = _git("rev-parse", "HEAD")
    changes = _git("status", "--porcelain", "--", *map(str, files))
    return {
        "version": project_version(),
        "commit": commit or "unknown",
        "is_changed": bool(changes) if commit else None,
        "digest": digest_of(files),
    }


def project_version() -> str:
    """The version in setup.py."""
    found = re.search(r'^VERSION = "([^"]+)"$', (_PROJECT / "setup.py").read_text(), re.MULTILINE)
    assert found
    return found[1]


def deciding_files(script: pathlib.Path) -> list[pathlib.Path]:
    """The files that decide what a script measures, sorted."""
    found = {path for path in _PACKAGE.rglob("*") if _is_code(path)}
    waiting = [script]
    while waiting:
        path = waiting.pop()
        found.add(path)
        waiting += [one for one in _imported(path) if one not in found]
    if _HERE / f"{_STARTS_PEERS}.py" in found:
        found |= {path for path in (_HERE / "peers").iterdir() if path.is_file()}
    return sorted(found)


def _is_code(path: pathlib.Path) -> bool:
    return path.suffix in (".py", ".proto", ".jinja")


def _imported(path: pathlib.Path) -> list[pathlib.Path]:
    """The modules of this folder, and of the tests, that a script imports; not this one, which decides no figure."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    folders = {_HERE: names, _PROJECT: {name for name in names if name.startswith("tests.")}}
    paths = {folder / f"{name.replace('.', '/')}.py" for folder, of in folders.items() for name in of}
    return sorted(one for one in paths if one.is_file() and one != pathlib.Path(__file__).resolve())


def digest_of(files: list[pathlib.Path]) -> str:
    """A hash of the names and contents of files."""
    digest = hashlib.sha256()
    for path in files:
        data = path.read_bytes()
        digest.update(f"{path.relative_to(_PROJECT).as_posix()} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


def _git(*words: str) -> str:
    """What git prints, or nothing where there is no git or no repository."""
    try:
        return subprocess.run(
            ["git", "-C", str(_PROJECT), *words], check=True, capture_output=True, text=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def list_versions(python: str = sys.executable) -> dict[str, str]:
    """Versions of the libraries that matter to an interpreter."""
    installed = json.loads(subprocess.run([python, "-c", _LIST_VERSIONS], check=True, capture_output=True).stdout)
    return {library: installed[library] for library in _LIBRARIES if library in installed}


def main() -> None:
    """Prints the hash of every script that writes figures."""
    for path in sorted(_HERE.glob("*.py")):
        if "write_figures(" in path.read_text() and path != pathlib.Path(__file__).resolve():
            print(f"{digest_of(deciding_files(path.resolve()))}  {path.name}")


if __name__ == "__main__":
    main()
