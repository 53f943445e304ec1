"""Two builds into one folder of a bucket at once: one is refused, and what is published is whole."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_tfrecords import storage
from beam_tfrecords.dataset import open_dataset
from tests.integration.servers import gcs, s3

PHOTOS = Path(__file__).parents[1] / "data" / "photos"
SEED = 20_261_122
COMMAND = Path(sys.executable).with_name("beam-tfrecords")


@pytest.fixture(scope="module", params=["gs", "s3"])
def bucket(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A bucket of a running service, which this process and those it starts use."""
    folder = tmp_path_factory.mktemp(request.param)
    serve = gcs.gcs_server if request.param == "gs" else s3.s3_server
    with serve(folder, buckets=("datasets",)) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield f"{request.param}://datasets"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two inputs with other samples under the same names of classes."""
    folders = [tmp_path_factory.mktemp("input") / name for name in ("one", "other")]
    for folder, number in zip(folders, ("01", "02"), strict=True):
        for path in PHOTOS.glob(f"*/*_{number}.jpg"):
            target = folder / path.relative_to(PHOTOS)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return folders


def start(folder: Path, output: str, *words: str) -> subprocess.Popen[str]:
    command = [
        COMMAND,
        "convert",
        f"--input={folder}",
        f"--output={output}",
        "--name=photos",
        "--image_size=16",
        *words,
    ]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def check_whole(path: str) -> None:
    """That a dataset has all its files, and they are the manifest's."""
    dataset = open_dataset(path)
    assert dataset.manifest_sha256 == dataset.published_sha256
    for shard in dataset.shards:
        data = storage.read_bytes(storage.join(dataset.path, shard.file))
        assert len(data) == shard.bytes
    listed = {entry.path[len(dataset.path) + 1 :] for entry in storage.list_files(dataset.path, literal=True)}
    assert {*dataset.files, "_SUCCESS"} == {name for name in listed if not name.startswith(".build/")}


@pytest.mark.parametrize("versioned", [False, True], ids=["plain", "versioned"])
@pytest.mark.parametrize("same", [True, False], ids=["same input", "other input"])
def test_one_of_two_builds_at_once_is_refused(bucket, inputs, versioned, same):
    generator = random.Random(f"{SEED} {bucket} {versioned} {same}")
    for trial in range(3):
        output = f"{bucket}/out-{versioned}-{same}-{trial}"
        words = ["--versioned", "--guard=off"] if versioned else []
        first = start(inputs[0], output, *words)
        time.sleep(generator.uniform(0, 0.05))
        second = start(inputs[0] if same else inputs[1], output, *words)
        errors = [build.communicate(timeout=120)[1] for build in (first, second)]
        codes = sorted(build.returncode for build in (first, second))
        where = f"trial {trial} (seed {SEED}): {errors}"
        assert codes == [0, 2], where
        refusal = errors[0 if first.returncode else 1]
        assert "another build is writing to it, process" in refusal, where
        check_whole(output)
        versions = [name for name in storage.list_folders(output) if name != ".build"] if versioned else []
        assert len([name for name in versions if name[:2] == "20"]) == (1 if versioned else 0), where


def test_after_a_kill_the_same_command_publishes(bucket, inputs):
    output = f"{bucket}/killed"
    build = start(inputs[0], output, "--versioned")
    deadline = time.monotonic() + 60
    while not storage.is_folder(f"{output}/.build") and time.monotonic() < deadline:
        time.sleep(0.01)
    build.kill()
    build.communicate()
    # On this machine it is known that the process has ended; elsewhere, its lease is anybody's after two minutes.
    again = start(inputs[0], output, "--versioned")
    assert again.communicate(timeout=120)[1] is not None
    assert again.returncode == 0
    check_whole(output)
