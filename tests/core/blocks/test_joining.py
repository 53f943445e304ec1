"""CollectFiles: the files of few blocks one by one, those of many joined by range."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_tfrecords.transforms.blocks.results import BlockResult
from beam_tfrecords.transforms.blocks.stage import CollectFiles
from beam_tfrecords.transforms.parts import RANGE_BLOCKS
from beam_tfrecords.transforms.stats import Stats

NUMBERS = (0, 1, RANGE_BLOCKS - 1, RANGE_BLOCKS, 3 * RANGE_BLOCKS + 7)


@pytest.fixture
def results(tmp_path) -> list[BlockResult]:
    """Blocks with a file of failures each, and one without."""
    made = [BlockResult("train", 5, (), Stats())]
    for number in NUMBERS:
        file = tmp_path / f"train-{number:06d}.jsonl"
        file.write_text(f'{{"block": {number}}}\n')
        made.append(BlockResult("train", number, (), Stats(), {"failures": (str(file), 9)}))
    return made


def collect(results: list[BlockResult], folder: Path, *, blocks: int) -> list[str]:
    with beam.Pipeline() as root:
        files = root | beam.Create(results) | CollectFiles(folder=str(folder), blocks=blocks)
        files | beam.MapTuple(lambda kind, file: (folder / f"found-{Path(file).name}").write_text(f"{kind} {file}"))
    found = [path.read_text().split(" ", 1) for path in folder.glob("found-*")]
    assert {kind for kind, _ in found} == {"failures"}
    return sorted(file for _, file in found)


def test_files_of_few_blocks_stay_as_they_are(results, tmp_path):
    found = collect(results, tmp_path, blocks=RANGE_BLOCKS)
    assert found == sorted(file for result in results for file, _ in result.lists.values())


def test_files_of_many_blocks_are_joined_by_range_in_the_order_of_the_blocks(results, tmp_path):
    found = collect(results, tmp_path, blocks=RANGE_BLOCKS + 1)
    assert [Path(file).name for file in found] == [f"train-00000{number}.failures.jsonl" for number in (0, 1, 3)]
    lines = [line for file in found for line in Path(file).read_text().splitlines()]
    assert lines == [f'{{"block": {number}}}' for number in NUMBERS]


def test_each_file_has_its_kind(tmp_path):
    files = {"failures": "failures/train.jsonl", "changes": "changes/train.jsonl"}
    block = BlockResult("train", 0, (), Stats(), {kind: (file, 9) for kind, file in files.items()})
    with beam.Pipeline() as root:
        found = root | beam.Create([block]) | CollectFiles(folder=str(tmp_path), blocks=1)
        assert_that(found, equal_to([*files.items()]))
