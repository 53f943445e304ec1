"""The pipeline of Beam YAML in docs/beam.md, as a user runs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from beam_tfrecords import open_dataset
from tests.docs.inputs import make_inputs
from tests.docs.pages import PROJECT, passages_of

pytestmark = pytest.mark.nightly


def test_a_pipeline_without_python_writes_a_dataset(tmp_path):
    make_inputs(tmp_path)
    (pipeline,) = (one.text for one in passages_of(PROJECT / "docs/beam.md") if one.language == "yaml")
    (tmp_path / "dataset.yaml").write_text(pipeline)
    command = [sys.executable, "-m", "apache_beam.yaml.main", "--yaml_pipeline_file=dataset.yaml"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    dataset = open_dataset(tmp_path / "out/yaml")
    assert (set(dataset.splits), "space" in dataset.class_names) == ({"train", "test"}, False)
    assert dataset.verify() == []
