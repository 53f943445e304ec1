"""Shared by the scripts of this folder: writes a result with the machine, the commit and the libraries."""

from __future__ import annotations

import datetime
import functools
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any

_HERE = pathlib.Path(__file__).resolve().parent
RESULTS = _HERE / "results"
COMMAND = str(pathlib.Path(sys.executable).with_name("beam-tfrecords"))
_LIBRARIES = (
    *("apache-beam", "beam-tfrecords", "daft", "datasets", "grain", "img2dataset", "litdata", "mosaicml-streaming"),
    *("numpy", "opencv-python-headless", "pillow", "pyarrow", "ray", "simplejpeg", "tensorflow"),
    *("tensorflow-datasets", "torch", "torchvision"),
)
_LIST_VERSIONS = (
    "import importlib.metadata, json;"
    "print(json.dumps({d.name.lower(): d.version for d in importlib.metadata.distributions()}))"
)


def write_figures(
    path: pathlib.Path, *, rounds: int, versions: Mapping[str, Any] | None = None, **figures: Any
) -> None:
    """Writes what a script measured.

    Args:
      path: the file.
      rounds: timed rounds.
      versions: libraries by environment; None for those of this process.
      figures: the measured values and the size of the input.
    """
    known = {
        "rounds": rounds,
        "machine": describe_machine(),
        "code": describe_code(),
        "versions": list_versions() if versions is None else versions,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**known, **figures}, indent=1) + "\n")


def describe_machine() -> dict[str, Any]:
    """Returns processor, cores, memory in bytes, system, Python and date."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
    }


@functools.lru_cache(maxsize=1)
def describe_code() -> Mapping[str, Any]:
    """Returns the commit, and whether the files differ from it, at the first call: a script may write every round."""
    commit = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--", ":/", ":!/benchmarks/results")
    return {"commit": commit or "unknown", "is_changed": bool(changed) if commit else None}


def _git(*words: str) -> str:
    """Returns the output of git, or nothing outside a repository."""
    try:
        command = ["git", "-C", str(_HERE.parent), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def list_versions(python: str = sys.executable) -> dict[str, str]:
    """Returns the versions of the libraries that matter to an interpreter."""
    installed = json.loads(subprocess.run([python, "-c", _LIST_VERSIONS], check=True, capture_output=True).stdout)
    return {library: installed[library] for library in _LIBRARIES if library in installed}


def spreads_of_ratios(first: Iterable[tuple[float, float]], second: Iterable[tuple[float, float]]) -> tuple[str, str]:
    """Formats how many times as fast the second runs are, by the clock and by the processors."""
    pairs = list(zip(first, second, strict=True))
    wall, processor = (spread_of((one[of] / other[of] for one, other in pairs), ".2f") for of in (0, 1))
    return wall, processor


def spread_of(values: Iterable[float], form: str) -> str:
    """Formats the median of values, with the lowest and the highest."""
    found = list(values)
    return f"{statistics.median(found):{form}} ({min(found):{form}} to {max(found):{form}})"
