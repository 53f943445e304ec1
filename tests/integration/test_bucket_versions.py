"""Versions in a bucket: copies and renamed ones stay, and LATEST never names what cannot be read."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration import buckets

pytestmark = pytest.mark.nightly

PHOTOS = Path(__file__).parents[1] / "data" / "photos"
FLAGS = ["--name=photos", "--image_size=16", "--versioned", "--guard=off", "--no_report", "--quiet"]


@pytest.fixture(params=buckets.SCHEMES)
def output(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with buckets.services(tmp_path, request.param):
        yield f"{request.param}://datasets/nightly"


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    """Photos of an input, to be left out one after the other."""
    for path in PHOTOS.glob("*/*_0[12].jpg"):
        target = tmp_path / "in" / path.relative_to(PHOTOS)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    return sorted((tmp_path / "in").glob("*/*_02.jpg"))


def latest_of(output: str) -> str:
    return buckets.read(f"{output}/LATEST").decode().strip()


def copy(source: str, target: str) -> dict[str, bytes]:
    """Copies all objects below a prefix; returns them by their names."""
    content = {name: buckets.read(f"{source}/{name}") for name in buckets.files_of(source)}
    for name, data in content.items():
        buckets.write(f"{target}/{name}", data)
    return content


def status(output: str, *words: str) -> tuple[int, dict[str, Any], str]:
    command = [buckets.PROGRAM, "status", f"--output={output}", "--json", *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.returncode, json.loads(ran.stdout or "{}"), ran.stderr


def test_copies_stay_and_latest_names_whole_versions(output: str, photos: list[Path]) -> None:
    folder = photos[0].parents[1]

    def night(*words: str, code: int = 0) -> str:
        photos.pop().unlink()
        process = buckets.start(f"--input={folder}", f"--output={output}", *FLAGS, *words)
        out, err = process.communicate(timeout=300)
        assert (process.returncode, out) == (code, ""), err
        return err

    assert night() == ""
    first = latest_of(output)
    theirs = {name: copy(f"{output}/{first}", f"{output}/{name}") for name in ("20200101T000000Z", "20990101T000000Z")}
    assert night("--keep_versions=1", "--grace=0s") == ""
    second = latest_of(output)
    code, found, _ = status(output)
    assert (code, found["not_versions"], found["notes"]) == (0, sorted(theirs), [])
    assert [version["name"] for version in found["versions"]] == [second]
    assert night() == ""
    third = latest_of(output)
    assert status(output, f"--pin={second}")[0] == 0
    (shard, *_) = [name for name in buckets.files_of(f"{output}/{second}") if ".tfrecord-" in name]
    data = buckets.read(f"{output}/{second}/{shard}")
    buckets.write(f"{output}/{second}/{shard}", data[: len(data) // 2])
    assert f"PINNED names {second}, which is damaged: " in night(code=2)
    code, found, _ = status(output)
    assert (code, found["latest"], found["latest_damage"] is None) == (1, second, False)
    code, found, _ = status(output, "--unpin")
    assert (code, found["latest"]) == (0, third)
    code, _, err = status(output, f"--pin={second}")
    assert (code, f"the newest intact version is {third}" in err) == (2, True), err
    buckets.delete(f"{output}/{third}/features.json")
    assert f"warning: {output}: LATEST names {third}, which is damaged: features.json is missing" in night()
    code, found, _ = status(output)
    assert (code, found["latest"] > third) == (0, True)
    assert {name: copy(f"{output}/{name}", f"{output}/copies/{name}") for name in theirs} == theirs
