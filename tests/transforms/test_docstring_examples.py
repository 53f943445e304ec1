"""The examples in the docstrings of the public transforms and of `Sample` run as they stand."""

from __future__ import annotations

import doctest

import pytest

from beam_tfrecords.transforms import sink
from beam_tfrecords.transforms.mapping import sample


@pytest.mark.parametrize("module", [sample, sink], ids=["sample", "sink"])
def test_examples_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed
