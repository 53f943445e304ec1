"""One image in five is bad: nothing of it reaches the dataset, and nothing else is touched by it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from beam_pipelines.cli import main
from tests.make_corpus import corpus
from transforms.dataset import open_dataset

PHOTOS = Path(__file__).parents[1] / "data" / "photos"
FLAGS = ["--image_size=48", "--splits=train=0.8,validation=0.2", "--direct_running_mode=in_memory"]


@pytest.fixture(scope="module")
def bad() -> dict[str, bytes]:
    """Ten broken files, as different as the corpus has them, each with its reason in its name."""
    cases = {f"{case.reason.value}-{name}": case.data for name, case in corpus().items() if case.reason is not None}
    names = sorted(cases)
    return {names[place * len(names) // 10]: cases[names[place * len(names) // 10]] for place in range(10)}


@pytest.fixture(scope="module")
def folders(tmp_path_factory, bad) -> tuple[Path, Path]:
    """Forty photos, and the same with the ten among them."""
    good, mixed = tmp_path_factory.mktemp("good"), tmp_path_factory.mktemp("mixed")
    for path in sorted(PHOTOS.rglob("*.jpg"))[:40]:
        for root in (good, mixed):
            target = root / path.relative_to(PHOTOS)
            target.parent.mkdir(exist_ok=True)
            shutil.copy(path, target)
    for number, (name, data) in enumerate(bad.items()):
        classes = sorted(folder for folder in mixed.iterdir())
        (classes[number % len(classes)] / name).with_suffix(".jpg").write_bytes(data)
    return good, mixed


def convert(folder: Path, output: Path, *flags: str) -> int:
    return main(["convert", f"--input={folder}", f"--output={output}", "--name=photos", *FLAGS, *flags])


def records(output: Path) -> dict[str, bytes]:
    """Key -> the framed record, read from where the index says."""
    found = {}
    for shard in open_dataset(str(output)).shards:
        data = (output / shard.file).read_bytes()
        for row in pq.read_table(output / str(shard.index)).to_pylist():
            found[row["key"]] = data[row["offset"] : row["offset"] + row["length"]]
    return found


def test_by_default_nothing_is_published_and_the_bad_ones_are_listed(folders, bad, tmp_path):
    assert convert(folders[1], tmp_path) == 3
    assert not (tmp_path / "_SUCCESS").exists()
    failures = [json.loads(line) for line in (tmp_path / "failures.jsonl").read_text().splitlines()]
    assert len(failures) == len(bad)


def test_if_that_many_may_fail_the_good_ones_are_written_as_if_alone(folders, bad, tmp_path):
    good, mixed = folders
    assert convert(good, tmp_path / "good") == 0
    assert convert(mixed, tmp_path / "mixed", "--max_failures=0.3") == 0
    manifest = open_dataset(str(tmp_path / "mixed")).manifest
    assert (manifest["listed"], manifest["records"], manifest["failures"]) == (50, 40, 10)
    for split in manifest["splits"].values():
        assert split["listed"] == split["records"] + split["failures"]
    failures = [json.loads(line) for line in (tmp_path / "mixed/failures.jsonl").read_text().splitlines()]
    for failure in failures:
        assert failure["key"].split("/")[1].startswith(failure["reason"] + "-")
    assert records(tmp_path / "mixed") == records(tmp_path / "good")
