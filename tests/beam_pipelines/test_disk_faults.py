"""A disk that does not answer: the same records or one line, never fewer, and the same command resumes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.beam_pipelines.dataset_checks import manifest_of, shards_of
from tests.beam_pipelines.disk_faults import KINDS
from tests.trees import write_tree

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None, reason="needs a C compiler, for a library that is preloaded"
)

ROOT = Path(__file__).parents[2]
FLAGS = ["--name=pets", "--image_size=8", "--max_failures=0.1"]


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> Path:
    library = tmp_path_factory.mktemp("library") / "disk_faults.so"
    source = Path(__file__).with_name("disk_faults.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def try_faults(library: Path, folder: Path, kind: str, *, most: int, seed: int) -> list[dict]:
    """What `disk_faults` prints."""
    (folder / "work").mkdir(parents=True)
    environment = {
        **os.environ,
        "FAULTY_ROOT": str(folder / "work"),
        "FAULTY_PLAN": str(folder / "plan"),
        "FAULTY_LOG": str(folder / "log"),
        "LD_PRELOAD": str(library),
    }
    words = [folder / "work", kind, most, seed]
    command = [sys.executable, "-m", "tests.beam_pipelines.disk_faults", *map(str, words)]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_of_one_look_loses_nothing(library, tmp_path, kind):
    found = try_faults(library, tmp_path, kind, most=15, seed=1)
    assert len(found) == 15
    assert not [one for one in found if one["wrong"]]


@pytest.fixture
def classes(tmp_path) -> Path:
    """Two classes; one is a link into a disk that is not mounted."""
    write_tree(tmp_path / "in", "cat/{0..5}.png")
    (tmp_path / "in/dog").symlink_to(tmp_path / "mnt/dog")
    return tmp_path / "in"


@pytest.mark.parametrize("pattern", ["", "/*/*.png", "/**/*.png", "/[cd]*/*", "/dog*/**", "/{cat,dog}/*.png"])
def test_a_class_on_a_disk_that_is_not_mounted_is_no_class_less(classes, tmp_path, convert, pattern):
    ran = convert(f"--input={classes}{pattern}", f"--output={tmp_path / 'out'}", *FLAGS)
    assert ran.code in (2, 3), ran.out
    assert "dog" in ran.err
    assert not (tmp_path / "out/_SUCCESS").exists()


def test_a_glob_fails_on_a_link_to_nothing_as_its_folder_does(classes, tmp_path, convert):
    found = []
    for number, pattern in enumerate(("", "/*/*.png", "/**/*.png")):
        output = tmp_path / f"out{number}"
        assert convert(f"--input={classes}{pattern}", f"--output={output}", *FLAGS).code == 3
        (failure,) = map(json.loads, (output / "failures.jsonl").read_text().splitlines())
        found.append((failure["key"], failure["uri"], failure["detail"]))
    detail = "not a regular file, or a broken link"
    assert found == [("dog", uri, detail) for uri in (f"{classes.name}/dog", "dog", "dog")]


def test_the_image_of_another_root_is_not_taken_where_the_first_may_not_be_looked_into(tmp_path, convert, monkeypatch):
    write_tree(tmp_path, "{one,two}/cat.png", {"rows.csv": "image,label\ncat.png,cat\n"})
    roots = [f"--image_root={tmp_path / root}" for root in ("one", "two")]
    words = [f"--input={tmp_path / 'rows.csv'}", *roots, f"--output={tmp_path / 'out'}", *FLAGS, "--layout=image"]
    look = os.stat

    def refuse(path, *arguments, **named):
        if str(path).startswith(str(tmp_path / "one/")):
            raise PermissionError(13, "Permission denied", path)
        return look(path, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", refuse)
        ran = convert(*words)
    assert ran.code == 3
    assert "Permission denied: 'one/cat.png'" in ran.err
    (tmp_path / "two/cat.png").unlink()
    assert convert(*words).code == 0


def test_a_change_of_a_hundred_nanoseconds_is_a_change(tmp_path, convert, picture, save):
    path = save(tmp_path / "in/cat/1.png", picture(1, 12, 12))
    save(tmp_path / "in/dog/2.png", picture(2, 12, 12))
    other = save(tmp_path / "other.png", picture(3, 12, 12)).read_bytes()
    size = max(len(other), path.stat().st_size)
    path.write_bytes(path.read_bytes().ljust(size, b"\0"))
    os.utime(path, ns=(0, 1_700_000_000_000_000_000))
    words = [f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", "--versioned", *FLAGS]
    assert convert(*words).code == 0
    assert "nothing has changed" in convert(*words).out
    path.write_bytes(other.ljust(size, b"\0"))
    os.utime(path, ns=(0, 1_700_000_000_000_000_100))
    ran = convert(*words)
    assert (ran.code, "nothing has changed" in ran.out) == (0, False)
    latest = tmp_path / "out" / (tmp_path / "out/LATEST").read_text().strip()
    fresh = convert(f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'fresh'}", *FLAGS)
    assert fresh.code == 0
    assert shards_of(latest) == shards_of(tmp_path / "fresh")
    assert manifest_of(latest)["records"] == 2
