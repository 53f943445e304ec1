"""Service faults of real builds: they end with exit code 1, reject no sample, and the same command resumes."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
import subprocess
import tarfile
import threading
import time
from pathlib import Path

import pytest

from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS, manifest_of, shards_of
from tests.beam_pipelines.test_disk_faults import library
from tests.progress_lines import without_progress
from tests.trees import write_tree

pytestmark = [
    pytest.mark.local_runner,
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler, for a library that is preloaded"),
]

__all__ = ["library"]

FLAGS = ["--name=pets", "--image_size=16", "--num_shards=2"]


@pytest.fixture
def photos(tmp_path) -> Path:
    """Twenty photos of two classes, and a table of them."""
    write_tree(tmp_path / "in", "cat/{00..09}.png dog/{10..19}.png")
    rows = [f"{path.relative_to(tmp_path / 'in')},{path.parent.name}" for path in (tmp_path / "in").glob("*/*.png")]
    (tmp_path / "in/rows.csv").write_text("\n".join(["image,label", *sorted(rows)]))
    return tmp_path / "in"


@dataclasses.dataclass(frozen=True)
class Machine:
    """One where a file cannot be opened, or looked at, until somebody removes the plan of the fault."""

    library: Path
    plan: Path
    path: Path
    call: str = "open"
    code: int = errno.EIO

    def convert(self, *words: object) -> subprocess.CompletedProcess[str]:
        self.plan.write_text(f"{self.code} always {self.call} {self.path}\n")
        faulty = {"FAULTY_ROOT": str(self.plan.parent), "FAULTY_PLAN": str(self.plan), "LD_PRELOAD": str(self.library)}
        command, environment = [BEAM_TFRECORDS, "convert", *map(str, words)], {**os.environ, **faulty}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture
def machine(library, tmp_path) -> Machine:
    return Machine(library, tmp_path / "plan", tmp_path / "in/dog/13.png")


@pytest.mark.nightly
def test_a_fault_of_reading_ends_the_build_and_the_same_command_resumes(photos, machine, tmp_path, build):
    flags = [f"--input={photos}", "--max_failures=1", *FLAGS]
    ran = machine.convert(f"--output={tmp_path / 'out'}", *flags)
    (line,) = without_progress(ran.stderr).splitlines()
    assert line == (
        f"beam-tfrecords: the run failed: {photos}/dog/13.png cannot be read: Input/output error; "
        "once this is fixed, the same command resumes"
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    machine.plan.unlink()
    assert shards_of(build(tmp_path / "out", *flags)) == shards_of(build(tmp_path / "expected", *flags))


@pytest.mark.nightly
def test_a_fault_that_passes_is_not_seen(photos, machine, tmp_path):
    def repair() -> None:
        while not list(tmp_path.glob("out/.build/*/blocks/*.started")):
            time.sleep(0.01)
        time.sleep(1)
        machine.plan.unlink()

    threading.Thread(target=repair).start()
    ran = machine.convert(f"--input={photos}", f"--output={tmp_path / 'out'}", *FLAGS)
    assert ran.returncode == 0, ran.stderr
    assert manifest_of(tmp_path / "out")["records"] == 20


@pytest.mark.nightly
@pytest.mark.parametrize("source", ["", "rows.csv"], ids=["folder", "table"])
def test_a_fault_of_listing_rejects_no_sample(photos, machine, tmp_path, build, source):
    machine = dataclasses.replace(machine, call="stat")
    # Without a link, a folder is listed without a look at its files.
    (photos / "dog/13.png").rename(photos / "dog/other")
    (photos / "dog/13.png").symlink_to("other")
    flags = [f"--input={photos / source}", "--max_failures=1", *FLAGS]
    ran = machine.convert(f"--output={tmp_path / 'out'}", *flags)
    assert (ran.returncode, ran.stdout) == (1, ""), ran.stderr
    assert f"{photos}/dog/13.png cannot be read: Input/output error; once this is fixed, the same command" in ran.stderr
    machine.plan.unlink()
    build(tmp_path / "out", *flags)


@pytest.mark.nightly
def test_a_file_that_may_not_be_read_is_tried_again_by_the_next_launch(photos, machine, tmp_path, build):
    machine = dataclasses.replace(machine, code=errno.EACCES)
    flags = [f"--input={photos}", *FLAGS]
    ran = machine.convert(f"--output={tmp_path / 'out'}", *flags)
    assert ran.returncode == 3, ran.stderr
    (failure,) = map(json.loads, (tmp_path / "out/failures.jsonl").read_text().splitlines())
    assert (failure["key"], failure["reason"]) == ("dog/13.png", "unreadable")
    machine.plan.unlink()
    assert manifest_of(build(tmp_path / "out", *flags))["failures"] == 0


@pytest.mark.nightly
def test_a_file_that_may_not_be_read_is_tried_again_by_the_next_version(photos, machine, tmp_path, convert):
    machine = dataclasses.replace(machine, code=errno.EACCES)
    flags = [f"--input={photos}", f"--output={tmp_path / 'out'}", "--versioned", "--max_failures=0.1", *FLAGS]
    assert machine.convert(*flags).returncode == 0
    first = (tmp_path / "out/LATEST").read_text()
    assert machine.convert(*flags).returncode == 0
    # The same failure again makes the same dataset again, which is not published.
    assert (tmp_path / "out/LATEST").read_text() == first
    machine.plan.unlink()
    assert convert(*flags).code == 0
    latest = tmp_path / "out" / (tmp_path / "out/LATEST").read_text().strip()
    assert latest.name != first.strip()
    assert manifest_of(latest)["records"] == 20


@pytest.mark.nightly
def test_an_archive_that_may_not_be_read_ends_the_build_and_is_read_by_the_next_launch(
    photos, machine, tmp_path, build
):
    machine = dataclasses.replace(machine, code=errno.EACCES, path=tmp_path / "13.png.tar")
    for name, folder in (("1.tar", "cat"), ("13.png.tar", "dog")):
        with tarfile.open(tmp_path / name, "w") as tar:
            tar.add(photos / folder, arcname=folder)
    flags = [f"--input={tmp_path}/*.tar", "--class_names=cat,dog", *FLAGS]
    ran = machine.convert(*flags, f"--output={tmp_path / 'out'}")
    assert ran.returncode == 3, ran.stderr
    assert f"{tmp_path / '13.png.tar'} (after 0 samples: " in ran.stderr
    machine.plan.unlink()
    assert shards_of(build(tmp_path / "out", *flags)) == shards_of(build(tmp_path / "expected", *flags))
