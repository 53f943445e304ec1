"""The examples in the docstrings of the public Python API run as they stand."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest
from PIL import Image

from beam_tfrecords import build

# Module -> the library that it needs.
MODULES = {
    "beam_tfrecords.beam_pipelines.build.build": None,
    "beam_tfrecords.beam_pipelines.build.dry_run": None,
    "beam_tfrecords.beam_pipelines.build.sample_transforms": None,
    "beam_tfrecords.beam_pipelines.dataset": None,
    "beam_tfrecords.beam_pipelines.verify": None,
    "beam_tfrecords.errors": None,
    "beam_tfrecords.grain": "grain",
    "beam_tfrecords.reading.mixing": None,
    "beam_tfrecords.reading.records": None,
    "beam_tfrecords.reading.tf_data": "tensorflow",
    "beam_tfrecords.reading.collating": "torch",
    "beam_tfrecords.torch": "torch",
    "beam_tfrecords.transforms.mapping.sample": None,
    "beam_tfrecords.transforms.sink": None,
}


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
    if library := MODULES[module]:
        pytest.importorskip(library)
    monkeypatch.chdir(folder)
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted
    assert not result.failed
