"""Where output goes: closed pipes, encodings, narrow and dumb terminals, `--quiet`, `--version`."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import subprocess
import termios
import time

import pytest

from beam_tfrecords.beam_pipelines.messages.progress import Progress
from beam_tfrecords.transforms.stats import Stats
from beam_tfrecords.transforms.workspace.counts import add_block
from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS


def run_script(*words, stdout=subprocess.PIPE, **variables) -> subprocess.CompletedProcess:
    return subprocess.run(
        [BEAM_TFRECORDS, *map(str, words)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, **variables},
        check=False,
    )


@pytest.fixture
def no_reader():
    """A pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.nightly
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_reader_that_is_gone_neither_fails_a_build_nor_makes_it_talk(photos, tmp_path, no_reader, unbuffered):
    flags = [f"--input={photos}", f"--output={tmp_path / 'out'}", "--image_size=8"]
    ran = run_script("convert", *flags, stdout=no_reader, PYTHONUNBUFFERED=unbuffered)
    assert ran.returncode == 0
    assert b"Error" not in ran.stderr
    assert (tmp_path / "out" / "_SUCCESS").exists()


@pytest.mark.nightly
def test_examples_without_a_reader_end_as_a_program_killed_by_sigpipe(out, no_reader):
    ran = run_script("inspect", f"--dataset={out}", stdout=no_reader, PYTHONUNBUFFERED="1")
    assert (ran.returncode, ran.stderr) == (141, b"")


@pytest.mark.nightly
def test_a_class_outside_ascii_is_written_as_an_escape_where_the_terminal_has_ascii(tmp_path, photos, save, picture):
    for name in ("Hündin", "cat"):
        save(tmp_path / "pets" / name / "1.jpg", picture(1, 20, 20))
    flags = [f"--input={tmp_path / 'pets'}", f"--output={tmp_path / 'out'}"]
    ran = run_script("convert", *flags, PYTHONIOENCODING="ascii")
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert rb"classes: H\xfcndin 1, cat 1" in ran.stdout.replace(b"cat 1, H\\xfcndin 1", b"H\\xfcndin 1, cat 1")


def test_a_message_outside_ascii_is_written_too(tmp_path):
    ran = run_script("verify", f"--dataset={tmp_path}/Hündin", PYTHONIOENCODING="ascii")
    assert ran.returncode == 2
    assert rb"H\xfcndin does not exist" in ran.stderr


def shown_progress(folder, columns: int) -> str:
    """What a terminal of so many columns receives while one of two blocks is finished."""
    add_block(str(folder), Stats({("written", "train"): 123_456}))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with open(theirs, "w", encoding="utf-8") as stream:
        with Progress(str(folder), total=1_000_000, stream=stream):
            time.sleep(1.2)
        os.set_blocking(ours, False)
        data = b""
        while True:
            try:
                data += os.read(ours, 65_536)
            except BlockingIOError:
                break
    os.close(ours)
    return data.decode()


@pytest.mark.nightly
def test_the_progress_line_fits_into_a_narrow_terminal(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    lines = [line.partition("\x1b")[0] for line in shown_progress(tmp_path, 40).split("\r") if "samples" in line]
    assert lines
    assert all(len(line) < 40 and line.startswith("123,456 of 1,000,000 samples") for line in lines)


def test_a_dumb_terminal_receives_no_control_characters(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("beam_tfrecords.beam_pipelines.messages.progress._LOG_SECONDS", 0.3)
    text = shown_progress(tmp_path, 40)
    assert "123,456 of 1,000,000 samples (12%)" in text
    assert "\x1b" not in text
    assert "\r" not in text.replace("\r\n", "\n")


def test_a_stream_that_is_no_terminal_receives_plain_lines(tmp_path):
    stream = io.StringIO()
    with Progress(str(tmp_path), total=1, stream=stream):
        pass
    assert stream.getvalue() == ""


@pytest.mark.parametrize(("no_color", "start"), [("", b"\x1b[31mbeam-tfrecords:\x1b[0m "), ("1", b"beam-tfrecords: ")])
def test_a_terminal_shows_problems_in_color_unless_no_color_is_set(tmp_path, no_color, start):
    ours, theirs = pty.openpty()
    words = [BEAM_TFRECORDS, "inspect", str(tmp_path / "nowhere")]
    subprocess.run(words, stderr=theirs, env={**os.environ, "NO_COLOR": no_color, "TERM": "xterm"}, check=False)
    os.close(theirs)
    data = os.read(ours, 65_536)
    os.close(ours)
    assert data.startswith(start), data


def test_the_help_fits_into_a_terminal_and_begins_with_what_is_used_first(run):
    ran = run_script("convert", "--help", COLUMNS="80")
    lines = ran.stdout.decode().splitlines()
    assert [line for line in lines if len(line) > 82] == []
    assert lines.index("used first:") < lines.index("options:")
    assert max(map(len, run("help").out.splitlines())) < 80
