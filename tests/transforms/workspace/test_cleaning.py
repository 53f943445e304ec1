"""RemoveTemporary: what it removes, and when."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest

from transforms.workspace.cleaning import delete_batch, list_batches
from transforms.workspace.stage import RemoveTemporary


@pytest.fixture
def build(tmp_path) -> Path:
    """An output folder with a finished dataset and its temporary files."""
    temporary = tmp_path / ".build" / "0123" / "parts"
    temporary.mkdir(parents=True)
    (temporary / "train-000000-0000.tfrecord").write_bytes(b"records")
    (tmp_path / "_SUCCESS").write_bytes(b"")
    return tmp_path


def remove(build: Path) -> None:
    stage = RemoveTemporary(
        str(build / ".build"), success=str(build / "_SUCCESS"), outcome=str(build / ".build" / "0123" / "outcome.json")
    )
    with beam.Pipeline() as root:
        root | beam.Create([None]) | stage


def names(build: Path) -> list[str]:
    return sorted(path.name for path in build.iterdir())


def test_nothing_is_left_of_a_published_build(build):
    remove(build)
    assert names(build) == ["_SUCCESS"]


def test_a_build_that_is_not_published_keeps_its_blocks(build):
    (build / "_SUCCESS").unlink()
    remove(build)
    assert names(build) == [".build"]


def test_a_build_that_left_the_dataset_before_it_in_place_keeps_its_blocks(build):
    (build / ".build" / "0123" / "outcome.json").write_text("{}")
    remove(build)
    assert names(build) == [".build", "_SUCCESS"]


def test_removing_twice_does_no_harm(build):
    words = {"folder": str(build / ".build"), "success": str(build / "_SUCCESS"), "outcome": str(build / "none")}
    (batch,) = list_batches(None, **words)
    delete_batch(batch)
    delete_batch(batch)
    assert names(build) == ["_SUCCESS"]
