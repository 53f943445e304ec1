"""Objects that are replaced between listing and reading, and a bucket that refuses to be read."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.servers import gcs

pytestmark = pytest.mark.nightly

PHOTOS = sorted((Path(__file__).parents[1] / "data/photos").rglob("*.jpg"))[:6]
FLAGS = ["--name=photos", "--image_size=32", "--class_names=cat"]
# `convert`, but an object is replaced when the input has been listed.
CHANGE_AND_CONVERT = """
import sys
from beam_tfrecords.beam_pipelines.build import build
from beam_tfrecords.beam_pipelines.commands import cli
from beam_tfrecords import storage

def change_and_run(*arguments, run=build._run, **named):
    storage.write_bytes(sys.argv[1], open(sys.argv[2], "rb").read())
    return run(*arguments, **named)

build._run = change_and_run
sys.exit(cli.main(["convert", *sys.argv[3:]]))
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[gcs.GcsServer]:
    """A storage service with six photos in gs://photos/in."""
    with gcs.gcs_server(tmp_path, buckets=("photos",)) as running:
        bucket = running.client().bucket("photos")
        for number, path in enumerate(PHOTOS):
            bucket.blob(f"in/cat/{number}.jpg").upload_from_filename(path)
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=False)


def convert(*flags: object) -> subprocess.CompletedProcess[str]:
    return run(Path(sys.executable).with_name("beam-tfrecords"), "convert", *flags, *FLAGS)


def failures_of(output: Path) -> dict[str, str]:
    lines = map(json.loads, (output / "failures.jsonl").read_text().splitlines())
    return {failure["key"]: failure["reason"] for failure in lines}


def write_tar(path: Path, photos: list[Path]) -> Path:
    with tarfile.open(path, "w") as tar:
        for number, photo in enumerate(photos):
            member = tarfile.TarInfo(f"cat/{number}.jpg")
            # All of one size, so that a member begins where another one did.
            data = photo.read_bytes().ljust(max(one.stat().st_size for one in PHOTOS), b"\0")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def test_no_record_holds_a_member_of_an_archive_that_was_replaced(server, tmp_path):
    bucket = server.client().bucket("photos")
    bucket.blob("in.tar").upload_from_filename(write_tar(tmp_path / "old.tar", PHOTOS))
    new = write_tar(tmp_path / "new.tar", PHOTOS[::-1])
    flags = ["--input=gs://photos/in.tar", f"--output={tmp_path / 'out'}"]
    ran = run("-c", CHANGE_AND_CONVERT, "gs://photos/in.tar", new, *flags, *FLAGS)
    assert ran.returncode == 3, ran.stderr
    assert failures_of(tmp_path / "out") == {f"cat/{number}.jpg": "changed" for number in range(6)}
    assert convert(*flags).returncode == 0


def test_an_object_that_was_replaced_is_rejected_as_changed(server, tmp_path):
    flags = ["--input=gs://photos/in", f"--output={tmp_path / 'out'}", "--max_failures=0.5"]
    ran = run("-c", CHANGE_AND_CONVERT, "gs://photos/in/cat/3.jpg", PHOTOS[0], *flags, *FLAGS)
    assert ran.returncode == 0, ran.stderr
    assert failures_of(tmp_path / "out") == {"cat/3.jpg": "changed"}


def test_a_bucket_that_refuses_to_be_read_ends_the_build_and_rejects_nothing(server, tmp_path):
    flags = ["--input=gs://photos/in", f"--output={tmp_path / 'out'}", "--max_failures=1"]
    server.refuse("GET", "/3.jpg", status=403, times=1000)
    server.refuse("GET", "%2F3.jpg", status=403, times=1000)
    ran = convert(*flags)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "gs://photos/in/cat/3.jpg" in ran.stderr
    server.forget_faults()
    assert convert(*flags).returncode == 0
    assert failures_of(tmp_path / "out") == {}
