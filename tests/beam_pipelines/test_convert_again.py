"""`convert` into a folder where another build was before: finished, failed, or of another input."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.beam_pipelines.dataset_checks import EXACT, FLAGS, manifest_of, restore_sources, spoil_sources

# After a finished build


def test_overwrite_removes_the_old_files_and_leaves_foreign_ones(out, pets, tmp_path, build, snapshot):
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
            *["failures.jsonl", "duplicates.jsonl", "report.html", "README.md", "croissant.json"],
        ]
    )
    assert (old / "index/notes.md").read_text() == "mine too"


def test_overwriting_with_the_same_request_gives_the_same_bytes(out, pets, tmp_path, build, snapshot):
    again = shutil.copytree(out, tmp_path / "out")
    build(again, f"--input={pets}", *FLAGS, *EXACT, "--overwrite")
    assert snapshot(again) == snapshot(out)


# After an unfinished build


@pytest.mark.any_workers
def test_a_build_with_a_higher_limit_resumes_from_the_blocks_of_the_failed_one(broken, tmp_path, convert, build):
    flags = [f"--input={broken}", *FLAGS]
    assert convert(f"--output={tmp_path / 'out'}", *flags, "--max_failures=0.05").code == 3
    spoilt = spoil_sources(tmp_path / "out", broken.parent)
    try:
        assert len(spoilt) == 120
        assert manifest_of(build(tmp_path / "out", *flags, "--max_failures=0.06"))["records"] == 120
    finally:
        restore_sources(spoilt)


@pytest.mark.nightly
def test_what_a_writer_killed_while_composing_left_is_among_the_temporary_files_and_removed(
    out, pets, broken, tmp_path, convert, build, snapshot
):
    output = tmp_path / "out"
    assert convert(f"--input={broken}", f"--output={output}", *FLAGS, *EXACT, "--max_failures=0").code == 3
    (staging,) = filter(Path.is_dir, output.glob(".build/*"))
    program = """\
import os, signal, sys
from beam_tfrecords import storage
with storage.open_write(sys.argv[1], staging=sys.argv[2]) as file:
    file.write(b"half of it")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    before = sorted(snapshot(output, without=[".build"]))
    for file in ("pets-train.tfrecord-00000-of-00003", "index/pets-train-00000-of-00003.parquet", "manifest.json"):
        subprocess.run([sys.executable, "-c", program, str(output / file), str(staging)], check=False)
    assert len(list(staging.glob("*.tmp-*"))) == 3
    assert sorted({*before, "index/"}) == sorted(snapshot(output, without=[".build"]))
    built = build(output, f"--input={pets}", *FLAGS, *EXACT)
    assert sorted(snapshot(built)) == sorted(snapshot(out))


def test_a_changed_input_takes_nothing_from_an_unfinished_build(pets, broken, tmp_path, convert, build):
    output = tmp_path / "out"
    assert convert(f"--input={broken}", f"--output={output}", *FLAGS, "--max_failures=0").code == 3
    (unfinished,) = filter(Path.is_dir, output.glob(".build/*"))
    built = build(output, f"--input={pets}", *FLAGS, "--max_failures=0")
    assert not unfinished.exists()
    assert not (built / ".build").exists()
    assert manifest_of(built)["records"] == 120
