"""Where the findings of `verify` go, and that they are those of one run and of a dataset that is there."""

from __future__ import annotations

import json
import shutil

import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_tfrecords import BuildError, build, open_dataset
from beam_tfrecords.beam_pipelines.runners.execution import Execution
from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner
from beam_tfrecords.beam_pipelines.verify import find_problems, prepare
from tests.trees import write_tree


def test_findings_of_other_runs_are_not_read_and_own_ones_are_removed(tmp_path):
    (tmp_path / "shared").mkdir()
    other = tmp_path / "shared/findings-00000-of-00001"
    other.write_text(json.dumps(["pets", "the finding of another run", None, None, False]) + "\n")
    runner = find_runner(["--runner=PrismRunner", f"--temp_location={tmp_path / 'shared'}"])
    runner.complete, runner.create = list, lambda options: FnApiRunner()
    execution = Execution(runner)
    dataset = build(input=write_tree(tmp_path / "in", "cat/1.png dog/2.png"), output=tmp_path / "out", quiet=True)
    assert find_problems(open_dataset(dataset), execution) == []
    (shard,) = (tmp_path / "out").glob("*.tfrecord-*")
    shard.write_bytes(shard.read_bytes()[:-1])
    assert {one.file for one in find_problems(dataset, execution)} >= {shard.name}
    assert list((tmp_path / "shared").iterdir()) == [other]


def test_a_version_that_is_removed_before_its_files_are_read_is_named(tmp_path):
    dataset = build(
        input=write_tree(tmp_path / "in", "cat/1.png dog/2.png"), output=tmp_path / "out", versioned=True, quiet=True
    )
    shutil.rmtree(dataset.path)
    with pytest.raises(BuildError, match=f"{dataset.path}: the version was removed while it was read"):
        find_problems(dataset, prepare([], dataset))
