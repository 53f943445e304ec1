"""Standard streams that are closed or without a reader: the exit code is that of the work."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS, manifest_of, shards_of
from tests.progress_lines import without_progress

CLOSED = [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"]
# Reads nothing.
GONE = ["| sleep 0", "2>&1 | sleep 0", "| head -c 1 >/dev/null"]
STREAMS = [*CLOSED, *GONE]


def run(streams: str, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of ours in a shell that sets up its streams; the exit code is that of the command."""
    line = f"{shlex.join(map(str, [BEAM_TFRECORDS, *words]))} {streams}; exit ${{PIPESTATUS[0]}}"
    environment = {**os.environ, **variables}
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def flags(photos) -> list[str]:
    return [f"--input={photos}", "--image_size=8", "--limit=6"]


@pytest.fixture(scope="module")
def built(tmp_path_factory, flags, build) -> Path:
    return build(tmp_path_factory.mktemp("built") / "out", *flags)


@pytest.fixture
def damaged(built, tmp_path) -> Path:
    copy = Path(shutil.copytree(built, tmp_path / "damaged"))
    shard = next(copy.glob("*.tfrecord-*"))
    shard.write_bytes(shard.read_bytes()[:-1])
    return copy


def no_traceback(ran: subprocess.CompletedProcess[str]) -> bool:
    return not any(word in ran.stdout + ran.stderr for word in ("Traceback", "Exception", "Error:"))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("streams", "unbuffered"),
    [(">&-", ""), ("2>&-", ""), ("2>&1 | sleep 0", "1")],
)
def test_a_build_is_done_whatever_becomes_of_its_output(flags, built, tmp_path, streams, unbuffered):
    summary = tmp_path / "summary.json"
    words = ["convert", *flags, f"--output={tmp_path / 'out'}", f"--json_summary={summary}"]
    ran = run(streams, *words, PYTHONUNBUFFERED=unbuffered)
    assert ran.returncode == 0, ran.stderr
    assert without_progress(ran.stderr) == ""
    assert shards_of(tmp_path / "out") == shards_of(built)
    assert json.loads(summary.read_text())["exit_code"] == 0


@pytest.mark.nightly
def test_a_build_with_all_streams_closed_writes_nothing_but_its_dataset(flags, built, tmp_path):
    ran = run("<&- >&- 2>&-", "convert", *flags, f"--output={tmp_path / 'out'}")
    assert (ran.returncode, ran.stdout, without_progress(ran.stderr)) == (0, "", "")
    assert shards_of(tmp_path / "out") == shards_of(built)
    assert manifest_of(tmp_path / "out")["records"] == 6


@pytest.mark.nightly
@pytest.mark.parametrize("streams", STREAMS)
def test_a_refused_build_ends_as_refused(flags, built, streams):
    ran = run(streams, "convert", *flags, f"--output={built}")
    assert ran.returncode == 2
    assert no_traceback(ran)


@pytest.mark.nightly
@pytest.mark.parametrize("streams", [">&- 2>&-", "| sleep 0"])
def test_the_result_of_verify_is_its_exit_code(built, streams):
    ran = run(streams, "verify", f"--dataset={built}")
    assert (ran.returncode, no_traceback(ran)) == (0, True), ran.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("streams", [">&- 2>&-", "| sleep 0"])
def test_a_damaged_dataset_is_one_whether_or_not_it_can_be_said(damaged, streams):
    ran = run(streams, "verify", f"--dataset={damaged}")
    assert (ran.returncode, no_traceback(ran)) == (1, True), ran.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("streams", [">&- 2>&-", "| sleep 0"])
def test_a_report_is_written_whether_or_not_it_can_be_said(built, tmp_path, streams):
    out = shutil.copytree(built, tmp_path / "out")
    (out / "report.html").unlink()
    ran = run(streams, "report", f"--dataset={out}")
    assert (ran.returncode, no_traceback(ran)) == (0, True), ran.stderr
    assert (out / "report.html").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("command", ["inspect", "status"])
@pytest.mark.parametrize("streams", CLOSED)
def test_what_the_caller_closed_is_not_missed(built, command, streams):
    ran = run(streams, command, f"--dataset={built}")
    assert (ran.returncode, no_traceback(ran)) == (0, True), ran.stderr


@pytest.mark.nightly
def test_a_summary_that_cannot_be_written_is_told(flags, built, tmp_path):
    (tmp_path / "folder").mkdir()
    words = ["convert", *flags, f"--output={tmp_path / 'out'}", f"--json_summary={tmp_path / 'folder'}"]
    ran = run(">&-", *words)
    assert ran.returncode == 0
    assert f"note: {tmp_path / 'folder'} could not be written: Is a directory" in ran.stderr
    assert shards_of(tmp_path / "out") == shards_of(built)
