"""Builds while a tenth of all requests is refused, reset, cut off, or done without an answer."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration import buckets
from tests.integration.servers.proxy import Kind, StorageServer

pytestmark = pytest.mark.nightly

PHOTOS = Path(__file__).parents[1] / "data" / "photos"
# Shards of more than 8 MiB: larger ones go to S3 in parts.
FLAGS = ["--name=photos", "--image_size=400", "--upscale", "--image_encoding=png", "--codec=exact", "--num_shards=1"]
# More seeds take a minute each: SEEDS=1,2,3 make test-integration.
SEEDS = [int(word) for word in os.environ.get("SEEDS", "1").split(",")]
SHARE = 0.1


@pytest.fixture(scope="module", params=buckets.SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def server(scheme: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StorageServer]:
    with buckets.services(tmp_path_factory.mktemp(scheme), scheme) as running:
        buckets.upload(PHOTOS, f"{scheme}://photos")
        yield running[scheme]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a build makes on a disk."""
    output = str(tmp_path_factory.mktemp("disk") / "out")
    buckets.build(f"--input={PHOTOS}", f"--output={output}", *FLAGS)
    assert Path(output, "photos-train.tfrecord-00000-of-00001").stat().st_size > 8 << 20
    return buckets.content_of(output)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_build_makes_the_same_dataset_and_leaves_nothing_else(server, scheme, expected, seed):
    output = f"{scheme}://datasets/{seed}"
    before = len(server.requests)
    server.disturb(SHARE, seed=seed)
    buckets.build(f"--input={scheme}://photos", f"--output={output}", *FLAGS)
    disturbed = server.disturbed
    server.forget_faults()
    print(f"seed {seed}: {disturbed} of {len(server.requests) - before} requests")
    assert disturbed > 5
    assert buckets.content_of(output) == expected
    assert scheme == "gs" or not buckets.uploads_left(server)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_storm_slows_a_build_down_and_only_time_ends_it(server, scheme, expected, monkeypatch, seed):
    output, after = f"{scheme}://datasets/storm-{seed}", random.Random(seed).randrange(10, 90)
    words = [f"--input={scheme}://photos", f"--output={output}", *FLAGS]
    server.storm(600, after=after)
    monkeypatch.setenv("BEAM_TFRECORDS_RETRY_SECONDS", "2")
    process = buckets.start(*words)
    _, err = process.communicate(timeout=300)
    assert (process.returncode, "does not answer" in err) == (1, True), err
    server.forget_faults()
    server.storm(5, after=after)
    monkeypatch.setenv("BEAM_TFRECORDS_RETRY_SECONDS", "30")
    buckets.build(*words)
    server.forget_faults()
    assert buckets.content_of(output) == expected


@pytest.mark.nightly
@pytest.mark.parametrize("seconds", [20, 60, 180])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_long_storm_is_outlived_within_two_minutes(server, scheme, expected, monkeypatch, seed, seconds):
    output, after = f"{scheme}://datasets/storm-{seconds}-{seed}", random.Random(seed).randrange(10, 60)
    words = [f"--input={scheme}://photos", f"--output={output}", *FLAGS]
    monkeypatch.delenv("BEAM_TFRECORDS_RETRY_SECONDS", raising=False)
    server.storm(seconds, after=after)
    process = buckets.start(*words)
    _, err = process.communicate(timeout=600)
    if seconds < 120:
        assert process.returncode == 0, err
    else:
        assert (process.returncode, "does not answer" in err) == (1, True), err
        # What is left of the storm, the next launch outlives.
        buckets.build(*words)
    server.forget_faults()
    assert buckets.content_of(output) == expected


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("kind", "statuses"),
    [(Kind.REFUSE, [429]), (Kind.REFUSE, [503]), (Kind.RESET, [503]), (Kind.SHORT, [503]), (Kind.CUT, [503])],
    ids=["429", "503", "reset", "wrong length", "right length"],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_three_of_ten_requests_fail_in_one_way(server, scheme, expected, seed, kind, statuses):
    output = f"{scheme}://datasets/{kind.name}-{statuses[0]}-{seed}"
    server.disturb(0.3, seed=seed, kinds=[kind], statuses=statuses)
    buckets.build(f"--input={scheme}://photos", f"--output={output}", *FLAGS)
    assert server.disturbed > 20
    server.forget_faults()
    assert buckets.content_of(output) == expected
    assert scheme == "gs" or not buckets.uploads_left(server)


@pytest.mark.parametrize("seed", SEEDS)
def test_versions_are_built_and_removed(server, scheme, tmp_path, seed):
    root, output = f"{scheme}://tables/changing-{seed}", f"{scheme}://datasets/versions-{seed}"
    words = [f"--input={root}", f"--output={output}", "--name=photos", "--image_size=64", "--versioned"]
    words += ["--keep_versions=1", "--grace=0s", "--guard=off"]
    buckets.upload(PHOTOS, root)
    server.disturb(SHARE, seed=seed)
    buckets.build(*words)
    server.forget_faults()
    if scheme == "s3":  # the same bytes, written later
        buckets.upload(PHOTOS / "cat", f"{root}/cat")
    assert "nothing has changed" in buckets.build(*words)
    buckets.delete(f"{root}/cat/cat_01.jpg")
    # Other bytes behind the end of the image: not a duplicate.
    new = (PHOTOS / "space/space_01.jpg").read_bytes() + b"new"
    buckets.write(f"{root}/rocket/new.jpg", new)
    server.disturb(SHARE, seed=seed)
    out = buckets.build(*words)
    server.forget_faults()
    assert "copied 41, reserialized 0, changed 0, added 1, removed 1" in out
    latest = buckets.read(f"{output}/LATEST").decode().strip()
    assert {name.split("/")[0] for name in buckets.files_of(output)} == {latest, "LATEST", "UNCHANGED"}
    assert "nothing has changed" in buckets.build(*words)
    status = subprocess.run(
        [buckets.PROGRAM, "status", f"--output={output}", "--json"], capture_output=True, check=True
    )
    found = json.loads(status.stdout)
    assert (found["state"], found["latest"], len(found["versions"])) == ("idle", latest, 1)
    shutil.copytree(PHOTOS, tmp_path / "in")
    (tmp_path / "in/cat/cat_01.jpg").unlink()
    (tmp_path / "in/rocket/new.jpg").write_bytes(new)
    buckets.build(f"--input={tmp_path}/in", f"--output={tmp_path}/out", *words[2:4])
    found = buckets.content_of(f"{output}/{latest}")
    del found["changes.json"]
    assert found == buckets.content_of(f"{tmp_path}/out")
