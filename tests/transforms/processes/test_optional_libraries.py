"""Libraries that ours import without need: left out by the program and its workers, not of functions of the user."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pytest

from beam_tfrecords.transforms.processes import optional_libraries

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
