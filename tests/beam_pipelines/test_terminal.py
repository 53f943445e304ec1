"""Where output goes: closed, full or narrow streams, encodings, and progress; the exit code is that of the work."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import termios
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from beam_tfrecords.beam_pipelines.commands.cli import main
from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS, manifest_of, shards_of
from tests.progress_lines import without_progress

PROGRESS = "beam_tfrecords.beam_pipelines.messages.progress."
CLOSED = [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"]
# Reads nothing.
GONE = ["| sleep 0", "2>&1 | sleep 0", "| head -c 1 >/dev/null"]
some_streams = pytest.mark.parametrize("streams", [">&- 2>&-", "| sleep 0"])


def shell(streams: str, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of ours in a shell that sets up its streams; the exit code is that of the command."""
    line = f"{shlex.join(map(str, [BEAM_TFRECORDS, *words]))} {streams}; exit ${{PIPESTATUS[0]}}"
    environment = {**os.environ, **variables}
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment, check=False)


def no_traceback(ran: subprocess.CompletedProcess[str]) -> bool:
    return not any(word in ran.stdout + ran.stderr for word in ("Traceback", "Exception", "Error:"))


@pytest.fixture(scope="module")
def flags(photos) -> list[str]:
    return [f"--input={photos}", "--image_size=8", "--limit=6"]


@pytest.fixture(scope="module")
def built(tmp_path_factory, flags, build) -> Path:
    return build(tmp_path_factory.mktemp("built") / "out", *flags)


# Streams.


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("streams", "unbuffered"),
    [(">&-", ""), ("2>&-", ""), ("<&- >&- 2>&-", ""), ("2>&1 | sleep 0", "1"), ("| sleep 0", ""), ("| sleep 0", "1")],
)
def test_a_build_is_done_whatever_becomes_of_its_output(flags, built, tmp_path, streams, unbuffered):
    summary = tmp_path / "summary.json"
    words = ["convert", *flags, f"--output={tmp_path / 'out'}", f"--json_summary={summary}"]
    ran = shell(streams, *words, PYTHONUNBUFFERED=unbuffered)
    assert ran.returncode == 0, ran.stderr
    assert (ran.stdout, without_progress(ran.stderr)) == ("" if ">&-" in streams.split() else ran.stdout, "")
    assert shards_of(tmp_path / "out") == shards_of(built)
    assert (manifest_of(tmp_path / "out")["records"], json.loads(summary.read_text())["exit_code"]) == (6, 0)


@pytest.mark.nightly
@pytest.mark.parametrize("streams", [*CLOSED, *GONE])
def test_a_refused_build_ends_as_refused(flags, built, streams):
    ran = shell(streams, "convert", *flags, f"--output={built}")
    assert (ran.returncode, no_traceback(ran)) == (2, True)


@pytest.mark.nightly
@some_streams
def test_the_result_of_verify_and_report_is_their_exit_code(built, tmp_path, streams):
    out = Path(shutil.copytree(built, tmp_path / "out"))
    (out / "report.html").unlink()
    for command in ("verify", "report"):
        ran = shell(streams, command, f"--dataset={out}")
        assert (ran.returncode, no_traceback(ran)) == (0, True), ran.stderr
    assert (out / "report.html").exists()
    shard = next(out.glob("*.tfrecord-*"))
    shard.write_bytes(shard.read_bytes()[:-1])
    ran = shell(streams, "verify", f"--dataset={out}")
    assert (ran.returncode, no_traceback(ran)) == (1, True), ran.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("command", ["inspect", "status"])
@pytest.mark.parametrize("streams", CLOSED)
def test_what_the_caller_closed_is_not_missed(built, command, streams):
    ran = shell(streams, command, f"--dataset={built}")
    assert (ran.returncode, no_traceback(ran)) == (0, True), ran.stderr


@pytest.mark.nightly
def test_a_summary_that_cannot_be_written_is_told_and_examples_without_a_reader_end_by_sigpipe(flags, built, tmp_path):
    (tmp_path / "folder").mkdir()
    words = ["convert", *flags, f"--output={tmp_path / 'out'}", f"--json_summary={tmp_path / 'folder'}"]
    ran = shell(">&-", *words)
    assert ran.returncode == 0
    assert f"note: {tmp_path / 'folder'} could not be written: Is a directory" in ran.stderr
    assert shards_of(tmp_path / "out") == shards_of(built)
    ran = shell("| sleep 0", "inspect", f"--dataset={built}", "--examples=6", PYTHONUNBUFFERED="1")
    assert (ran.returncode, ran.stderr) == (141, "")


# Encodings, colors and columns.


