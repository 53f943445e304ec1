"""Where the findings of `verify` go, and that they are those of one run."""

from __future__ import annotations

import json

from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_tfrecords.beam_pipelines.commands.verify import find_problems
from beam_tfrecords.beam_pipelines.runners.execution import Execution
from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner
from beam_tfrecords.dataset.opening import open_dataset
from beam_tfrecords.transforms.verifying.checks import Finding


def test_findings_of_other_runs_are_not_read_and_own_ones_are_removed(datasets, damaged, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    other = shared / "findings-00000-of-00001"
    other.write_text(json.dumps(["pets", "the finding of another run", None, None, False]) + "\n")
    runner = find_runner(["--runner=PrismRunner", f"--temp_location={shared}"])
    runner.complete, runner.create = list, lambda options: FnApiRunner()
    execution = Execution(runner)

    def find(path) -> list[Finding]:
        dataset = open_dataset(str(path))
        return find_problems(dataset, execution)

    assert find(datasets["plain"]) == []
    path = damaged()
    shard = next(path.glob("pets-train.tfrecord-*"))
    shard.write_bytes(shard.read_bytes()[:-1])
    assert {finding.file for finding in find(path)} >= {shard.name}
    assert list(shared.iterdir()) == [other]
