"""Builds that are killed, interrupted, or started twice: what is left of them, and how they resume."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from tests.beam_pipelines.dataset_checks import (
    BEAM_TFRECORDS,
    manifest_of,
    restore_sources,
    shards_of,
    spoil_sources,
)
from tests.progress_lines import without_progress

pytestmark = pytest.mark.local_runner

ROOT = Path(__file__).parents[2]
SLOW = ["--image_size=64", "--image_encoding=png", "--codec=exact", "--num_shards=8"]
# Moment -> pattern of files below the output, and how many of them there are by then.
MOMENTS = {
    "while the workers start": (".build/*/started", 1),
    "in the first block": (".build/*/blocks/*.started", 1),
    "after three blocks": (".build/*/blocks/*.json", 3),
    "while shards are composed": ("*.tfrecord-*", 1),
}


@dataclasses.dataclass(frozen=True)
class Input:
    """96 pictures that take a while to decode, in six blocks, and what an undisturbed build makes of them."""

    folder: Path
    expected: Path


@pytest.fixture(scope="module")
def many(tmp_path_factory, picture, save, build) -> Input:
    root = tmp_path_factory.mktemp("many")
    big = save(root / "big.png", picture(1, 600, 800)).read_bytes()
    for number in range(96):
        folder = root / f"in/class{number % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        # Distinct bytes behind the end of the picture; a block has 32 MiB.
        (folder / f"{number}.png").write_bytes(big + bytes(2 << 20) + b"%d" % number)
    return Input(root / "in", build(root / "expected", f"--input={root / 'in'}", *SLOW))


def start_build(
    many: Input, output: Path, *, pattern: str = ".build/*/blocks/*.json", count: int = 3, command: list | None = None
) -> subprocess.Popen:
    """Starts a build in a session of its own; returns when so many files match the pattern."""
    process = subprocess.Popen(
        command or [BEAM_TFRECORDS, "convert", f"--input={many.folder}", f"--output={output}", *SLOW],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=ROOT,
        # Temporary folders of a killed process stay.
        env={**os.environ, "TMPDIR": str(output.parent)},
    )
    deadline = time.monotonic() + 300
    while sum(".tmp-" not in path.name for path in output.glob(pattern)) < count:
        assert process.poll() is None, f"ended before it could be stopped: {process.communicate()}"
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return process


def processes_of(session: int) -> list[str]:
    """The processes of a session that still run."""
    listed = subprocess.run(["ps", "-A", "-o", "sess=,stat=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
    return [row[2] for row in rows if row[0] == str(session) and not row[1].startswith("Z")]


def wait_for_end_of(session: int) -> None:
    deadline = time.monotonic() + 300
    while processes_of(session) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_of(session) == []


@pytest.mark.parametrize(("pattern", "count"), MOMENTS.values(), ids=MOMENTS.keys())
def test_a_killed_build_leaves_no_process_and_resumes_to_the_same_bytes(
    many, tmp_path, build, snapshot, pattern, count
):
    output = tmp_path / "out"
    process = start_build(many, output, pattern=pattern, count=count)
    process.kill()  # this process alone: nobody tells its workers
    wait_for_end_of(process.pid)
    process.communicate()
    assert not (output / "_SUCCESS").exists()
    # If a finished block were converted again, its pictures would now fail.
    spoilt = spoil_sources(output, many.folder.parent)
    assert spoilt or not pattern.endswith(".json")
    # Duplicates are found after the blocks, so another rule for them changes no block; here are none.
    words = ["--duplicates=drop"] if pattern.startswith("*") else []
    try:
        build(output, f"--input={many.folder}", *SLOW, *words)
    finally:
        restore_sources(spoilt)
    assert shards_of(output) == shards_of(many.expected)
    assert manifest_of(output)["shards"] == manifest_of(many.expected)["shards"]
    assert sorted(snapshot(output)) == sorted(snapshot(many.expected))


@pytest.mark.nightly
@pytest.mark.parametrize("is_changed", [False, True])
def test_a_killed_build_with_a_function_resumes_unless_the_function_has_changed(
    many, tmp_path, monkeypatch, is_changed
):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    steps = tmp_path / "killed_steps.py"
    steps.write_text("def invert(sample):\n    return sample.replace(image=255 - sample.image)\n")
    words = [BEAM_TFRECORDS, "convert", f"--input={many.folder}", *SLOW, "--map=killed_steps:invert"]
    output = tmp_path / "out"
    process = start_build(many, output, command=[*words, f"--output={output}"])
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    if is_changed:
        steps.write_text(steps.read_text().replace("255", "254"))
    subprocess.run([*words, f"--output={tmp_path / 'expected'}"], check=True, capture_output=True)
    # If a finished block were converted again, its pictures would now fail; those of another function have to be.
    spoilt = {} if is_changed else spoil_sources(output, many.folder.parent)
    assert spoilt or is_changed
    try:
        subprocess.run([*words, f"--output={output}"], check=True, capture_output=True)
    finally:
        restore_sources(spoilt)
    assert shards_of(output) == shards_of(tmp_path / "expected")
    assert not (output / ".build").exists()


@pytest.mark.nightly
def test_shards_of_a_killed_build_do_not_stay_beside_those_of_another_request(many, tmp_path, build, verify):
    output = tmp_path / "out"
    process = start_build(many, output, pattern="*.tfrecord-*", count=1)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    build(output, f"--input={many.folder}", "--image_size=8", "--num_shards=3")
    assert len(shards_of(output)) == 3
    assert verify(output).code == 0


@pytest.mark.nightly
@pytest.mark.parametrize("moment", [name for name in MOMENTS if "first" not in name])
def test_ctrl_c_ends_a_build_with_one_line_and_no_process_left(many, tmp_path, moment):
    pattern, count = MOMENTS[moment]
    process = start_build(many, tmp_path / "out", pattern=pattern, count=count)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to every process
    out, err = process.communicate(timeout=300)
    said = "beam-tfrecords: interrupted; the same command resumes from its finished blocks\n"
    assert (process.returncode, out, without_progress(err)) == (130, "", said)
    wait_for_end_of(process.pid)
    assert not (tmp_path / "out/_SUCCESS").exists()


@pytest.mark.nightly
def test_ctrl_c_ends_a_script_that_builds_and_leaves_no_process(many, tmp_path):
    settings = {"input": str(many.folder), "output": str(tmp_path / "out"), "image_size": 64, "codec": "exact"}
    program = f"from beam_tfrecords import build\nbuild(**{settings!r})\n"
    process = start_build(many, tmp_path / "out", command=[sys.executable, "-c", program])
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in err
    wait_for_end_of(process.pid)


# To every process, as systemd sends it, and to one.
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("moment", "to_all"),
    list(zip([*MOMENTS, "before anything is listed"], itertools.cycle([True, False]), strict=False)),
)
def test_sigterm_ends_a_build_tidily_and_the_same_command_resumes(many, tmp_path, build, moment, to_all):
    pattern, count = MOMENTS.get(moment, (".build/lease", 1))
    output, summary, metrics = (tmp_path / name for name in ("out", "run.json", "run.prom"))
    command = [BEAM_TFRECORDS, "convert", f"--input={many.folder}", f"--output={output}", *SLOW]
    process = start_build(
        many,
        output,
        pattern=pattern,
        count=count,
        command=[*command, f"--json_summary={summary}", f"--metrics_file={metrics}"],
    )
    if to_all:
        os.killpg(process.pid, signal.SIGTERM)
    else:
        process.terminate()
    out, err = process.communicate(timeout=300)
    said = "beam-tfrecords: terminated; the same command resumes from its finished blocks\n"
    assert (process.returncode, out, without_progress(err)) == (143, "", said)
    wait_for_end_of(process.pid)
    found = json.loads(summary.read_text())
    assert (found["exit_code"], found["status"], found["message"]) == (143, "interrupted", "terminated")
    assert f'beam_tfrecords_exit_code{{output="{output}"}} 143.0' in metrics.read_text()
    assert not list(output.glob(".build/lease*"))
    assert not (output / "_SUCCESS").exists()
    spoilt = spoil_sources(output, many.folder.parent) if output.exists() else {}
    try:
        build(output, f"--input={many.folder}", *SLOW)
    finally:
        restore_sources(spoilt)
    assert shards_of(output) == shards_of(many.expected)


@pytest.mark.nightly
def test_a_second_sigterm_does_not_interrupt_the_cleaning_up(many, tmp_path):
    process = start_build(many, tmp_path / "out")
    for _ in range(50):
        process.terminate()
        time.sleep(0.002)
    assert "beam-tfrecords: terminated" in process.communicate(timeout=300)[1]
    assert process.returncode == 143
    wait_for_end_of(process.pid)
    assert not list(tmp_path.glob("out/.build/lease*"))


@pytest.mark.nightly
def test_sigterm_ends_verify(many, tmp_path):
    command = [BEAM_TFRECORDS, "verify", f"--dataset={many.expected}"]
    # Where the findings go: by then the workers are at work.
    (tmp_path / "out").mkdir()
    process = start_build(many, tmp_path / "out", pattern="../beam-tfrecords-*", count=1, command=command)
    process.terminate()
    assert process.communicate(timeout=300) == ("", "beam-tfrecords: terminated\n")
    assert process.returncode == 143
    wait_for_end_of(process.pid)


@pytest.mark.nightly
def test_sigterm_while_workers_list_archives_ends_the_build(many, tmp_path, build):
    archives = [tmp_path / f"{name}.tar.gz" for name in ("one", "two")]
    for path in archives:
        with tarfile.open(path, "w:gz") as tar:
            tar.add(many.folder, arcname=".")
    words = [f"--input={tmp_path}/*.tar.gz", *SLOW]
    output = tmp_path / "out"
    command = [BEAM_TFRECORDS, "convert", f"--output={output}", *words]
    process = start_build(many, output, pattern=".build/*/started", count=1, command=command)
    os.killpg(process.pid, signal.SIGTERM)
    assert "terminated" in process.communicate(timeout=300)[1]
    assert process.returncode == 143
    wait_for_end_of(process.pid)
    build(output, *words)


@pytest.mark.nightly
def test_a_second_build_into_the_same_folder_is_refused_while_the_first_runs(many, tmp_path, convert):
    process = start_build(many, tmp_path / "out")
    refused = convert(f"--input={many.folder}", f"--output={tmp_path / 'out'}", *SLOW)
    assert refused.code == 4
    assert "another build is writing to it" in refused.err
    assert process.wait() == 0
    process.communicate()
    assert shards_of(tmp_path / "out") == shards_of(many.expected)