@pytest.mark.nightly
def test_a_class_outside_ascii_is_written_as_an_escape_where_the_terminal_has_ascii(tmp_path, save, picture):
    for name in ("Hündin", "cat"):
        save(tmp_path / "pets" / name / "1.jpg", picture(1, 20, 20))
    words = ["convert", f"--input={tmp_path / 'pets'}", f"--output={tmp_path / 'out'}"]
    ran = shell("", *words, PYTHONIOENCODING="ascii")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert r"H\xfcndin 1" in ran.stdout


def test_a_message_outside_ascii_is_written_too(tmp_path):
    ran = shell("", "verify", f"--dataset={tmp_path}/Hündin", PYTHONIOENCODING="ascii")
    assert ran.returncode == 2
    assert r"H\xfcndin does not exist" in ran.stderr


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
    lines = shell("", "convert", "--help", COLUMNS="80").stdout.splitlines()
    assert [line for line in lines if len(line) > 82] == []
    assert lines.index("used first:") < lines.index("options:")
    assert max(map(len, run("help").out.splitlines())) < 80


# Progress.


@pytest.fixture(scope="module")
def several(photos, tmp_path_factory, build) -> Path:
    """A dataset of several shards."""
    output = tmp_path_factory.mktemp("progress") / "out"
    return build(output, f"--input={photos}", "--image_encoding=keep", "--shard_size=500KB", "--no_report")


def shown_on_a_terminal(*words: str, monkeypatch: pytest.MonkeyPatch, term: str = "xterm", columns: int = 200) -> str:
    """Returns what standard error shows of a command on a terminal that looks every few milliseconds."""
    monkeypatch.setattr(f"{PROGRESS}_TERMINAL_SECONDS", 0.002)
    monkeypatch.setattr(f"{PROGRESS}_LOG_SECONDS", 0.002)
    monkeypatch.setenv("TERM", term)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with ThreadPoolExecutor(1) as threads:
        text = threads.submit(read_to_end, ours)
        with open(theirs, "w", encoding="utf-8") as stream, monkeypatch.context() as patched:
            patched.setattr(sys, "stderr", stream)
            assert main(list(words)) == 0
    return text.result()


def read_to_end(terminal: int) -> str:
    """Returns what a terminal shows until nobody has it open."""
    text = b""
    with contextlib.suppress(OSError), open(terminal, "rb", buffering=0) as file:
        while data := file.read(65_536):
            text += data
    return text.decode()


@pytest.mark.nightly
@pytest.mark.local_runner
@pytest.mark.parametrize("command", ["verify", "report"])
def test_a_terminal_sees_how_far_it_is_and_nothing_stays(several, monkeypatch, command):
    text = shown_on_a_terminal(command, f"--dataset={several}", monkeypatch=monkeypatch)
    shown = [line.strip() for line in text.split("\r")]
    line = re.compile(r"(\d+) of 42 records \((\d+)%\), [\d,]+/s, (\S.*)")
    lines = [found for found in map(line.fullmatch, shown) if found]
    assert lines, shown
    counts = [int(one[1]) for one in lines]
    assert counts == sorted(counts)
    assert 0 < counts[0] <= counts[-1] <= 42
    assert lines[-1][3].startswith({"verify": "finishing", "report": "reading pictures"}[command])
    assert shown[-1] == ""


@pytest.mark.nightly
@pytest.mark.local_runner
def test_lines_fit_into_a_narrow_terminal(several, monkeypatch):
    text = shown_on_a_terminal("verify", f"{several}", monkeypatch=monkeypatch, columns=40)
    lines = [line.partition("\x1b")[0] for line in text.split("\r") if " of 42" in line]
    assert lines
    assert all(len(line) < 40 for line in lines)


def test_a_dumb_terminal_receives_whole_lines_without_control_characters(photos, tmp_path, monkeypatch):
    words = ["convert", str(photos), f"{tmp_path}/out", "--image_size=8"]
    text = shown_on_a_terminal(*words, monkeypatch=monkeypatch, term="dumb", columns=40)
    assert "42 samples" in text
    assert "\x1b" not in text
    assert "\r" not in text.replace("\r\n", "\n")


@pytest.mark.local_runner
@pytest.mark.parametrize("command", ["verify", "report"])
def test_without_a_terminal_there_is_none(several, monkeypatch, run, command):
    monkeypatch.setattr(f"{PROGRESS}_TERMINAL_SECONDS", 0.002)
    assert run(command, f"--dataset={several}").err == ""


@pytest.mark.nightly
@pytest.mark.local_runner
def test_a_terminal_shows_at_once_what_a_build_does(photos, tmp_path):
    ours, theirs = os.openpty()
    words = ["convert", f"--input={photos}", f"--output={tmp_path / 'out'}", "--image_size=16", "--no_report"]
    with subprocess.Popen([BEAM_TFRECORDS, *words], stdout=subprocess.DEVNULL, stderr=theirs) as build:
        os.close(theirs)
        shown = read_to_end(ours)
    assert build.returncode == 0
    assert shown.index(f"listing {photos}"[:79]) < shown.index("42 samples in 2 blocks, starting")
