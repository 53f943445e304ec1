"""azfs:// by Beam's own file system, which gets the options of the command line in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from beam_tfrecords import load, open_dataset
from tests.integration.servers import azure
from tests.progress_lines import without_progress

pytestmark = pytest.mark.nightly

PHOTOS = Path(__file__).parents[1] / "data" / "photos"
ROOT = f"azfs://{azure.ACCOUNT}/data"
FLAGS = ("--name=photos", "--image_size=64", "--splits=train=0.8,validation=0.2")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Connection string and client of a container with the photos below photos/."""
    with azure.azure_server(tmp_path_factory.mktemp("azure"), container="data") as (connection, client):
        for path in PHOTOS.rglob("*.jpg"):
            client.upload_blob(f"photos/{path.relative_to(PHOTOS).as_posix()}", path.read_bytes())
        yield connection, client


def run(*words: str, connection: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({"AZURE_STORAGE_CONNECTION_STRING": connection} if connection else {})}
    command = [Path(sys.executable).with_name("beam-tfrecords"), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_build_from_blobs_to_blobs_has_the_bytes_of_a_local_one(server, tmp_path):
    connection, client = server
    flags = (*FLAGS, f"--azure_connection_string={connection}")
    ran = run("convert", f"--input={ROOT}/photos", f"--output={ROOT}/out", *flags)
    assert ran.returncode == 0, ran.stderr
    assert run("convert", f"--input={PHOTOS}", f"--output={tmp_path}", *FLAGS).returncode == 0
    local = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert {name.removeprefix("out/") for name in client.list_blob_names(name_starts_with="out/")} == local
    for name in (name for name in local if ".tfrecord-" in name):
        assert client.download_blob(f"out/{name}").readall() == (tmp_path / name).read_bytes()

    # The connection string may be in the environment, where commands without flags for Beam find it.
    verified = run("verify", f"--dataset={ROOT}/out", connection=connection)
    assert verified.stdout.startswith("OK: 42 records"), verified.stderr
    assert run("inspect", f"--dataset={ROOT}/out", connection=connection).returncode == 0


def test_blobs_are_read_as_files_are(server, tmp_path, monkeypatch):
    connection, _ = server
    for output, flags in ((f"{ROOT}/read", (f"--azure_connection_string={connection}",)), (tmp_path, ())):
        ran = run("convert", f"--input={PHOTOS}", f"--output={output}", *FLAGS, "--num_shards=2", *flags)
        assert ran.returncode == 0, ran.stderr
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection)

    def read(path) -> list[tuple[bytes, bytes]]:
        loaded = load(path, "train", decode=False).as_numpy_iterator()
        return [(example["filename"], example["image"]) for example in loaded]

    assert read(f"{ROOT}/read") == read(tmp_path)
    there, here = (
        open_dataset(path).records("train", form="bytes", verify=True) for path in (f"{ROOT}/read", tmp_path)
    )
    assert list(there) == list(here)
    assert there.__getitems__([20, 3, 4]) == here.__getitems__([20, 3, 4])
    assert list(there.filter(label="cat")) == list(here.filter(label="cat"))


def test_without_a_connection_string_nothing_is_started(server):
    ran = run("convert", f"--input={ROOT}/photos", f"--output={ROOT}/other", *FLAGS)
    assert ran.returncode in (1, 2)
    assert len(without_progress(ran.stderr).strip().splitlines()) == 1
