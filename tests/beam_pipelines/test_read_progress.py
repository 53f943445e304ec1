"""The progress of `verify` and `report` on a terminal; elsewhere there is none."""

from __future__ import annotations

import contextlib
import pty
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from beam_tfrecords.beam_pipelines.commands.cli import main
from beam_tfrecords.beam_pipelines.messages import progress

pytestmark = pytest.mark.local_runner

LINE = re.compile(r"(\d+) of 42 records \((\d+)%\), [\d,]+/s, (\S.*)")


@pytest.fixture(scope="module")
def several(photos, tmp_path_factory, build) -> Path:
    """A dataset of several shards."""
    output = tmp_path_factory.mktemp("progress") / "out"
    return build(output, f"--input={photos}", "--image_encoding=keep", "--shard_size=500KB", "--no_report")


def shown_on_a_terminal(*words: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What standard error shows of a command that looks every few milliseconds, each state of the line."""
    monkeypatch.setattr(progress, "_TERMINAL_SECONDS", 0.002)
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    with ThreadPoolExecutor(1) as threads:
        text = threads.submit(read_to_end, ours)
        with open(theirs, "w", encoding="utf-8") as stream, monkeypatch.context() as patched:
            patched.setattr(sys, "stderr", stream)
            assert main(list(words)) == 0
    return [line.strip() for line in text.result().split("\r")]


def read_to_end(terminal: int) -> str:
    """What a terminal shows until nobody has it open."""
    text = b""
    with contextlib.suppress(OSError), open(terminal, "rb", buffering=0) as file:
        while data := file.read(65_536):
            text += data
    return text.decode()


@pytest.mark.nightly
@pytest.mark.parametrize("command", ["verify", "report"])
def test_a_terminal_sees_how_far_it_is_and_nothing_stays(several, monkeypatch, command):
    shown = shown_on_a_terminal(command, f"--dataset={several}", monkeypatch=monkeypatch)
    lines = [found for found in map(LINE.fullmatch, shown) if found]
    assert lines, shown
    counts = [int(line[1]) for line in lines]
    assert counts == sorted(counts)
    assert 0 < counts[0] <= counts[-1] <= 42
    assert lines[-1][3].startswith({"verify": "finishing", "report": "reading pictures"}[command])
    assert shown[-1] == ""


@pytest.mark.parametrize("command", ["verify", "report"])
def test_without_a_terminal_there_is_none(several, monkeypatch, run, command):
    monkeypatch.setattr(progress, "_TERMINAL_SECONDS", 0.002)
    assert run(command, f"--dataset={several}").err == ""
