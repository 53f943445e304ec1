"""`convert` into a folder where a build was before: finished, failed, stopped, or of another input."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS, EXACT, FLAGS, manifest_of, shards_of

SLOW = ["--image_size=64", "--image_encoding=png", "--codec=exact", "--num_shards=2"]


def spoil_sources(output: Path) -> dict[Path, tuple[bytes, int]]:
    """Makes the pictures of all finished blocks unreadable, in a way that no listing can see."""
    spoilt = {}
    for marker in output.glob(".build/*/blocks/*.json"):
        for part in json.loads(marker.read_text())["parts"]:
            for uri in pq.read_table(part["index"])["uri"].to_pylist():
                path = Path(uri)
                spoilt[path] = (path.read_bytes(), path.stat().st_mtime_ns)
                path.write_bytes(bytes(path.stat().st_size))
                os.utime(path, ns=(spoilt[path][1],) * 2)
    return spoilt


def restore_sources(spoilt: dict[Path, tuple[bytes, int]]) -> None:
    for path, (content, modified) in spoilt.items():
        path.write_bytes(content)
        os.utime(path, ns=(modified, modified))


@pytest.fixture(scope="module")
def many(tmp_path_factory, picture, save) -> Path:
    """160 pictures that take a while to decode."""
    root = tmp_path_factory.mktemp("many")
    big = save(root / "big.png", picture(1, 700, 900)).read_bytes()
    for number in range(160):
        folder = root / f"in/class{number % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        # Distinct bytes behind the end of the picture.
        (folder / f"{number}.png").write_bytes(big + b"%d" % number)
    return root / "in"


def start_build(root: Path, output: Path, *, awaited=".build/*/blocks/*.json", count=3) -> subprocess.Popen:
    """Starts a build in a process group of its own; returns when some files are there, usually a few blocks."""
    process = subprocess.Popen(
        [BEAM_TFRECORDS, "convert", f"--input={root}", f"--output={output}", *SLOW],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Beam's own temporary folder outlives a process that is killed.
        env={**os.environ, "TMPDIR": str(output.parent)},
    )
    deadline = time.monotonic() + 60
    while len(list(output.glob(awaited))) < count:
        assert process.poll() is None, f"ended before it could be stopped: {process.communicate()}"
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return process


# After a finished build


def test_overwrite_takes_away_the_old_files_and_leaves_foreign_ones(out, pets, tmp_path, build, snapshot):
    old = shutil.copytree(out, tmp_path / "out")
    (old / "notes.md").write_text("mine")
    (old / "index/notes.md").write_text("mine too")
    (tmp_path / "spec.yaml").write_text("layout: {image: image.encoded}")
    flags = [f"--input={pets}", f"--spec={tmp_path / 'spec.yaml'}", "--name=new", "--image_size=8"]
    build(old, *flags, "--overwrite")
    assert sorted(snapshot(old)) == sorted(
        [
            "./",
            "index/",
            "notes.md",
            "index/notes.md",
            "new-train.tfrecord-00000-of-00001",
            "index/new-train-00000-of-00001.parquet",
            *["dataset_info.json", "features.json", "manifest.json", "_SUCCESS"],
            *["failures.jsonl", "duplicates.jsonl"],
        ]
    )
    assert (old / "index/notes.md").read_text() == "mine too"


def test_overwriting_with_the_same_request_gives_the_same_bytes(out, pets, tmp_path, build, snapshot):
    again = shutil.copytree(out, tmp_path / "out")
    build(again, f"--input={pets}", *FLAGS, *EXACT, "--overwrite")
    # But for the manifest, which names the folder, and the marker with the manifest's hash.
    assert snapshot(again, without=["manifest.json", "_SUCCESS"]) == snapshot(
        out, without=["manifest.json", "_SUCCESS"]
    )


# After an unfinished build


def test_a_build_with_a_higher_limit_takes_up_the_blocks_of_the_failed_one(broken, tmp_path, convert, build):
    flags = [f"--input={broken}", *FLAGS]
    assert convert(f"--output={tmp_path / 'out'}", *flags, "--max_failures=0.05").code == 3
    markers = {path: path.read_bytes() for path in tmp_path.glob("out/.build/*/blocks/*.json")}
    assert markers
    spoilt = spoil_sources(tmp_path / "out")
    try:
        assert len(spoilt) == 120
        assert manifest_of(build(tmp_path / "out", *flags, "--max_failures=0.06"))["records"] == 120
    finally:
        restore_sources(spoilt)


def test_a_killed_build_goes_on_from_its_finished_blocks_and_ends_with_the_same_bytes(many, tmp_path, build, snapshot):
    output = tmp_path / "out"
    process = start_build(many, output)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (output / "_SUCCESS").exists()
    expected = build(tmp_path / "expected", f"--input={many}", *SLOW)
    # If a finished block were converted again, its pictures would now fail.
    spoilt = spoil_sources(output)
    try:
        assert 0 < len(spoilt) < 160
        build(output, f"--input={many}", *SLOW)
    finally:
        restore_sources(spoilt)
    assert manifest_of(output)["failures"] == 0
    assert shards_of(output) == shards_of(expected)
    assert manifest_of(output)["shards"] == manifest_of(expected)["shards"]
    assert sorted(snapshot(output)) == sorted(snapshot(expected))


@pytest.mark.parametrize("words", [[], ["--duplicates=drop"]], ids=["same request", "other rule for duplicates"])
def test_a_build_killed_while_it_made_shards_ends_with_the_same_bytes(many, tmp_path, words):
    output = tmp_path / "out"
    process = start_build(many, output, awaited=".build/*/shards/*", count=1)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (output / "_SUCCESS").exists()
    for folder, more in ((output, words), (tmp_path / "expected", [])):
        command = [BEAM_TFRECORDS, "convert", f"--input={many}", f"--output={folder}", *SLOW, *more]
        subprocess.run(command, check=True, capture_output=True)
    assert shards_of(output) == shards_of(tmp_path / "expected")
    assert not (output / ".build").exists()


def test_a_second_build_into_the_same_folder_is_refused_while_the_first_is_at_work(many, tmp_path, convert):
    process = start_build(many, tmp_path / "out")
    refused = convert(f"--input={many}", f"--output={tmp_path / 'out'}", *SLOW)
    assert refused.code == 2
    assert "another build is writing to it" in refused.err
    assert process.wait() == 0
    process.communicate()


def test_an_interrupted_build_says_in_one_line_that_it_can_go_on(many, tmp_path):
    process = start_build(many, tmp_path / "out")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert err == "beam-tfrecords: interrupted; the same command goes on from its finished blocks\n"
    assert not (tmp_path / "out/_SUCCESS").exists()


def test_worker_processes_end_quietly_with_the_process_that_started_them(many, tmp_path):
    process = start_build(many, tmp_path / "out")
    process.terminate()
    # The pipes are closed when the last process that holds them has ended.
    assert process.communicate(timeout=30) == ("", "")


def test_what_a_killed_writer_has_left_in_the_output_is_taken_away(out, pets, tmp_path, build, snapshot):
    program = """\
import os, signal, sys
from transforms import storage
with storage.open_write(sys.argv[1]) as file:
    file.write(b"half of it")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    for file in ("pets-train.tfrecord-00000-of-00003", "index/pets-train-00000-of-00003.parquet", "manifest.json"):
        subprocess.run([sys.executable, "-c", program, str(tmp_path / "out" / file)], check=False)
    assert len(snapshot(tmp_path / "out")) == 5
    built = build(tmp_path / "out", f"--input={pets}", *FLAGS, *EXACT)
    assert sorted(snapshot(built)) == sorted(snapshot(out))


def test_a_changed_input_takes_nothing_from_an_unfinished_build(pets, broken, tmp_path, convert, build):
    output = tmp_path / "out"
    assert convert(f"--input={broken}", f"--output={output}", *FLAGS, "--max_failures=0").code == 3
    (unfinished,) = filter(Path.is_dir, output.glob(".build/*"))
    built = build(output, f"--input={pets}", *FLAGS, "--max_failures=0")
    assert not unfinished.exists()
    assert not (built / ".build").exists()
    assert manifest_of(built)["records"] == 120
