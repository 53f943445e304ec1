"""The code of release 0.2 reads, verifies and continues datasets of today."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.beam_pipelines.dataset_checks import manifest_of, shards_of

ROOT = Path(__file__).parents[2]
# The last state of version 0.2.0.
COMMIT = "b78aad204adc3e5ce35ec28f3f6897281df949fd"
RUN = "import sys; from beam_tfrecords.beam_pipelines.commands.cli import main; sys.exit(main(sys.argv[1:]))"
READ = """
import sys
from beam_tfrecords import open_dataset
for path in sys.argv[1:]:
    dataset = open_dataset(path)
    print(dataset.num_records, *sorted({str(example["label"]) for split in dataset for example in dataset[split]}))
"""
FLAGS = ("--image_size=32", "--splits=train=0.8,test=0.2", "--versioned")


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """Runs code with the modules of 0.2; returns what it printed."""
    archive = subprocess.run(["git", "archive", COMMIT, "beam_tfrecords"], cwd=ROOT, capture_output=True)
    if archive.returncode:
        pytest.skip(f"commit {COMMIT[:8]} is missing; a shallow clone needs `git fetch --unshallow`")
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as opened:
        opened.extractall(folder, filter="data")

    def run(code: str, *words: object) -> str:
        command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}", *map(str, words)]
        ran = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)}, capture_output=True)
        assert ran.returncode == 0, ran.stderr.decode()
        return ran.stdout.decode()

    assert run("import beam_tfrecords; print(beam_tfrecords.__file__)").startswith(str(folder))
    return run


@pytest.fixture
def pictures(photos, tmp_path) -> Path:
    return Path(shutil.copytree(photos, tmp_path / "photos"))


def newest(output: Path) -> Path:
    return output / (output / "LATEST").read_text().strip()


def test_it_reads_verifies_and_continues_a_dataset_of_today(earlier, pictures, tmp_path, convert):
    output = tmp_path / "out"
    words = [f"--input={pictures}", f"--output={output}", *FLAGS]
    assert convert(*words).code == 0
    today = newest(output)
    assert earlier(READ, output).split() == ["42", *map(str, range(7))]
    assert earlier(RUN, "verify", f"--dataset={output}").startswith("OK: 42 records in 2 shards")
    assert "photos" in earlier(RUN, "inspect", f"--dataset={output}", "--examples=1")
    next(pictures.glob("cat/*")).unlink()
    earlier(RUN, "convert", *words)
    found = manifest_of(newest(output))
    assert (found["format"], "minor" in found, found["records"]) == (2, False, 41)
    assert found["reuse"] == {"copied": 41, "reserialized": 0, "converted": 0}
    # Then back to today.
    next(pictures.glob("space/*")).unlink()
    assert convert(*words).code == 0
    assert manifest_of(newest(output))["reuse"] == {"copied": 40, "reserialized": 0, "converted": 0}
    assert newest(output) != today


def test_today_continues_a_dataset_of_it_with_files_beside_a_table(earlier, pictures, tmp_path, convert, verify):
    """The second image of a row is in the hash of its sample, with its path."""
    names = sorted(str(path.relative_to(tmp_path)) for path in pictures.glob("*/*.jpg"))
    rows = [f"{name},{names[number - 1]},{name.split('/')[1]}" for number, name in enumerate(names)]
    (tmp_path / "table.csv").write_text("\n".join(["left,right,label", *rows]))
    output = tmp_path / "out"
    words = [f"--input={tmp_path / 'table.csv'}", f"--output={output}", "--image_column=left,right", *FLAGS]
    earlier(RUN, "convert", *words)
    before = newest(output)
    # Unreadable, in a way that no listing can notice.
    for path in pictures.glob("*/*.jpg"):
        time = path.stat().st_mtime_ns
        path.write_bytes(bytes(path.stat().st_size))
        os.utime(path, ns=(time, time))
    ran = convert(*words)
    assert ran.code == 0, ran.err
    assert newest(output) != before
    assert manifest_of(newest(output))["reuse"] == {"copied": 42, "reserialized": 0, "converted": 0}
    assert shards_of(newest(output)) == shards_of(before)
    assert verify(output).code == 0
