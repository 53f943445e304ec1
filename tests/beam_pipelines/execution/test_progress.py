"""The progress line, from markers on disk."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

import pytest

from beam_pipelines.execution import progress
from beam_pipelines.execution.progress import BlockCounter, Progress, format_seconds, progress_line


def finish_block(folder: Path, number: int, *, written: int, failed: int = 0) -> None:
    stats = [["written", "train", written], ["failed", "train", "corrupt", failed]]
    (folder / "blocks").mkdir(exist_ok=True)
    (folder / f"blocks/train-{number:06d}.json").write_text(json.dumps({"stats": stats}))
    (folder / f"blocks/train-{number:06d}.started").touch()


def test_finished_blocks_are_counted_once(tmp_path):
    counter = BlockCounter(str(tmp_path))
    assert not counter.update()
    finish_block(tmp_path, 0, written=90, failed=10)
    counter.update()
    finish_block(tmp_path, 1, written=50)
    assert counter.update()
    assert (counter.written, counter.failed, counter.done) == (140, 10, 150)


def test_the_line_shows_samples_rate_failures_and_time_left(tmp_path):
    finish_block(tmp_path, 0, written=990, failed=10)
    counter = BlockCounter(str(tmp_path))
    counter.update()
    line = progress_line(counter, total=4_000, rate=100)
    assert line == "1,000 of 4,000 samples (25%), 100/s, 10 failed, 30 s left"


@pytest.mark.parametrize(("seconds", "text"), [(0, "0 s"), (59, "59 s"), (61, "1 min 01 s"), (7_260, "2 h 01 min")])
def test_time_spans_are_shown_in_the_units_that_people_use(seconds, text):
    assert format_seconds(seconds) == text


def test_without_a_terminal_whole_lines_are_written_and_no_escapes(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "_LOG_SECONDS", 0.05)
    stream = io.StringIO()
    finish_block(tmp_path, 0, written=1)
    with Progress(str(tmp_path), total=10, stream=stream):
        finish_block(tmp_path, 1, written=4)
        time.sleep(0.5)
    lines = stream.getvalue().splitlines()
    assert lines
    assert lines[-1].startswith("5 of 10 samples (50%)")
    assert "\x1b" not in stream.getvalue()
