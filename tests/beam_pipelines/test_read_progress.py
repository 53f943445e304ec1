"""The progress of `verify` and `report` on a terminal; elsewhere there is none."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from beam_tfrecords.beam_pipelines.commands.cli import main
from beam_tfrecords.beam_pipelines.messages import progress
from beam_tfrecords.beam_pipelines.messages.progress import ReadProgress
from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS
from tests.framing import framed

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


def test_findings_are_not_mixed_with_the_line(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "_TERMINAL_SECONDS", 0.002)
    ours, theirs = pty.openpty()
    with open(theirs, "w", encoding="utf-8") as stream, ReadProgress(10, then="finishing", stream=stream) as line:
        for line.done in range(1, 11):
            with line.hidden():
                print(f"finding {line.done}", file=stream, flush=True)
    assert [found for found in re.split("[\r\n]+", read_to_end(ours)) if found.startswith("finding")] == [
        f"finding {number}" for number in range(1, 11)
    ]


@pytest.fixture(scope="module")
def long_file(tmp_path_factory) -> Path:
    """A TFRecord file that takes seconds to check."""
    path = tmp_path_factory.mktemp("long") / "long.tfrecord"
    path.write_bytes(framed(b"\n\0") * 600_000)  # an example without features
    return path


def test_ctrl_c_ends_it_with_one_line(long_file):
    ours, theirs = pty.openpty()
    words = [BEAM_TFRECORDS, "verify", f"--dataset={long_file}"]
    process = subprocess.Popen(
        words, stderr=theirs, stdout=subprocess.PIPE, env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    )
    os.close(theirs)
    text = ""
    while "MB (" not in text:
        text += os.read(ours, 65_536).decode()
    process.send_signal(signal.SIGINT)
    text += read_to_end(ours)
    out, _ = process.communicate(timeout=300)
    assert (process.returncode, out) == (130, b"")
    assert "s left" in text
    assert text.rpartition("\r")[0].rpartition("\r")[2].strip() == "beam-tfrecords: interrupted"
