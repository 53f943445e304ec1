"""Two builds into one folder of a bucket at once, and builds that are killed: what is published is whole, always."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from beam_tfrecords import open_dataset
from tests.integration import buckets
from tests.integration.servers.proxy import StorageServer

pytestmark = pytest.mark.nightly

PHOTOS = Path(__file__).parents[1] / "data" / "photos"
SEED = 20_261_122
# Of every service, way of building and pair of inputs: 16 in all.
TRIALS = 2
KILLS = 5
FLAGS = ["--name=photos", "--image_size=16"]
VERSIONED = ["--versioned", "--guard=off", "--keep_versions=1", "--grace=0s"]


@pytest.fixture(scope="module", params=buckets.SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def server(scheme: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StorageServer]:
    with buckets.services(tmp_path_factory.mktemp(scheme), scheme) as running:
        yield running[scheme]


@pytest.fixture
def bucket(scheme: str, server: StorageServer) -> str:
    return f"{scheme}://datasets"


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


@pytest.fixture(scope="module")
def expected(inputs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What an undisturbed build makes of each input, on a disk."""
    outputs = [str(tmp_path_factory.mktemp("disk") / "out") for _ in inputs]
    for folder, output in zip(inputs, outputs, strict=True):
        buckets.build(f"--input={folder}", f"--output={output}", *FLAGS)
    return [buckets.content_of(output) for output in outputs]


def start(folder: Path, output: str, *words: str) -> subprocess.Popen[str]:
    return buckets.start(f"--input={folder}", f"--output={output}", *FLAGS, *words, start_new_session=True)


def published(output: str, versioned: bool) -> tuple[str, str] | None:
    """The dataset that readers find in an output now, and what tells it from one that takes its place."""
    name = "LATEST" if versioned else "_SUCCESS"
    version = buckets.versions_of(output).get(name)
    if version is None:
        return None
    return f"{output}/{buckets.read(f'{output}/{name}').decode().strip()}" if versioned else output, version


def check_whole(path: str) -> None:
    """That a dataset has all its files, and they are the manifest's."""
    dataset = open_dataset(path)
    assert dataset.manifest_sha256 == dataset.published_sha256
    for shard in dataset.shards:
        data = buckets.read(f"{dataset.path}/{shard.file}")
        assert (len(data), f"{google_crc32c.value(data):08x}") == (shard.bytes, shard.crc32c)
    # The report comes after the dataset is published.
    found = {name for name in buckets.files_of(dataset.path) if not name.startswith(".build/")} - {"report.html"}
    assert found == {*dataset.files, "_SUCCESS"}


def check_content(output: str, versioned: bool, expected: dict[str, Any]) -> None:
    """That an output has one dataset, the expected one, and nothing else."""
    found = published(output, versioned)
    assert found
    path = found[0]
    content = buckets.content_of(path)
    content.pop("changes.json", None)
    # A build that is killed after it has published has written none.
    is_reported = content.pop("report.html", None) is not None
    assert content == {name: value for name, value in expected.items() if name != "report.html"}
    files = buckets.files_of(output)
    if versioned:
        # The command after a build that was killed after it had published finds nothing new.
        assert {name.split("/")[0] for name in files} <= {path.rpartition("/")[2], "LATEST", "UNCHANGED"}
    else:
        assert files == sorted([*content, "_SUCCESS", *(["report.html"] if is_reported else [])])


@contextlib.contextmanager
def observed(output: str, versioned: bool) -> Iterator[None]:
    """Looks all the time, and once at the end, whether what readers find is whole."""
    problems: list[str] = []
    done = threading.Event()

    def look() -> None:
        found = published(output, versioned)
        if found is None:
            return
        try:
            check_whole(found[0])
        except Exception as error:
            # One that was replaced while it was looked at may have been removed.
            if found == published(output, versioned):
                problems.append(f"{type(error).__name__}: {error}")

    def watch() -> None:
        while not done.wait(0.02):
            look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    look()
    assert not problems, problems[:3]


@pytest.mark.parametrize("versioned", [False, True], ids=["plain", "versioned"])
@pytest.mark.parametrize("same", [True, False], ids=["same input", "other input"])
def test_one_of_two_builds_at_once_is_refused(bucket, inputs, expected, versioned, same):
    generator = random.Random(f"{SEED} {bucket} {versioned} {same}")
    for trial in range(TRIALS):
        output = f"{bucket}/out-{versioned}-{same}-{trial}"
        words = VERSIONED if versioned else []
        with observed(output, versioned):
            first = start(inputs[0], output, *words)
            time.sleep(generator.uniform(0, 0.05))
            second = start(inputs[0] if same else inputs[1], output, *words)
            errors = [build.communicate(timeout=300)[1] for build in (first, second)]
        codes = [build.returncode for build in (first, second)]
        where = f"trial {trial} (seed {SEED}): {errors}"
        assert sorted(codes) == [0, 4], where
        assert "another build is writing to it, process" in errors[codes.index(4)], where
        check_content(output, versioned, expected[0 if same else codes.index(0)])


@pytest.mark.parametrize("kill", range(KILLS))
def test_after_a_kill_the_same_command_ends_as_if_nothing_had_happened(scheme, server, bucket, inputs, expected, kill):
    versioned = kill % 2 == 1
    words = VERSIONED if versioned else ["--overwrite"]
    output = f"{bucket}/killed-{kill}"
    generator = random.Random(f"{SEED} {scheme} {kill}")
    with observed(output, versioned):
        # A finished dataset, which the build that is killed is to replace.
        began = time.monotonic()
        assert start(inputs[1], output, *words).wait(300) == 0
        seconds = time.monotonic() - began
        build = start(inputs[0], output, *words)
        time.sleep(generator.uniform(0.2, 1.0) * seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(build.pid, signal.SIGKILL)
        build.communicate()
        # On this machine it is known that the process has ended; elsewhere, its lease is anybody's after two minutes.
        again = start(inputs[0], output, *words)
        errors = again.communicate(timeout=300)[1]
        assert again.returncode == 0, errors
    check_content(output, versioned, expected[0])
    assert scheme == "gs" or not buckets.uploads_left(server)
