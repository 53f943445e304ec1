"""The examples in the docstrings of the public Python API run as they stand."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest
from PIL import Image

from beam_tfrecords import build
from tests.docs.pages import PROJECT

# The last part of a module's name -> the library that it needs.
LIBRARIES = {"collating": "torch", "grain": "grain", "tf_data": "tensorflow", "torch": "torch"}
MODULES = [
    ".".join(path.relative_to(PROJECT).with_suffix("").parts)
    for path in sorted((PROJECT / "beam_tfrecords").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the inputs and datasets that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    for name in ("cat", "dog"):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(6):
            pixels = np.full((16, 16, 3), 40 * number, np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / name / f"{number}.png")
    build(folder / "photos", folder / "out", quiet=True)
    build(input=str(folder / "photos"), output=str(folder / "more"), limit=6, quiet=True)
    return folder


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module, folder, monkeypatch):
    if library := LIBRARIES.get(module.rpartition(".")[2]):
        pytest.importorskip(library)
    monkeypatch.chdir(folder)
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted
    assert not result.failed
