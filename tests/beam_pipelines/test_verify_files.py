"""`verify`: files that are missing, extra, truncated, swapped or edited are named."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.beam_pipelines.dataset_checks import manifest_of


@dataclasses.dataclass(frozen=True)
class Damage:
    """Something done to a dataset, and what the command must print about it."""

    do: Callable[[Path, list[dict]], None]
    said: list[str]


def _truncate(at: Callable[[list[dict]], int]) -> Callable[[Path, list[dict]], None]:
    def do(path: Path, shards: list[dict]) -> None:
        rows = pq.read_table(path / shards[1]["index"]).to_pylist()
        file = path / shards[1]["file"]
        file.write_bytes(file.read_bytes()[: at(rows)])

    return do


def _edit_index(path: Path, shards: list[dict]) -> None:
    table = pq.read_table(path / shards[0]["index"])
    labels = ["dog" if label == "cat" else "cat" for label in table["label"].to_pylist()]
    pq.write_table(
        table.set_column(table.schema.get_field_index("label"), "label", [labels]), path / shards[0]["index"]
    )


def _swap(path: Path, shards: list[dict]) -> None:
    one, other = path / shards[0]["file"], path / shards[1]["file"]
    one.rename(path / "aside")
    other.rename(one)
    (path / "aside").rename(other)


def _edit(name: str, old: str, new: str) -> Callable[[Path, list[dict]], None]:
    def do(path: Path, shards: list[dict]) -> None:
        text = (path / name).read_text()
        assert old in text
        (path / name).write_text(text.replace(old, new, 1))

    return do


FIRST, SECOND = "pets-test.tfrecord-00000-of-00002", "pets-test.tfrecord-00001-of-00002"
INDEX = "index/pets-test-00000-of-00002.parquet"
DAMAGES = {
    "a missing shard": Damage(lambda path, _: (path / FIRST).unlink(), [f"{FIRST}: is missing"]),
    "an extra shard": Damage(
        lambda path, _: shutil.copy(path / FIRST, path / "pets-test.tfrecord-00002-of-00003") and None,
        ["pets-test.tfrecord-00002-of-00003: does not belong"],
    ),
    "a shard truncated between two records": Damage(
        _truncate(lambda rows: rows[2]["offset"]), [SECOND, "records", "bytes"]
    ),
    "a shard truncated in a header": Damage(
        _truncate(lambda rows: rows[2]["offset"] + 5), [f"{SECOND}, record 2 at offset"]
    ),
    "a shard truncated in a record": Damage(
        _truncate(lambda rows: rows[2]["offset"] + 50), [f"{SECOND}, record 2 at offset"]
    ),
    "a shard truncated in a CRC": Damage(
        _truncate(lambda rows: rows[2]["offset"] - 1), [f"{SECOND}, record 1 at offset"]
    ),
    "an empty shard": Damage(_truncate(lambda rows: 0), [SECOND, "0 records", "0 bytes"]),
    "bytes after the last record": Damage(
        lambda path, _: (path / FIRST).write_bytes((path / FIRST).read_bytes() + b"more"), [FIRST, "record"]
    ),
    "two shards swapped": Damage(_swap, [FIRST, SECOND, "CRC-32C"]),
    "a missing index": Damage(lambda path, _: (path / INDEX).unlink(), [f"{INDEX}: is missing"]),
    "an edited index": Damage(_edit_index, [f"{INDEX}: ", "SHA-256"]),
    "an index that is not Parquet": Damage(lambda path, _: (path / INDEX).write_bytes(b"PAR1"), [f"{INDEX}: "]),
    "an edited manifest": Damage(_edit("manifest.json", '"seed": 0', '"seed": 1'), ["manifest.json: has been changed"]),
    "a manifest with another count": Damage(
        _edit("manifest.json", '"records": 40', '"records": 41'), ["manifest.json: "]
    ),
    "a manifest with one space more": Damage(_edit("manifest.json", "{", "{ "), ["manifest.json: has been changed"]),
    "class names in another order": Damage(_edit("label.labels.txt", "cat\ndog", "dog\ncat"), ["label.labels.txt: "]),
    "edited features": Damage(_edit("features.json", '"uint8"', '"uint16"'), ["features.json: "]),
    "edited shard lengths": Damage(_edit("dataset_info.json", '"shardLengths"', '"lengths"'), ["dataset_info.json: "]),
    "missing metadata": Damage(lambda path, _: (path / "features.json").unlink(), ["features.json: is missing"]),
    "an invented failure": Damage(
        lambda path, _: (path / "failures.jsonl").write_text("{}\n") and None, ["failures.jsonl: "]
    ),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_to_the_files_is_found(damage, damaged, verify):
    path = damaged()
    damage.do(path, manifest_of(path)["shards"])
    ran = verify(path)
    assert ran.code == 1
    assert [word for word in damage.said if word not in ran.out] == [], ran.out


def test_a_shard_from_another_build_is_found(damaged, datasets, verify):
    path = damaged()
    shutil.copy(datasets["another"] / FIRST, path / FIRST)
    ran = verify(path)
    assert ran.code == 1
    assert f"{FIRST}: is not the file that was published" in ran.out


def test_a_shard_with_its_index_from_another_build_is_found(damaged, datasets, verify):
    path = damaged()
    for file in (FIRST, INDEX):
        shutil.copy(datasets["another"] / file, path / file)
    ran = verify(path)
    assert ran.code == 1
    assert f"{FIRST}: " in ran.out
    assert f"{INDEX}: " in ran.out


def test_the_limit_bounds_the_findings_that_are_printed_and_all_are_counted(damaged, verify):
    path = damaged()
    for shard in manifest_of(path)["shards"]:
        (path / shard["file"]).write_bytes(b"")
    everything, some = verify(path), verify(path, "--findings=2")
    assert len(some.out.splitlines()) == 2
    assert everything.out.splitlines()[:2] == some.out.splitlines()
    assert everything.err == some.err
    assert (everything.code, some.code) == (1, 1)
