"""Datasets with very many shards, which are listed in `shards.parquet`: they read like any other."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords import BuildError, open_dataset
from tests.beam_pipelines.dataset_checks import manifest_of, shards_of
from tests.core.storage.dictionary_files import DictionaryFiles
from tests.refusals import refuses
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow

FLAGS = ["--image_size=16", "--num_shards=7", "--splits=train=0.75,test=0.25"]
MOST = "beam_tfrecords.dataset.manifest.MOST_LISTED_SHARDS"


@pytest.fixture(scope="module")
def few_are_many():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MOST, 13)
        yield


@pytest.fixture(scope="module")
def listed(tmp_path_factory, photos, build) -> Path:
    return build(tmp_path_factory.mktemp("listed") / "out", f"--input={photos}", *FLAGS, "--reuse=none")


@pytest.fixture(scope="module")
def stored(listed, tmp_path_factory, photos, build, few_are_many) -> Path:
    """The same dataset, with the list of its 14 shards beside the manifest."""
    return build(tmp_path_factory.mktemp("stored") / "out", f"--input={photos}", *FLAGS, "--reuse=none")


@pytest.fixture
def copied(stored, tmp_path) -> Path:
    return Path(shutil.copytree(stored, tmp_path / "copied"))


def test_only_a_dataset_with_very_many_shards_has_a_list_beside_its_manifest(listed, stored):
    assert not (listed / "shards.parquet").exists()
    one, other = manifest_of(listed), manifest_of(stored)
    assert (one["format"], other["format"], "shards" in other) == (1, 1, False)
    others = {name: one["files"][name] for name in ("croissant.json", "dataset_info.json", "features.json")}
    assert others.items() <= other["files"].items()
    assert other["files"].keys() - one["files"].keys() == {"shards.parquet"}
    changed = {"files": 0, "sizes": 0, "shards": one["shards"]}
    assert {**one, **changed} == {**other, **changed}
    rows = pq.read_table(stored / "shards.parquet").to_pylist()
    assert [{name: row[name] for name in one["shards"][0]} for row in rows] == one["shards"]
    assert shards_of(listed) == shards_of(stored)


def _records(split: str) -> Callable[[Path], Any]:
    def read(path: Path) -> Any:
        records = open_dataset(path).records(split)
        assert records.digest == pickle.loads(pickle.dumps(records)).digest
        return [records.digest, *(one["image"].tobytes() for one in records)]

    return read


def _loaded(**options: Any) -> Callable[[Path], Any]:
    split = options.pop("split", "train")
    return lambda path: [one["filename"] for one in load(path, split, decode=False, **options).as_numpy_iterator()]


# What reads a dataset -> what it finds.
READS: dict[str, Callable[[Path], Any]] = {
    "shards": lambda path: open_dataset(path).shards,
    "of a split": lambda path: [open_dataset(path).split_shards(split) for split in ("train", "test")],
    "counts": lambda path: [open_dataset(path).num_shards, open_dataset(path).find_ranges("all")],
    "repr": lambda path: repr(open_dataset(path)).splitlines()[1:],
    "files": lambda path: {*open_dataset(path).files} - {"shards.parquet"},
    **{split: _records(split) for split in ("train", "test+train", "all", "train[2:7]", "train[50%:]+test[:3]")},
    "load": _loaded(),
    "load shuffled": _loaded(shuffle=True, seed=1),
    "load a share": _loaded(num_readers=2, reader_index=1),
    "load all": _loaded(split="all"),
}


@pytest.mark.parametrize("name", READS)
def test_readers_find_the_same(listed, stored, name):
    np.testing.assert_equal(READS[name](stored), READS[name](listed))


def test_commands_say_the_same_and_a_wrong_split_is_refused(listed, stored, tmp_path, run, verify, build):
    one, other = verify(listed), verify(stored)
    assert (other.code, other.out) == (0, one.out.replace(str(listed), str(stored)))
    reports = []
    for path in (listed, stored):
        assert run("report", f"--dataset={path}").code == 0
        text = re.sub(r"written on [\d-]+", "", (path / "report.html").read_text())
        reports.append(text.replace(str(path), ""))
    assert reports[0] == reports[1]
    built = [build(tmp_path / path.parent.name, f"--input={path}", "--num_shards=1") for path in (listed, stored)]
    assert shards_of(built[0]) == shards_of(built[1])
    with refuses("unknown_split"):
        open_dataset(stored).split_shards("tset")


def test_a_store_and_compressed_shards_have_the_same_records(listed, stored, tmp_path, photos, build):
    files = {path.relative_to(stored).as_posix(): path.read_bytes() for path in stored.rglob("*") if path.is_file()}
    DictionaryFiles.calls, remote = [], "dictionary://a/out"
    DictionaryFiles.files = {f"{remote}/{name}": (data, 1.5) for name, data in files.items()}
    expected = [*open_dataset(listed).records("test+train", form="bytes")]
    assert [*open_dataset(remote).records("test+train", form="bytes")] == expected
    del DictionaryFiles.files[f"{remote}/shards.parquet"]
    with pytest.raises(BuildError, match=r"shards\.parquet"):
        open_dataset(remote)
    path = build(tmp_path / "out", f"--input={photos}", *FLAGS, "--compression=gzip")
    assert "shards" not in manifest_of(path)
    assert len([*load(path, "all", decode=False)]) == open_dataset(path).num_records


def test_versions_reuse_the_records_and_where_shards_are_listed_is_no_change(
    tmp_path, photos, convert, few_are_many, monkeypatch
):
    broken = shutil.copytree(photos, tmp_path / "in") / "cat/broken.jpg"
    broken.write_bytes(b"no image")
    flags = [f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", *FLAGS, "--versioned", "--max_failures=0.1"]
    assert convert(*flags).code == 0
    first = open_dataset(tmp_path / "out")
    assert "shards" not in first.manifest
    flags.append("--description=Other words.")
    assert convert(*flags).code == 0
    second = open_dataset(tmp_path / "out")
    assert second.path != first.path
    assert (second.manifest["reuse"]["converted"], second.shards) == (0, first.shards)
    for most in (13, 10_000):
        monkeypatch.setattr(MOST, most)
        os.utime(broken, (most, most))  # it may be an image now, so that a build is needed
        ran = convert(*flags, "--accept=all")
        assert (ran.code, open_dataset(tmp_path / "out").path) == (0, second.path), ran.err


def test_an_earlier_dataset_with_a_list_is_replaced(copied, photos, convert, monkeypatch):
    monkeypatch.setattr(MOST, 10_000)
    ran = convert(f"--input={photos}", f"--output={copied}", "--image_size=16", "--num_shards=1", "--overwrite")
    assert ran.code == 0, ran.err
    assert not (copied / "shards.parquet").exists()


# Damage.


def _flip(place: int) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[place] ^= 1
        path.write_bytes(data)

    return damage


def _publish(path: Path) -> None:
    """Publishes a dataset again, with another list of shards."""
    values = manifest_of(path.parent)
    values["files"][path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    data = json.dumps(values).encode()
    (path.parent / "manifest.json").write_bytes(data)
    (path.parent / "_SUCCESS").write_text(json.dumps({"manifest_sha256": hashlib.sha256(data).hexdigest()}))


def _set(column: str, value: Any) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        rows, schema = pq.read_table(path).to_pylist(), pq.read_schema(path)
        rows[-1][column] = value
        nullable = pa.schema([field.with_nullable(True) for field in schema])
        pq.write_table(pa.Table.from_pylist(rows, nullable), path)
        _publish(path)

    return damage


def _write(content: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_bytes(content)
        _publish(path)

    return damage


def _repeat(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table, table]), path)
    _publish(path)


def _cut(path: Path) -> None:
    pq.write_table(pq.read_table(path).slice(0, 13), path)
    _publish(path)


CHANGED, UNREADABLE = "shards.parquet is not the file that was published", "shards.parquet cannot be read"
DAMAGED: list[tuple[str, Callable[[Path], None]]] = [
    ("there is a _SUCCESS, but shards.parquet cannot be read", os.remove),
    *((CHANGED, _flip(place)) for place in (4, 900, -20)),
    *((UNREADABLE, _write(content)) for content in (b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1")),
    ("it names '../other', which is not in the dataset", _set("file", "../other")),
    ("it names '/etc/passwd', which is not in the dataset", _set("file", "/etc/passwd")),
    ("which is not in the dataset", _set("index", "index/../../other.parquet")),
    ("column records has a negative number", _set("records", -1)),
    ("column bytes has null", _set("bytes", None)),
    *(("its shards do not match the manifest's splits", one) for one in (_set("split", "test"), _repeat, _cut)),
]


@pytest.mark.parametrize(("says", "damage"), DAMAGED)
def test_a_damaged_list_is_named_by_readers_verify_and_status(copied, verify, says, damage):
    damage(copied / "shards.parquet")
    with pytest.raises(BuildError, match=re.escape(says)):
        open_dataset(copied)
    ran = verify(copied)
    assert (ran.code, "shards.parquet" in ran.err or "shards do not match" in ran.err) == (1, True)
