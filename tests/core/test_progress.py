"""The progress line, from the workers' counts on disk."""

from __future__ import annotations

import io
import json
import tarfile
import time
from pathlib import Path

import pytest

from beam_tfrecords.beam_pipelines.messages import progress
from beam_tfrecords.beam_pipelines.messages.progress import (
    ListingLine,
    Progress,
    describe_stage,
    progress_line,
)
from beam_tfrecords.transforms.duplicates import near
from beam_tfrecords.transforms.duplicates import stage as duplicates
from beam_tfrecords.transforms.listing import indexing
from beam_tfrecords.transforms.workspace.counts import (
    BlockCounts,
    StageCounts,
    add_step,
    clear_stage_counts,
    read_stage_counts,
)


def add_worker(folder: Path, name: str, *, blocks: int, written: int, failed: int = 0) -> None:
    (folder / "workers").mkdir(exist_ok=True)
    (folder / f"workers/{name}.json").write_text(json.dumps({"blocks": blocks, "written": written, "failed": failed}))


def test_the_line_shows_samples_rate_failures_and_time_left():
    line = progress_line(BlockCounts(3, 990, 10), StageCounts(), total=4_000, rate=100)
    assert line == "1,000 of 4,000 samples (25%), 100/s, 10 failed, 30 s left"
    assert progress_line(BlockCounts(1, 5, 0), StageCounts(), total=10, rate=0).endswith(" failed, starting workers")


def test_a_block_that_was_converted_twice_does_not_lead_beyond_the_end():
    line = progress_line(BlockCounts(3, 1_010, 7), StageCounts(), total=1_000, rate=100)
    assert line == "finding duplicates; 1,000 samples, 7 failed"


@pytest.mark.parametrize(
    ("stages", "text"),
    [
        (StageCounts(searched=7, ranges=1_500), "finding duplicates, 0% done"),
        # A runner that lost a worker searches a range again.
        (StageCounts(searched=3, ranges=1), "finding duplicates, 100% done"),
        (StageCounts(rewritten=1_200), "removed duplicates from 1,200 parts"),
        (
            StageCounts(rewritten=1_200, searched=7, ranges=15),
            "removed duplicates from 1,200 parts, finding duplicates, 47% done",
        ),
        (
            StageCounts(rewritten=1, searched=7, ranges=15, evaluated=1),
            "checking limits",
        ),
        (StageCounts(1_200, 120, {"train": 1_990, "test": 10}), "writing shards, 120 of 2,000 done"),
        (StageCounts(0, 2_003, {"train": 2_000}), "publishing 2,000 shards"),
    ],
)
def test_what_follows_the_blocks_has_a_count_of_its_own(stages, text):
    assert progress_line(BlockCounts(3, 990, 10), stages, total=1_000, rate=0) == f"{text}; 1,000 samples, 10 failed"


@pytest.mark.parametrize(
    "stages", [StageCounts(evaluated=1), StageCounts(rewritten=1), StageCounts(searched=1, ranges=3)]
)
def test_the_stage_that_runs_is_shown_if_a_worker_died_before_it_counted_its_last_block(stages):
    line = progress_line(BlockCounts(3, 900, 0), stages, total=1_000, rate=10)
    assert line == f"{describe_stage(stages)}; 900 samples, 0 failed"


def test_a_line_about_what_a_dead_worker_has_not_counted_says_the_stage(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "_LOG_SECONDS", 0.05)
    stream = io.StringIO()
    add_worker(tmp_path, "a", blocks=1, written=9)
    add_step(str(tmp_path), evaluated=1, pause=0)
    with Progress(str(tmp_path), total=10, stream=stream):
        time.sleep(0.5)
    assert stream.getvalue().splitlines()[-1].startswith("checking limits")


def test_the_counts_of_the_stages_are_those_of_all_workers_in_this_launch(tmp_path):
    folder = str(tmp_path)
    assert read_stage_counts(folder) == StageCounts()
    for number in range(3):
        add_step(folder, composed=1, shards={"train" if number else "test": 5}, pause=0)
    (tmp_path / "stages" / "other.json").write_text('{"composed": 2, "shards": {"train": 5}}')
    add_step(folder, rewritten=1, pause=0)
    assert read_stage_counts(folder) == StageCounts(1, 5, {"train": 5, "test": 5})
    clear_stage_counts(folder)
    assert read_stage_counts(folder) == StageCounts()
    add_step(folder, composed=1, shards={"train": 5}, pause=0)
    assert read_stage_counts(folder).composed == 1


def test_small_steps_are_written_now_and_then(tmp_path):
    folder = str(tmp_path)
    for _ in range(3):
        add_step(folder, listed=1)
    assert read_stage_counts(folder).listed == 1
    add_step(folder, searched=1, ranges=15, pause=0)
    assert read_stage_counts(folder) == StageCounts(listed=3, searched=1, ranges=15)


def test_a_build_counts_listed_containers_and_searched_ranges(tmp_path, photos, convert, monkeypatch):
    for number in range(3):
        with tarfile.open(tmp_path / f"{number}.tar", "w") as archive:
            archive.add(photos / "cat", "cat")
    listed, searched = [], []
    monkeypatch.setattr(indexing, "add_step", lambda _, **found: listed.append(found))
    for module in (duplicates, near):
        monkeypatch.setattr(module, "add_step", lambda _, **found: searched.append(found["ranges"]))
    flags = ["--image_size=8", "--class_names=cat", "--near_duplicates=4"]
    assert convert(f"--input={tmp_path}/*.tar", f"--output={tmp_path / 'out'}", *flags).code == 0
    assert len(listed) == 3
    # One of identical images, and one of each band of bits for those that are nearly so.
    assert searched == [6] * 6


def test_a_listing_says_how_long_it_takes():
    assert ListingLine(["photos/"])._describe(0.2) == "listing photos/"
    assert ListingLine(["a/", "b/", "c/"])._describe(72.3) == "listing a/ and 2 more, 1 min 12 s"


def test_one_block_is_no_blocks():
    assert Progress("none", total=1, blocks=1)._describe(1) == "1 sample in 1 block, starting workers"
    assert Progress("none", total=2_000, blocks=2)._describe(1) == "2,000 samples in 2 blocks, starting workers"
    line = progress_line(BlockCounts(1, 1, 0), StageCounts(composed=1, shards={"train": 1}), total=1, rate=1)
    assert line == "publishing 1 shard; 1 sample, 0 failed"
