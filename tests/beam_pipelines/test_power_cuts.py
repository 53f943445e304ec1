"""What a power cut may leave: files that were not yet on the disk are empty, and a published dataset is whole."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path

import pytest

from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS, manifest_of, shards_of
from tests.trees import write_tree

pytestmark = pytest.mark.local_runner

FLAGS = ["--name=pets", "--image_size=8", "--image_encoding=png", "--num_shards=2"]
# Python runs this first, in every process; each call that counts is a line in the log. Temporary names are given once;
# the number of an inode is given again when its file is gone.
RECORDER = """\
import os

log = os.open(os.environ["SYNC_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
sync, rename, hard_link = os.fsync, os.replace, os.link

def fsync(file):
    sync(file)
    os.write(log, f"sync {os.readlink(f'/proc/self/fd/{file}')}\\n".encode())

def replace(old, new):
    rename(old, new)
    os.write(log, f"name {old} {new}\\n".encode())

def link(old, new, **options):
    hard_link(old, new, **options)
    os.write(log, f"name {old} {new}\\n".encode())

os.fsync, os.replace, os.link = fsync, replace, link
"""


@dataclasses.dataclass(frozen=True)
class Calls:
    """The calls of a build, in order: `sync PATH`, and `name OLD NEW` for a file that got its name."""

    lines: list[str]

    def naming(self, path: Path) -> tuple[int, str]:
        """The place of the call that gave a file its name, and the name it had before."""
        ((place, line),) = [
            (number, line)
            for number, line in enumerate(self.lines)
            if line.startswith("name ") and line.endswith(f" {path}")
        ]
        return place, line.split()[1]

    def syncs(self, path: Path | str, *, since: int = 0, until: int | None = None) -> bool:
        return f"sync {path}" in self.lines[since:until]


@pytest.fixture(scope="module")
def pets(tmp_path_factory) -> Path:
    return write_tree(
        tmp_path_factory.mktemp("power") / "pets", "cat/{0..29}.png dog/{30..59}.png", {"cat/bad.png": "broken"}
    )


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="/proc is missing")
def test_everything_is_on_the_disk_before_success_is_and_parts_need_not_be(pets, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(RECORDER)
    output = tmp_path / "new/folder/out"
    # Without the report, which is not part of what `_SUCCESS` stands for.
    words = [f"--input={pets}", f"--output={output}", *FLAGS, "--max_failures=0.1", "--no_report"]
    subprocess.run(
        [BEAM_TFRECORDS, "convert", *words],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site"), "SYNC_LOG": str(tmp_path / "log")},
        check=True,
        capture_output=True,
    )
    calls = Calls((tmp_path / "log").read_text().splitlines())
    success, _ = calls.naming(output / "_SUCCESS")
    files = [path for path in output.rglob("*") if path.is_file()]
    assert len(files) == 2 + 2 + 9  # shards, indices, and the rest
    for file in files:
        place, old = calls.naming(file)
        assert calls.syncs(old, until=place), file
        # Whatever kills a worker, unfinished files are among the temporary ones.
        assert "/.build/" in old
    last = max(calls.naming(file)[0] for file in files if file.name != "_SUCCESS")
    assert last < success
    for folder in (output / "index", output, *list(output.parents)[:3]):
        assert calls.syncs(folder, since=last, until=success), folder
    assert calls.syncs(output, since=success)
    parts = [line.split()[1] for line in calls.lines if line.startswith("name ") and "/parts/" in line]
    assert parts
    assert not any(calls.syncs(old) for old in parts)


@pytest.mark.nightly
def test_a_build_resumes_from_files_that_a_power_cut_emptied(pets, tmp_path, build, convert):
    expected = build(tmp_path / "expected", f"--input={pets}", *FLAGS, "--max_failures=0.1")
    output = tmp_path / "out"
    assert convert(f"--input={pets}", f"--output={output}", *FLAGS, "--max_failures=0").code == 3
    temporary = [path for path in output.glob(".build/**/*") if path.is_file()]
    assert {path.suffix for path in temporary} >= {".json", ".tfrecord", ".parquet", ".refs", ".jsonl"}
    for path in temporary:
        os.truncate(path, 0)
    build(output, f"--input={pets}", *FLAGS, "--max_failures=0.1")
    assert shards_of(output) == shards_of(expected)
    assert (output / "failures.jsonl").read_bytes() == (expected / "failures.jsonl").read_bytes()
    assert manifest_of(output)["shards"] == manifest_of(expected)["shards"]


def test_parts_of_the_right_size_with_zeros_in_them_are_not_published(pets, tmp_path, build, convert):
    expected = build(tmp_path / "expected", f"--input={pets}", *FLAGS, "--max_failures=0.1")
    output = tmp_path / "out"
    assert convert(f"--input={pets}", f"--output={output}", *FLAGS, "--max_failures=0").code == 3
    parts = [path for path in output.glob(".build/*/parts/*") if path.is_file()]
    assert {path.suffix for path in parts} == {".tfrecord", ".parquet"}
    for path in parts:
        path.write_bytes(bytes(path.stat().st_size))
    build(output, f"--input={pets}", *FLAGS, "--max_failures=0.1")
    assert shards_of(output) == shards_of(expected)
    assert manifest_of(output)["shards"] == manifest_of(expected)["shards"]


@pytest.mark.nightly
@pytest.mark.parametrize("zeros", [False, True], ids=["emptied", "zeros"])
@pytest.mark.parametrize("pattern", ["containers/*", "staging/*", "listing/*"])
def test_an_archive_is_indexed_again_if_a_power_cut_damaged_what_was_made_of_it(
    pets, tmp_path, build, convert, pattern, zeros
):
    subprocess.run(["tar", "-czf", tmp_path / "pets.tar.gz", "-C", pets, "."], check=True)
    flags = [f"--input={tmp_path / 'pets.tar.gz'}", *FLAGS]
    expected = build(tmp_path / "expected", *flags, "--max_failures=0.1")
    output = tmp_path / "out"
    assert convert(f"--output={output}", *flags, "--max_failures=0").code == 3
    (damaged,) = output.glob(f".build/*/{pattern}")
    damaged.write_bytes(bytes(damaged.stat().st_size if zeros else 0))
    for checkpoint in output.glob(".build/*/blocks/*.json"):
        checkpoint.unlink()
    build(output, *flags, "--max_failures=0.1")
    assert shards_of(output) == shards_of(expected)
    assert (output / "failures.jsonl").read_bytes() == (expected / "failures.jsonl").read_bytes()
