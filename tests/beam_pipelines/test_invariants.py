"""What a build checks before `_SUCCESS`: a sum that is not right gives exit code 1 and both numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import pyarrow.parquet as pq
import pytest

from tests.trees import write_tree

FLAGS = ["--name=pets", "--image_size=8", "--layout=image"]


@pytest.fixture
def resume(tmp_path, convert) -> Callable[..., str]:
    """Builds up to publishing, lets something happen to the files, and resumes; returns the error."""
    # Twenty pictures, of which two are the same.
    write_tree(tmp_path / "pets", "cat/{1..19}.png", {"cat/0.png": "scene 16x16 0", "cat/bad.png": "broken"})
    out = tmp_path / "out"
    words = [f"--input={tmp_path / 'pets'}", f"--output={out}", *FLAGS, "--max_failures=0.1"]

    def resume_after(happen: Callable[[Path], None]) -> str:
        assert convert(*words, "--duplicates=fail").code == 3
        (build,) = filter(Path.is_dir, (out / ".build").iterdir())
        happen(build)
        ran = convert(*words)
        assert ran.code == 1
        assert not (out / "_SUCCESS").exists()
        return ran.err

    return resume_after


def change_checkpoint(build: Path, change: Callable[[dict], None]) -> None:
    (path,) = (build / "blocks").glob("*.json")
    checkpoint = json.loads(path.read_text())
    change(checkpoint)
    path.write_text(json.dumps(checkpoint))


def count_one_more(what: str) -> Callable[[dict], None]:
    def change(checkpoint: dict) -> None:
        (row,) = [row for row in checkpoint["stats"] if row[0] == what]
        row[-1] += 1

    return change


def test_a_record_of_a_sample_that_was_not_listed(resume):
    error = resume(lambda build: change_checkpoint(build, count_one_more("written")))
    assert "split train: 21 samples were listed, and 21 written, 1 failed, 0 dropped, 0 merged; -1 are lost" in error


def test_a_lost_part(resume):
    error = resume(lambda build: change_checkpoint(build, lambda checkpoint: checkpoint["parts"].clear()))
    assert "split train: 20 records were written, but its shards hold 0" in error


def test_an_index_with_one_row_too_few(resume):
    def cut(build: Path) -> None:
        (index,) = (build / "parts").glob("*.parquet")
        pq.write_table(pq.read_table(index).slice(1), index)
        # Otherwise the block is converted again.
        facts = {"index_bytes": index.stat().st_size, "index_crc32c": google_crc32c.value(index.read_bytes())}
        change_checkpoint(build, lambda checkpoint: checkpoint["parts"][0].update(facts))

    assert "has 19 rows, but its part has 20 records" in resume(cut)


def test_a_list_of_failures_that_lost_a_line(resume):
    def empty(build: Path) -> None:
        (failures,) = (build / "failures").iterdir()
        failures.write_text("")
        change_checkpoint(build, lambda checkpoint: checkpoint["lists"]["failures"].__setitem__(1, 0))

    assert "failures.jsonl has 0 lines, but 1 were counted" in resume(empty)
