"""One image in five is bad: it is rejected with its reason, and the records of the others do not change."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from beam_tfrecords import open_dataset
from tests.make_corpus import corpus

FLAGS = ["--name=photos", "--image_size=48", "--splits=train=0.8,validation=0.2"]


@pytest.fixture(scope="module")
def bad() -> dict[str, bytes]:
    """Ten broken files of the corpus, as different as possible, each with its reason in its name."""
    cases = {f"{case.reason.value}-{name}": case.data for name, case in corpus().items() if case.reason is not None}
    names = sorted(cases)
    return {names[place * len(names) // 10]: cases[names[place * len(names) // 10]] for place in range(10)}


@pytest.fixture(scope="module")
def folders(tmp_path_factory, photos, bad) -> tuple[Path, Path]:
    """Forty photos, and the same forty with the ten broken files among them."""
    good, mixed = tmp_path_factory.mktemp("good"), tmp_path_factory.mktemp("mixed")
    for path in sorted(photos.rglob("*.jpg"))[:40]:
        for root in (good, mixed):
            target = root / path.relative_to(photos)
            target.parent.mkdir(exist_ok=True)
            shutil.copy(path, target)
    for number, (name, data) in enumerate(bad.items()):
        classes = sorted(folder for folder in mixed.iterdir())
        (classes[number % len(classes)] / name).with_suffix(".jpg").write_bytes(data)
    return good, mixed


def records(output: Path) -> dict[str, bytes]:
    """Key -> the framed record, read where the index says."""
    found = {}
    for shard in open_dataset(str(output)).shards:
        data = (output / shard.file).read_bytes()
        for row in pq.read_table(output / str(shard.index)).to_pylist():
            found[row["key"]] = data[row["offset"] : row["offset"] + row["length"]]
    return found


def test_by_default_nothing_is_published_and_the_bad_images_are_listed(folders, bad, tmp_path, convert):
    assert convert(f"--input={folders[1]}", f"--output={tmp_path}", *FLAGS).code == 3
    assert not (tmp_path / "_SUCCESS").exists()
    failures = [json.loads(line) for line in (tmp_path / "failures.jsonl").read_text().splitlines()]
    assert len(failures) == len(bad)


def test_if_that_many_may_fail_the_good_images_give_the_records_that_they_give_alone(folders, tmp_path, build):
    good, mixed = folders
    build(tmp_path / "good", f"--input={good}", *FLAGS)
    build(tmp_path / "mixed", f"--input={mixed}", *FLAGS, "--max_failures=0.3")
    manifest = open_dataset(str(tmp_path / "mixed")).manifest
    assert (manifest["listed"], manifest["records"], manifest["failures"]) == (50, 40, 10)
    for split in manifest["splits"].values():
        assert split["listed"] == split["records"] + split["failures"]
    failures = [json.loads(line) for line in (tmp_path / "mixed/failures.jsonl").read_text().splitlines()]
    for failure in failures:
        assert failure["key"].split("/")[1].startswith(failure["reason"] + "-")
    assert records(tmp_path / "mixed") == records(tmp_path / "good")
