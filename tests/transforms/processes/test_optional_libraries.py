"""Libraries that ours import without need: left out by the program and its workers, not of functions of the user."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pytest

from beam_tfrecords import build, verify
from beam_tfrecords.transforms.processes import optional_libraries
from beam_tfrecords.transforms.processes.worker import Worker, without_optional_libraries

STEPS = """
import IPython, pymongo

def keep(sample):
    return sample
"""


def test_what_is_left_out_is_not_installed_until_it_is_brought_back(monkeypatch):
    monkeypatch.setattr(optional_libraries, "_OPTIONAL", frozenset(("colorsys",)))
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    before = list(sys.meta_path)
    for _ in range(2):
        optional_libraries.leave_out()
    with pytest.raises(ModuleNotFoundError, match="No module named 'colorsys'"):
        importlib.import_module("colorsys")
    optional_libraries.bring_back()
    assert importlib.import_module("colorsys") is sys.modules["colorsys"]
    optional_libraries.bring_back()
    assert sys.meta_path == before


def can_import(name: str) -> bool:
    """Whether a worker that starts now can."""
    worker = Worker()
    try:
        worker.call(exec, f"import {name}")
    except RuntimeError as error:
        return f"No module named {name!r}" not in str(error)
    finally:
        worker.close()
    return True


def test_workers_have_them_again_after_work_that_is_ours(photos, tmp_path):
    with without_optional_libraries():
        assert not can_import("pymongo")
        with without_optional_libraries(if_ours=False):
            assert can_import("pymongo")
        assert not can_import("pymongo")
    build(input=str(photos), output=str(tmp_path / "out"), image_size=16, report=False, quiet=True)
    verify(tmp_path / "out")
    assert can_import("pymongo")


@pytest.mark.local_runner
@pytest.mark.parametrize("has_function", [False, True])
def test_a_build_imports_them_for_a_function_alone(photos, tmp_path, has_function):
    (tmp_path / "steps.py").write_text(STEPS)
    words = ["convert", f"--input={photos}", f"--output={tmp_path / 'out'}", "--image_size=16"]
    words += ["--map=steps:keep"] * has_function
    # Tells the imports of the launcher and of the server that workers are forked from.
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1", "PYTHONPATH": os.getcwd()}
    program = [sys.executable, "-m", "beam_tfrecords", *words]
    ran = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines() if line.startswith("import time:")}
    assert {"apache_beam", "beam_tfrecords.transforms.blocks.convert_block"} <= imported
    # An import that fails is told too.
    whole = imported & {"pandas._libs", "IPython.core", "pymongo.errors"}
    assert bool(whole) == has_function
