"""`verify`: what is missing, extra, truncated, edited or wrong is named with its file, record and offset."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import math
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords import BuildError, RequestError
from beam_tfrecords import build as build_in_python
from beam_tfrecords import verify as find
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.each import each
from tests.framing import Example, framed, records_of
from tests.pictures import picture
from tests.trees import write_tree
from tests.writers import MEANING, WRITERS

SEED = 20_240_301
# Number of a record, its index row and its example -> what the record becomes; None leaves it.
Change = Callable[[int, dict[str, Any], Example], bytes | None]
FLAGS = ["--name=pets", "--splits=train=0.7,test=0.3", "--image_size=16x20", "--resize_mode=exact", "--num_shards=2"]
BOTH = {"text": "label.name", "number": "label.index", "texts": "labels.name", "numbers": "labels.index"}
FLOATS = {"height": {"field": "image.height", "type": "float"}, "label": {"field": "label.index", "type": "float"}}
MORE: Mapping[str, list[str]] = {
    "plain": [], "gzip": ["--compression=gzip"], "raw": ["--layout=raw", "--image_encoding=raw"],
    "tutorial": ["--layout=tutorial"], "another": ["--seed=1"],
}  # fmt: skip


class Datasets(dict[str, Path]):
    """Name -> dataset, built when it is first asked for."""

    def __init__(self, folder: Path, build: Callable[..., Path]) -> None:
        super().__init__()
        self.folder, self._build = folder, build
        write_tree(folder / "pets", "cat/{10..29}.png dog/{30..49}.png", size="30x24")

    def __missing__(self, name: str) -> Path:
        if name in MORE:
            self[name] = self._build(self.folder / name, f"--input={self.folder / 'pets'}", *FLAGS, *MORE[name])
        else:
            fields = {"both": {"image": "image.encoded", **BOTH}, "floats": {"image": "image.encoded", **FLOATS}}
            settings = {"input": self.folder / "pets", "layout": fields.get(name)}
            if name == "boxes":
                settings = {**WRITERS["coco"].write(self.folder, MEANING), "layout": "detection"}
            self[name] = Path(build_in_python(output=self.folder / name, num_shards=1, quiet=True, **settings).path)
        return self[name]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory, build) -> Datasets:
    """40 pictures as datasets of several kinds; read only."""
    return Datasets(tmp_path_factory.mktemp("verify"), build)


@pytest.fixture
def damaged(datasets, tmp_path) -> Callable[..., Path]:
    """Copies a dataset, to be damaged."""
    return lambda name="plain": Path(shutil.copytree(datasets[name], tmp_path / name))


@pytest.mark.any_workers
@pytest.mark.parametrize("name", ["plain", "gzip", "raw", "tutorial"])
def test_a_good_dataset_is_verified_wherever_it_is_and_whatever_is_beside_it(datasets, damaged, verify, name):
    ran = verify(datasets[name])
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"OK: 40 records in 4 shards of {datasets[name]} verified\n"
    moved = damaged(name)
    (moved / "notes.md").write_text("mine")
    rewrite(moved, 0)
    assert find(moved) == []


# Files.


def _cut(place: Callable[[list[dict[str, Any]]], int]) -> Callable[[Path], None]:
    def do(path: Path) -> None:
        rows = pq.read_table(path / SECOND_INDEX).to_pylist()
        (path / SECOND).write_bytes((path / SECOND).read_bytes()[: place(rows)])

    return do


def _edit(name: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    def do(path: Path) -> None:
        data = (path / name).read_bytes()
        assert old in data
        (path / name).write_bytes(data.replace(old, new, 1))

    return do


def _remove(name: str) -> Callable[[Path], None]:
    return lambda path: (path / name).unlink()


def _write(name: str, content: bytes) -> Callable[[Path], Any]:
    return lambda path: (path / name).write_bytes(content)


def _swap(path: Path) -> None:
    (path / FIRST).rename(path / "aside")
    (path / SECOND).rename(path / FIRST)
    (path / "aside").rename(path / SECOND)


def _edit_index(path: Path) -> None:
    rows = pq.read_table(path / INDEX).to_pylist()
    rows = [{**row, "label": "dog" if row["label"] == "cat" else "cat"} for row in rows]
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(path / INDEX)), path / INDEX)


def _take(*names: str) -> Callable[[Path], None]:
    """Takes files of another build."""

    def do(path: Path) -> None:
        for name in names:
            shutil.copy(path / "another" / name, path / name)

    return do


FIRST, SECOND = "pets-test.tfrecord-00000-of-00002", "pets-test.tfrecord-00001-of-00002"
INDEX, SECOND_INDEX = "index/pets-test-00000-of-00002.parquet", "index/pets-test-00001-of-00002.parquet"
EXTRA = "pets-test.tfrecord-00002-of-00003"
DAMAGES: Mapping[str, tuple[Callable[[Path], Any], list[str]]] = {
    "a missing shard": (_remove(FIRST), [f"{FIRST}: is missing"]),
    "an extra shard": (_write(EXTRA, b""), [f"{EXTRA}: does not belong"]),
    "a cut between two records": (_cut(lambda rows: rows[2]["offset"]), [SECOND, "records", "bytes"]),
    "a cut in a header": (_cut(lambda rows: rows[2]["offset"] + 5), [f"{SECOND}, record 2 at offset"]),
    "a cut in a record": (_cut(lambda rows: rows[2]["offset"] + 50), [f"{SECOND}, record 2 at offset"]),
    "a cut in a CRC": (_cut(lambda rows: rows[2]["offset"] - 1), [f"{SECOND}, record 1 at offset"]),
    "an empty shard": (_cut(lambda rows: 0), [SECOND, "0 records", "0 bytes"]),
    "bytes after the last record": (
        lambda path: _write(FIRST, (path / FIRST).read_bytes() + b"more")(path),
        [FIRST, "record"],
    ),
    "two shards swapped": (_swap, [FIRST, SECOND, "CRC-32C"]),
    "a missing index": (_remove(INDEX), [f"{INDEX}: is missing"]),
    "an edited index": (_edit_index, [f"{INDEX}: ", "SHA-256"]),
    "an index that is not Parquet": (_write(INDEX, b"PAR1"), [f"{INDEX}: "]),
    "an edited manifest": (_edit("manifest.json", b'"seed": 0', b'"seed": 1'), ["manifest.json: has been changed"]),
    "another count": (_edit("manifest.json", b'"records": 40', b'"records": 41'), ["manifest.json: "]),
    "one space more": (_edit("manifest.json", b"{", b"{ "), ["manifest.json: has been changed"]),
    "classes in another order": (_edit("label.labels.txt", b"cat\ndog", b"dog\ncat"), ["label.labels.txt: "]),
    "edited features": (_edit("features.json", b'"uint8"', b'"uint16"'), ["features.json: "]),
    "edited shard lengths": (_edit("dataset_info.json", b'"shardLengths"', b'"lengths"'), ["dataset_info.json: "]),
    "an edited card": (_write("README.md", b"{}"), ["README.md: has been changed since it was published"]),
    "missing metadata": (_remove("features.json"), ["features.json: is missing"]),
    "an invented failure": (_write("failures.jsonl", b"{}\n"), ["failures.jsonl: "]),
    "an invented copy": (_write("duplicates.jsonl", b"{}\n"), ["duplicates.jsonl: has been changed"]),
    "a shard of another build": (_take(FIRST), [f"{FIRST}: is not the file that was published"]),
    "a shard and its index of another build": (_take(FIRST, INDEX), [f"{FIRST}: ", f"{INDEX}: "]),
}


@each("name", DAMAGES)
def test_damage_to_the_files_is_found(name, datasets, tmp_path, verify):
    path = Path(shutil.copytree(datasets["plain"], tmp_path / "plain"))
    (path / "another").symlink_to(datasets["another"])
    do, said = DAMAGES[name]
    do(path)
    ran = verify(path)
    assert ran.code == 1
    assert [word for word in said if word not in ran.out] == [], ran.out


@each("text", [None, "", "[]", "{}", "not JSON"])
def test_a_dataset_whose_manifest_cannot_be_read_is_broken(datasets, tmp_path, verify, text):
    path = Path(shutil.copytree(datasets["plain"], tmp_path / "plain"))
    (path / "manifest.json").unlink()
    if text is not None:
        (path / "manifest.json").write_text(text)
    ran = verify(path)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert "manifest.json" in ran.err


def test_a_folder_without_a_finished_dataset_is_a_wrong_request(damaged, verify):
    path = damaged()
    (path / "_SUCCESS").unlink()
    verify(path).refused("no_dataset", "output", says=["_SUCCESS"])


def test_the_limit_bounds_the_findings_that_are_printed_and_all_are_counted(damaged, verify):
    path = damaged()
    for shard in path.glob("*.tfrecord-*"):
        shard.write_bytes(b"")
    everything, some = verify(path), verify(path, "--findings=2")
    assert everything.out.splitlines()[:2] == some.out.splitlines()
    assert (everything.code, some.code, everything.err) == (1, 1, some.err)
    found = json.loads(verify(path, "--json", "--findings=1").out)
    assert (found["ok"], len(found["findings"])) == (False, 1)
    assert found["num_findings"] == len(everything.out.splitlines()) > 2
    assert found["findings"][0].keys() >= {"file", "record", "offset", "problem"}


def test_json_of_a_good_dataset(datasets, verify):
    found = json.loads(verify(datasets["plain"], "--json").out)
    assert (found["ok"], found["records"], found["findings"]) == (True, 40, [])


# Records, written with the right CRCs, sizes and hashes, so that only the check in question can find what is wrong.


def publish(path: Path, manifest: Mapping[str, Any]) -> None:
    """Writes a manifest as a build does."""
    data = json.dumps(manifest).encode()
    (path / "manifest.json").write_bytes(data)
    (path / "_SUCCESS").write_text(json.dumps({"manifest_sha256": hashlib.sha256(data).hexdigest()}))


def rewrite(path: Path, shard: int, change: Change = lambda *_: None) -> tuple[str, list[int]]:
    """Writes a shard again, with changed rows and records; returns its name, and the offsets of its records."""
    manifest = manifest_of(path)
    entry = manifest["shards"][shard]
    file, index = path / entry["file"], path / entry["index"]
    rows, schema = pq.read_table(index).to_pylist(), pq.read_schema(index)
    records, end = [], 0
    for number, (row, data) in enumerate(zip(rows, [*records_of(file)], strict=True)):
        new = change(number, row, Example.FromString(data))
        records.append(data if new is None else new)
        row |= {"offset": end, "length": len(records[-1]) + 16}
        end += row["length"]
    content = framed(*records)
    if manifest["spec"]["compression"] == "gzip":
        content = b"".join(map(gzip.compress, map(framed, records)))
    file.write_bytes(content)
    pq.write_table(pa.Table.from_pylist(rows, schema), index)
    entry["bytes"], entry["crc32c"] = len(content), f"{google_crc32c.value(content):08x}"
    entry["index_sha256"] = hashlib.sha256(index.read_bytes()).hexdigest()
    split = entry["split"]
    manifest["splits"][split]["bytes"] = sum(one["bytes"] for one in manifest["shards"] if one["split"] == split)
    publish(path, manifest)
    return entry["file"], [row["offset"] for row in rows]


def changed(values: Mapping[str, Any], row: Mapping[str, Any]) -> Callable[[dict[str, Any], Example], bytes]:
    """Returns what gives features other values, or removes them, or makes them of old values; and changes a row."""

    def change(found: dict[str, Any], example: Example) -> bytes:
        found |= row
        for name, new in values.items():
            feature = example.features.feature[name]
            kind = feature.WhichOneof("kind") or "int64_list"
            old = list(getattr(feature, kind).value)
            del example.features.feature[name]
            new = new(old) if callable(new) else new
            if new is not None:
                kind = "float_list" if new and isinstance(new[0], float) else kind
                getattr(example.features.feature[name], kind).value.extend(new)
        return example.SerializeToString(deterministic=True)

    return change


def _another(old: list[Any]) -> list[Any]:
    """Returns another class of the dataset in the place of the first."""
    words, numbers = (b"cat", b"dog"), (0, 1) if 0 in old or len(old) == 1 else (1, 2)
    first = words if isinstance(old[0], bytes) else numbers
    return [first[1] if old[0] != first[1] else first[0], *old[1:]]


def _unknown(old: list[Any]) -> list[Any]:
    return [b"unheard of" if isinstance(old[0], bytes) else 77, *old[1:]]


def _other_label(old: list[int]) -> list[int]:
    return [1 - old[0]]


# Dataset, features with other values, changes of the index row, and what is said.
BAD: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    ("plain", {"label": [2]}, {}, ["label 2", "2 classes"]),
    ("plain", {"label": [-1]}, {}, ["label is None", "index"]),
    ("plain", {"label": _other_label}, {}, ["label", "index"]),
    ("plain", {"label": None}, {}, ["'label' is missing"]),
    ("plain", {"label": [1.0]}, {}, ["'label'", "float", "int64"]),
    ("plain", {"label": [1, 1]}, {}, ["'label'", "2 values"]),
    ("plain", {"label": []}, {}, ["'label'"]),
    ("plain", {"more": [1]}, {}, ["'more'"]),
    ("plain", {"image": [b"not an image"]}, {}, ["the image does not decode"]),
    ("plain", {"image": [b""]}, {}, ["the image does not decode"]),
    ("plain", {"image": [picture("red 20x16", "x.jpg")[:-100]]}, {}, ["the image does not decode"]),
    ("plain", {"image": [picture("red 16x20", "x.jpg")]}, {}, ["height 20", "16"]),
    ("plain", {}, {"height": 15}, ["height 16", "15"]),
    ("plain", {}, {"label": "bird"}, ["label", "bird"]),
    ("tutorial", {"height": [17]}, {}, ["height 17", "16"]),
    ("raw", {"image_raw": [bytes(16 * 20 * 3 - 1)]}, {}, ["959 bytes", "16 x 20"]),
    *(("both", {name: change}, {}, [repr(name)]) for name in BOTH for change in (_another, _unknown)),
    *(("both", {name: change}, {}, []) for name in ("texts", "numbers") for change in (lambda _: [], lambda v: v * 2)),
    *(("both", {}, {"label": label}, ["the index says"]) for label in (None, "no class", "bird")),
    *(
        ("boxes", {f"image/object/class/{name}": change}, {}, [f"'image/object/class/{name}'"])
        for name in ("text", "label")
        for change in (_another, _unknown)
    ),
    ("boxes", {}, {"objects": 9}, ["the index says 9"]),
    *(("floats", {"label": [label]}, {}, ["is outside the 2 classes"]) for label in (0.5, 2.0, math.nan)),
    # -1 stands for a missing label, which the index of this record has.
    ("floats", {"label": [-1.0]}, {}, ["the label is None; the index says"]),
]


@each("name, values, row, said", BAD, ids=lambda one: f"{one[0]} {one[3]}")
def test_a_bad_record_is_found_with_its_number_and_offset(name, values, row, said, datasets, tmp_path):
    path = Path(shutil.copytree(datasets[name], tmp_path / name))
    change = changed(values, row)
    shard, at = (2, 3) if name in MORE else (0, 1)
    file, offsets = rewrite(path, shard, lambda number, found, one: change(found, one) if number == at else None)
    findings = find(path)
    assert {one.partition(": ")[0] for one in findings} == {f"{file}, record {at} at offset {offsets[at]}"}
    text = "\n".join(findings)
    assert [word for word in said if word not in text] == [], text


@each("data, said", [(b"\xff\xff\xff", "tf.train.Example"), (b"", "missing")])
def test_bytes_that_are_no_example_are_found(data, said, datasets, tmp_path):
    path = Path(shutil.copytree(datasets["plain"], tmp_path / "plain"))
    file, offsets = rewrite(path, 2, lambda number, *_: data if number == 3 else None)
    findings = find(path)
    assert {one.partition(": ")[0] for one in findings} == {f"{file}, record 3 at offset {offsets[3]}"}
    assert said in findings[0]


def test_every_feature_of_objects_has_as_many_values(datasets, damaged):
    path = damaged("boxes")
    for name in manifest_of(path)["spec"]["layout"]:
        for change in (lambda values: values[:-1], lambda values: [*values, values[-1]]):
            shutil.rmtree(path)
            shutil.copytree(datasets["boxes"], path)
            edit = changed({name: change}, {})
            rewrite(path, 0, lambda number, row, one, edit=edit: edit(row, one) if number == 1 else None)
            found = any(repr(name) in finding for finding in find(path))
            assert found or not name.startswith("image/object/"), name


def test_the_command_names_every_bad_record_of_every_shard(damaged, verify):
    path, edit, expected = damaged("gzip"), changed({"label": [7]}, {}), []
    for number in (0, 3):
        file, offsets = rewrite(path, number, lambda at, row, one: edit(row, one) if at % 2 else None)
        expected += [f"{file}, record {at} at offset {offsets[at]}: " for at in range(1, len(offsets), 2)]
    ran = verify(path)
    lines = ran.out.splitlines()
    assert (ran.code, [line[: line.index(": ") + 2] for line in lines]) == (1, expected)
    assert all("label 7" in line for line in lines)


def test_index_rows_that_point_elsewhere_are_found(damaged):
    path = damaged()
    manifest = manifest_of(path)
    shard = manifest["shards"][0]
    rows = pq.read_table(path / shard["index"]).to_pylist()
    rows[1]["offset"] += 1
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(path / shard["index"])), path / shard["index"])
    shard["index_sha256"] = hashlib.sha256((path / shard["index"]).read_bytes()).hexdigest()
    publish(path, manifest)
    (finding,) = find(path)
    assert finding.startswith(f"{shard['file']}, record 1 at offset {rows[1]['offset'] - 1}: ")


# Flipped bits and edited bytes.


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


@pytest.mark.parametrize("count", [20, pytest.param(150, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", ["plain", "gzip"])
def test_every_flipped_bit_of_a_shard_is_found_and_the_first_record_is_named(damaged, name, count):
    path, random = damaged(name), np.random.default_rng(SEED)
    shards = manifest_of(path)["shards"]
    for _ in range(count):
        shard = shards[random.integers(len(shards))]
        bit = int(random.integers(8 * shard["bytes"]))
        flip(path / shard["file"], bit)
        findings = find(path)
        flip(path / shard["file"], bit)
        assert {re.split("[,:]", one)[0] for one in findings} == {shard["file"]}, f"bit {bit} (seed {SEED})"
        if name == "plain":
            rows = pq.read_table(path / shard["index"]).to_pylist()
            (at,) = (n for n, row in enumerate(rows) if 0 <= bit // 8 - row["offset"] < row["length"])
            assert f", record {at} at offset {rows[at]['offset']}: " in findings[0], f"bit {bit} (seed {SEED})"
    assert find(path) == []


@pytest.mark.any_workers
def test_the_command_continues_after_the_first_finding(damaged, verify):
    path = damaged()
    shards, expected = manifest_of(path)["shards"], []
    for shard in (shards[0], shards[2]):
        rows = pq.read_table(path / shard["index"]).to_pylist()
        # In the length, and in the middle of the data.
        for number, place in ((1, 0), (3, rows[3]["length"] // 2)):
            flip(path / shard["file"], 8 * (rows[number]["offset"] + place))
            expected.append(f"{shard['file']}, record {number} at offset {rows[number]['offset']}: ")
    (path / shards[3]["index"]).unlink()
    ran = verify(path)
    assert ran.code == 1
    assert [line for line in [*expected, f"{shards[3]['index']}: is missing"] if line not in ran.out] == []
    assert re.search(r"\d+ findings", ran.err)


def edits(original: bytes) -> Iterator[bytes]:
    """Yields a manifest with an edited byte, 300 times, and without each of its keys."""
    random = np.random.default_rng(SEED)
    for _ in range(300):
        data, at = bytearray(original), int(random.integers(len(original)))
        data[at] = int(random.integers(32, 127)) if random.integers(2) else data[at] ^ 1
        yield bytes(data)

    def without_keys(value: Any) -> Iterator[Any]:
        for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            if isinstance(value, dict):
                yield {name: one for name, one in value.items() if name != key}
            for inner in without_keys(value[key]):
                copy = value.copy()
                copy[key] = inner
                yield copy

    yield from (json.dumps(one).encode() for one in without_keys(json.loads(original)))


@pytest.mark.nightly
def test_every_edit_of_the_manifest_is_found_or_makes_it_unreadable(damaged):
    path = damaged()
    original = (path / "manifest.json").read_bytes()
    for data in edits(original):
        (path / "manifest.json").write_bytes(data)
        with contextlib.suppress(BuildError, RequestError):
            assert data == original or find(path), data
