"""Datasets with very many shards, which are listed in `shards.parquet`: they read like any other."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import pickle
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords import BuildError, open_dataset
from beam_tfrecords.dataset import manifest
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.dataset.shard_list import read_rows, write_rows
from beam_tfrecords.dataset.versions import is_whole
from beam_tfrecords.transforms.publishing.changes import History
from beam_tfrecords.transforms.stats import Stats
from tests.beam_pipelines.dataset_checks import manifest_of, shards_of
from tests.beam_tfrecords.storage.test_beam_files import DictionaryFiles
from tests.refusals import refuses
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow

FLAGS = ["--image_size=16", "--num_shards=7", "--splits=train=0.75,test=0.25", "--reuse=none"]


@pytest.fixture(scope="module")
def few_are_many():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(manifest, "MOST_LISTED_SHARDS", 13)
        yield


@pytest.fixture(scope="module")
def listed(tmp_path_factory, photos, build) -> Path:
    return build(tmp_path_factory.mktemp("listed") / "out", f"--input={photos}", *FLAGS)


@pytest.fixture(scope="module")
def stored(listed, tmp_path_factory, photos, build, few_are_many) -> Path:
    """The same dataset, with the list of its 14 shards beside the manifest."""
    return build(tmp_path_factory.mktemp("stored") / "out", f"--input={photos}", *FLAGS)


@pytest.fixture
def copied(stored, tmp_path) -> Path:
    return Path(shutil.copytree(stored, tmp_path / "copied"))


def publish(path: Path, **changed) -> None:
    """Publishes a dataset again, with another manifest and list of shards."""
    values = {**manifest_of(path), **changed}
    values["files"]["shards.parquet"] = hashlib.sha256((path / "shards.parquet").read_bytes()).hexdigest()
    data = json.dumps(values).encode()
    (path / "manifest.json").write_bytes(data)
    (path / "_SUCCESS").write_text(json.dumps({"manifest_sha256": hashlib.sha256(data).hexdigest()}))


def test_only_a_dataset_with_very_many_shards_has_a_list_beside_its_manifest(listed, stored):
    assert not (listed / "shards.parquet").exists()
    one, other = manifest_of(listed), manifest_of(stored)
    assert (one["format"], other["format"]) == (1, 1)
    assert "shards" not in other
    for values in (one, other):
        del values["sizes"]
    others = {name: one["files"][name] for name in ("croissant.json", "dataset_info.json", "features.json")}
    assert others.items() <= other["files"].items()
    assert {**one, "files": 0} == {**other, "files": 0, "shards": one["shards"]}
    assert other["files"].keys() - one["files"].keys() == {"shards.parquet"}
    rows = pq.read_table(stored / "shards.parquet").to_pylist()
    assert [{name: row[name] for name in shard} for shard, row in zip(one["shards"], rows, strict=True)] == one[
        "shards"
    ]
    assert shards_of(listed) == shards_of(stored)


def test_the_shards_and_files_are_the_same(listed, stored):
    one, other = open_dataset(listed), open_dataset(stored)
    assert other.shards == one.shards
    for split in one.splits:
        assert other.split_shards(split) == one.split_shards(split)
    assert {*other.files} - {*one.files} == {"shards.parquet"}
    assert {**other.sizes, **one.sizes} == other.sizes
    assert (other.num_shards, other.find_ranges("all")) == (one.num_shards, one.find_ranges("all"))
    assert repr(other).splitlines()[1:] == repr(one).splitlines()[1:]
    with refuses("unknown_split"):
        other.split_shards("tset")


@pytest.mark.parametrize("split", ["train", "test+train", "all", "train[2:7]", "train[50%:]+test[:3]"])
def test_records_are_the_same(listed, stored, split):
    one, other = (open_dataset(path).records(split) for path in (listed, stored))
    assert len(one) == len(other)
    assert one.digest == other.digest == pickle.loads(pickle.dumps(other)).digest
    np.testing.assert_equal(list(one), list(other))


def test_tensorflow_reads_the_same(listed, stored):
    for options in ({}, {"shuffle": True, "seed": 1}, {"num_readers": 2, "reader_index": 1}):
        a, b = (load(path, "train", decode=False, **options).as_numpy_iterator() for path in (listed, stored))
        assert [one["filename"] for one in a] == [one["filename"] for one in b]


@pytest.fixture
def remote(stored) -> str:
    """The dataset in a store."""
    files = {str(path.relative_to(stored)): path.read_bytes() for path in stored.rglob("*") if path.is_file()}
    DictionaryFiles.calls = []
    DictionaryFiles.files = {f"dictionary://a/out/{name}": data for name, data in files.items()}
    return "dictionary://a/out"


def test_a_store_has_the_same_records(listed, remote):
    expected = list(open_dataset(listed).records("test+train", form="bytes"))
    assert list(open_dataset(remote).records("test+train", form="bytes")) == expected
    del DictionaryFiles.files[f"{remote}/shards.parquet"]
    with pytest.raises(BuildError, match=r"shards\.parquet"):
        open_dataset(remote)


def test_a_compressed_dataset_reads_the_same(tmp_path, photos, build, few_are_many):
    path = build(tmp_path / "out", f"--input={photos}", *FLAGS, "--compression=gzip")
    assert "shards" not in manifest_of(path)
    assert len(list(load(path, "all", decode=False))) == open_dataset(path).num_records


def test_verify_and_report_say_the_same(listed, stored, run, verify):
    one, other = verify(listed), verify(stored)
    assert (other.code, other.out) == (0, one.out.replace(str(listed), str(stored)))
    for path in (listed, stored):
        assert run("report", f"--dataset={path}").code == 0
    reports = [re.sub(r"written on [\d-]+", "", (path / "report.html").read_text()) for path in (listed, stored)]
    assert reports[0].replace(str(listed), "") == reports[1].replace(str(stored), "")


def test_the_next_version_reuses_the_records_and_an_unchanged_one_is_not_published(
    tmp_path, photos, convert, few_are_many
):
    flags = [f"--input={photos}", f"--output={tmp_path / 'out'}", *FLAGS[:-1], "--versioned"]
    assert convert(*flags).code == 0
    first = open_dataset(tmp_path / "out")
    assert "shards" not in first.manifest
    ran = convert(*flags, "--description=Other words.")
    assert ran.code == 0, ran.err
    second = open_dataset(tmp_path / "out")
    assert second.path != first.path
    assert second.manifest["reuse"]["converted"] == 0
    assert second.shards == first.shards
    ran = convert(*flags, "--description=Other words.")
    assert (ran.code, open_dataset(tmp_path / "out").path) == (0, second.path)


def test_where_the_shards_are_listed_is_no_change(listed, stored):
    one, other = open_dataset(listed), open_dataset(stored)
    values = {**other.manifest, "spec": one.manifest["spec"]}
    values["files"] = {**values["files"], "README.md": one.manifest["files"]["README.md"]}
    is_repeated = functools.partial(History.is_repeated_by, SimpleNamespace(newest=one.ref))
    assert is_repeated(values, other.shards, Stats())
    changed = [*other.shards[:-1], dataclasses.replace(other.shards[-1], index_sha256="0" * 64)]
    assert not is_repeated(values, changed, Stats())
    assert not is_repeated(values, other.shards[:-1], Stats())


def test_a_dataset_is_the_input_of_another(listed, stored, tmp_path, build):
    built = [build(tmp_path / path.parent.name, f"--input={path}", "--num_shards=1") for path in (listed, stored)]
    assert shards_of(built[0]) == shards_of(built[1])


def test_an_earlier_dataset_with_a_list_is_replaced(copied, photos, convert, monkeypatch):
    monkeypatch.setattr(manifest, "MOST_LISTED_SHARDS", 10_000)
    ran = convert(f"--input={photos}", f"--output={copied}", "--image_size=16", "--num_shards=1", "--overwrite")
    assert ran.code == 0, ran.err
    assert not (copied / "shards.parquet").exists()


def test_a_missing_list_is_found(copied, verify):
    (copied / "shards.parquet").unlink()
    with pytest.raises(BuildError, match=r"there is a _SUCCESS, but shards\.parquet cannot be read"):
        open_dataset(copied)
    ran = verify(copied)
    assert (ran.code, "shards.parquet cannot be read" in ran.err) == (1, True)
    assert not is_whole(str(copied.parent), copied.name)


@pytest.mark.parametrize("place", [4, 900, -20])
def test_a_changed_list_is_found(copied, verify, place):
    data = bytearray((copied / "shards.parquet").read_bytes())
    data[place] ^= 1
    (copied / "shards.parquet").write_bytes(data)
    with pytest.raises(BuildError, match=r"shards\.parquet is not the file that was published"):
        open_dataset(copied)
    ran = verify(copied)
    assert (ran.code, "shards.parquet is not the file" in ran.err) == (1, True)
    assert not is_whole(str(copied.parent), copied.name)


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("file", "../other", "it names '../other', which is not in the dataset"),
        ("file", "/etc/passwd", "it names '/etc/passwd', which is not in the dataset"),
        ("index", "index/../../other.parquet", "which is not in the dataset"),
        ("records", -1, "column records has a negative number"),
        ("bytes", None, "column bytes has null"),
        ("split", "test", "its shards do not match the manifest's splits"),
    ],
)
def test_a_list_that_no_build_writes_is_refused(copied, column, value, says):
    table = pq.read_table(copied / "shards.parquet")
    values = [*table[column].to_pylist()[:-1], value]
    schema = pa.schema([field.with_nullable(True) for field in table.schema])
    place = table.schema.get_field_index(column)
    table = table.cast(schema).set_column(place, schema.field(place), pa.array(values, schema.field(place).type))
    pq.write_table(table, copied / "shards.parquet")
    publish(copied)
    with pytest.raises(BuildError, match=r"shards\.parquet cannot be read: ") as raised:
        open_dataset(copied)
    assert says in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1"])
def test_a_list_that_is_not_parquet_is_refused(copied, content):
    (copied / "shards.parquet").write_bytes(content)
    publish(copied)
    with pytest.raises(BuildError, match=r"shards\.parquet cannot be read"):
        open_dataset(copied)


def test_a_list_with_other_numbers_of_shards_is_refused(copied):
    table = pq.read_table(copied / "shards.parquet")
    for changed in (table.slice(0, 13), pa.concat_tables([table, table])):
        pq.write_table(changed, copied / "shards.parquet")
        publish(copied)
        with pytest.raises(BuildError, match="its shards do not match the manifest's splits"):
            open_dataset(copied)


shards = st.builds(
    Shard,
    split=st.sampled_from(["a", "b"]),
    number=st.integers(0, 1 << 40),
    of=st.integers(0, 1 << 40),
    file=st.text("abc-é", min_size=1),
    records=st.integers(0, 1 << 40),
    bytes=st.integers(0, 1 << 60),
    crc32c=st.text("0123456789abcdef", min_size=8, max_size=8),
    index=st.text("abc-é", min_size=1).map(lambda name: f"index/{name}.parquet"),
    index_sha256=st.text("0123456789abcdef", min_size=64, max_size=64),
    first_key=st.none() | st.text(),
    index_bytes=st.integers(0, 1 << 60),
)


@given(many=st.lists(shards, min_size=1, max_size=40))
def test_rows_are_the_shards_that_were_written(many):
    content = write_rows(many)
    assert content == write_rows(many)
    assert read_rows(content) == many
