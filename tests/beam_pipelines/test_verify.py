"""`verify`: exit code 0 only if everything holds; whatever does not is named with shard, record and offset."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from transforms.dataset import open_dataset
from transforms.errors import BuildError
from transforms.examples.example_pb2 import Example
from transforms.parts import PartPolicy, PartWriter
from transforms.tfrecord import FRAME_BYTES, open_stream, read_records
from transforms.verifying import Finding, ShardCheck, verify_files

FLAGS = ["--name=pets", "--splits=train=0.7,test=0.3", "--image_size=16x20", "--resize_mode=exact", "--num_shards=2"]
SEED = 20_240_301


@pytest.fixture(scope="module")
def pets(tmp_path_factory, picture, save) -> Path:
    root = tmp_path_factory.mktemp("verify") / "pets"
    for number in range(40):
        name = ("cat", "dog")[number % 2]
        save(root / name / f"{number}.png", picture(number, 24, 30))
    return root


@pytest.fixture(scope="module")
def datasets(pets, build) -> dict[str, Path]:
    flags = {
        "plain": [],
        "gzip": ["--compression=gzip"],
        "raw": ["--layout=raw", "--image_encoding=raw"],
        "tutorial": ["--layout=tutorial"],
        "another": ["--seed=1"],
    }
    return {name: build(pets.parent / name, f"--input={pets}", *FLAGS, *more) for name, more in flags.items()}


@pytest.fixture
def damaged(datasets, tmp_path) -> Callable[..., Path]:
    """A copy of a dataset, to be damaged."""
    return lambda name="plain": shutil.copytree(datasets[name], tmp_path / name)


@pytest.fixture
def verify(run) -> Callable[[Path], Any]:
    """Runs the command in this process."""
    return lambda path, *words: run(
        "verify", f"--dataset={path}", *words, "--direct_running_mode=in_memory", "--direct_num_workers=1"
    )


def find_all(path: Path) -> list[Finding]:
    """What the command finds, without Beam."""
    dataset = open_dataset(str(path))
    check = ShardCheck.of(dataset)
    return [*verify_files(dataset), *(finding for shard in dataset.shards for finding in check(shard))]


def manifest_of(path: Path) -> dict[str, Any]:
    return json.loads((path / "manifest.json").read_text())


def publish_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """Writes a manifest as if the build had."""
    data = json.dumps(manifest, indent=2).encode()
    (path / "manifest.json").write_bytes(data)
    (path / "_SUCCESS").write_text(json.dumps({"manifest_sha256": hashlib.sha256(data).hexdigest()}))


def rewrite_shard(
    path: Path, number: int, change: Callable[[int, dict, Example], bytes | None]
) -> tuple[str, list[int]]:
    """Writes a shard anew with changed records, and every hash, size and offset as if the build had.

    Args:
      path: the dataset.
      number: of the shard in the manifest.
      change: from a record's number, index row and example to new bytes, or None to keep it; rows may be changed.

    Returns:
      The shard's name, and the offsets of its records.
    """
    manifest = manifest_of(path)
    shard = manifest["shards"][number]
    compression = manifest["spec"]["compression"]
    rows = pq.read_table(path / shard["index"]).to_pylist()
    with open(path / shard["file"], "rb") as file:
        stored = [record.data for record in read_records(open_stream(file, compression))]
    writer = PartWriter(
        folder=str(path / "new"),
        stem="shard",
        split=shard["split"],
        block=0,
        policy=PartPolicy(),
        compression=compression,
    )
    offsets, end = [], 0
    for record, (row, data) in enumerate(zip(rows, stored, strict=True)):
        changed = change(record, row, Example.FromString(data))
        data = data if changed is None else changed
        writer.add(data, row)
        offsets.append(end)
        end += len(data) + FRAME_BYTES
    (part,) = writer.close()
    shutil.move(part.uri, path / shard["file"])
    shutil.move(part.index, path / shard["index"])
    (path / "new").rmdir()
    shard["bytes"] = part.bytes
    shard["sha256"] = hashlib.sha256((path / shard["file"]).read_bytes()).hexdigest()
    shard["index_sha256"] = hashlib.sha256((path / shard["index"]).read_bytes()).hexdigest()
    manifest["splits"][shard["split"]]["bytes"] = sum(
        one["bytes"] for one in manifest["shards"] if one["split"] == shard["split"]
    )
    publish_manifest(path, manifest)
    return shard["file"], offsets


def with_feature(example: Example, name: str, **values: list[Any]) -> bytes:
    """The example with other values of one feature; with no values, without it."""
    example.features.feature.pop(name, None)
    for kind, value in values.items():
        getattr(example.features.feature[name], kind).value.extend(value)
    return example.SerializeToString(deterministic=True)


def jpeg(height: int, width: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(file, "JPEG")
    return file.getvalue()


# Good datasets


@pytest.mark.parametrize("name", ["plain", "gzip", "raw", "tutorial"])
def test_a_good_dataset_holds(datasets, verify, name):
    ran = verify(datasets[name])
    assert (ran.code, ran.err) == (0, "")
    assert "40 records" in ran.out
    assert "4 shards" in ran.out


def test_a_dataset_that_was_moved_still_holds(datasets, verify, tmp_path):
    assert verify(shutil.copytree(datasets["plain"], tmp_path / "somewhere else")).code == 0


def test_foreign_files_in_the_folder_are_no_findings(damaged, verify):
    path = damaged()
    (path / "notes.md").write_text("mine")
    assert verify(path).code == 0


def test_the_writing_helper_of_these_tests_leaves_a_good_dataset_good(damaged, datasets):
    for name in ("plain", "gzip"):
        path = damaged(name)
        rewrite_shard(path, 0, lambda *_: None)
        assert find_all(path) == []


# Flipped bits


def flip(path: Path, file: str, bit: int) -> None:
    data = bytearray((path / file).read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    (path / file).write_bytes(data)


def random_bits(path: Path, count: int) -> Iterator[tuple[str, int]]:
    random = np.random.default_rng(SEED)
    shards = manifest_of(path)["shards"]
    for _ in range(count):
        shard = shards[random.integers(len(shards))]
        yield shard["file"], int(random.integers(8 * shard["bytes"]))


@pytest.mark.parametrize("name", ["plain", "gzip"])
def test_every_flipped_bit_of_a_shard_is_found(damaged, name):
    path = damaged(name)
    dataset = open_dataset(str(path))
    check = ShardCheck.of(dataset)
    by_file = {shard.file: shard for shard in dataset.shards}
    for file, bit in random_bits(path, 200):
        flip(path, file, bit)
        findings = list(check(by_file[file]))
        assert findings, f"bit {bit} of {file} (seed {SEED})"
        assert {finding.file for finding in findings} == {file}
        flip(path, file, bit)
    assert find_all(path) == []


def test_a_flipped_bit_is_found_with_its_record_and_offset(damaged):
    path = damaged()
    dataset = open_dataset(str(path))
    check = ShardCheck.of(dataset)
    rows = {shard.file: pq.read_table(path / shard.index).to_pylist() for shard in dataset.shards}
    by_file = {shard.file: shard for shard in dataset.shards}
    for file, bit in random_bits(path, 100):
        expected = next(
            (number, row["offset"])
            for number, row in enumerate(rows[file])
            if row["offset"] <= bit // 8 < row["offset"] + row["length"]
        )
        flip(path, file, bit)
        first = next(check(by_file[file]))
        assert (first.record, first.offset) == expected, f"bit {bit} of {file} (seed {SEED})"
        flip(path, file, bit)


@pytest.mark.parametrize("name", ["plain", "gzip"])
def test_the_command_names_the_shard_of_a_flipped_bit(damaged, verify, name):
    path = damaged(name)
    file, bit = list(random_bits(path, 7))[-1]
    flip(path, file, bit)
    ran = verify(path)
    assert ran.code == 1
    assert re.search(rf"^{re.escape(file)}, record \d+ at offset \d+: ", ran.out, re.MULTILINE), ran.out
    assert "finding" in ran.err


def test_the_command_goes_on_after_the_first_finding(damaged, verify):
    path = damaged()
    shards = manifest_of(path)["shards"]
    expected = []
    for shard in (shards[0], shards[2]):
        rows = pq.read_table(path / shard["index"]).to_pylist()
        # In the length, and in the middle of the data.
        for number, place in ((1, 0), (3, rows[3]["length"] // 2)):
            flip(path, shard["file"], 8 * (rows[number]["offset"] + place))
            expected.append(f"{shard['file']}, record {number} at offset {rows[number]['offset']}: ")
    (path / shards[3]["index"]).unlink()
    ran = verify(path)
    assert ran.code == 1
    assert [line for line in expected if line not in ran.out] == []
    assert f"{shards[3]['index']}: is missing" in ran.out


def test_no_more_findings_are_printed_than_the_limit_says_but_all_are_counted(damaged, verify):
    path = damaged()
    for shard in manifest_of(path)["shards"]:
        (path / shard["file"]).write_bytes(b"")
    everything, some = verify(path), verify(path, "--limit=2")
    assert len(some.out.splitlines()) == 2
    assert everything.out.splitlines()[:2] == some.out.splitlines()
    assert everything.err == some.err
    assert (everything.code, some.code) == (1, 1)


# Files


@dataclasses.dataclass(frozen=True)
class Damage:
    """Something done to a dataset, and what the command must say about it."""

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
    "a shard cut off between two records": Damage(
        _truncate(lambda rows: rows[2]["offset"]), [SECOND, "records", "bytes"]
    ),
    "a shard cut off in a header": Damage(
        _truncate(lambda rows: rows[2]["offset"] + 5), [f"{SECOND}, record 2 at offset"]
    ),
    "a shard cut off in a record": Damage(
        _truncate(lambda rows: rows[2]["offset"] + 50), [f"{SECOND}, record 2 at offset"]
    ),
    "a shard cut off in a CRC": Damage(
        _truncate(lambda rows: rows[2]["offset"] - 1), [f"{SECOND}, record 1 at offset"]
    ),
    "an empty shard": Damage(_truncate(lambda rows: 0), [SECOND, "0 records", "0 bytes"]),
    "bytes behind the last record": Damage(
        lambda path, _: (path / FIRST).write_bytes((path / FIRST).read_bytes() + b"more"), [FIRST, "record"]
    ),
    "two shards swapped": Damage(_swap, [FIRST, SECOND, "SHA-256"]),
    "a missing index": Damage(lambda path, _: (path / INDEX).unlink(), [f"{INDEX}: is missing"]),
    "an edited index": Damage(_edit_index, [f"{INDEX}: ", "SHA-256"]),
    "an index that is none": Damage(lambda path, _: (path / INDEX).write_bytes(b"PAR1"), [f"{INDEX}: "]),
    "an edited manifest": Damage(_edit("manifest.json", '"seed": 0', '"seed": 1'), ["manifest.json: has been changed"]),
    "a manifest with another count": Damage(
        _edit("manifest.json", '"records": 40', '"records": 41'), ["manifest.json: "]
    ),
    "a manifest with a space more": Damage(_edit("manifest.json", "{", "{ "), ["manifest.json: has been changed"]),
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


def test_whatever_is_edited_in_the_manifest_is_found_or_makes_it_unreadable(damaged):
    path = damaged()
    original = (path / "manifest.json").read_bytes()
    random = np.random.default_rng(SEED)
    for _ in range(300):
        data = bytearray(original)
        at = int(random.integers(len(data)))
        data[at] = int(random.integers(32, 127)) if random.integers(2) else data[at] ^ 1
        if data == original:
            continue
        (path / "manifest.json").write_bytes(data)
        with contextlib.suppress(BuildError):
            assert find_all(path), f"byte {at} (seed {SEED})"


# Records: written with the right CRCs, sizes and hashes, so that nothing but the check in question finds them


def one_record(number: int, change: Callable[[dict, Example], bytes]) -> Callable[[int, dict, Example], bytes | None]:
    return lambda record, row, example: change(row, example) if record == number else None


def _index_says(name: str, value: Any) -> Callable[[dict, Example], bytes]:
    def change(row: dict, example: Example) -> bytes:
        row[name] = value
        return example.SerializeToString(deterministic=True)

    return change


def _other_label(row: dict, example: Example) -> bytes:
    (label,) = example.features.feature["label"].int64_list.value
    return with_feature(example, "label", int64_list=[1 - label])


BAD_RECORDS = {
    "a label above the class names": (
        "plain",
        lambda _, e: with_feature(e, "label", int64_list=[2]),
        ["label 2", "2 classes"],
    ),
    "a label below the class names": ("plain", lambda _, e: with_feature(e, "label", int64_list=[-1]), ["label -1"]),
    "another label than in the index": ("plain", _other_label, ["label", "index"]),
    "an image that is none": (
        "plain",
        lambda _, e: with_feature(e, "image", bytes_list=[b"no image"]),
        ["the image does not decode"],
    ),
    "an empty image": ("plain", lambda _, e: with_feature(e, "image", bytes_list=[b""]), ["the image does not decode"]),
    "a truncated image": (
        "plain",
        lambda _, e: with_feature(e, "image", bytes_list=[jpeg(16, 20)[:-100]]),
        ["the image does not decode"],
    ),
    "an image of another size than in the index": (
        "plain",
        lambda _, e: with_feature(e, "image", bytes_list=[jpeg(20, 16)]),
        ["height 20", "16"],
    ),
    "a height that is not the image's": (
        "tutorial",
        lambda _, e: with_feature(e, "height", int64_list=[17]),
        ["height 17", "16"],
    ),
    "too few raw pixels": (
        "raw",
        lambda _, e: with_feature(e, "image_raw", bytes_list=[bytes(16 * 20 * 3 - 1)]),
        ["959 bytes", "16 x 20"],
    ),
    "a missing feature": ("plain", lambda _, e: with_feature(e, "label"), ["'label' is missing"]),
    "a feature too many": ("plain", lambda _, e: with_feature(e, "more", int64_list=[1]), ["'more'"]),
    "a feature of another type": (
        "plain",
        lambda _, e: with_feature(e, "label", float_list=[1]),
        ["'label'", "float", "int64"],
    ),
    "a feature of two values": (
        "plain",
        lambda _, e: with_feature(e, "label", int64_list=[1, 1]),
        ["'label'", "2 values"],
    ),
    "a feature without a value": ("plain", lambda _, e: with_feature(e, "label", int64_list=[]), ["'label'"]),
    "no example at all": ("plain", lambda *_: b"\xff\xff\xff", ["tf.train.Example"]),
    "an empty record": ("plain", lambda *_: b"", ["missing"]),
    "an index with another height": ("plain", _index_says("height", 15), ["height 16", "15"]),
    "an index with another label": ("plain", _index_says("label", "bird"), ["label", "bird"]),
}


@pytest.mark.parametrize(("name", "change", "said"), BAD_RECORDS.values(), ids=BAD_RECORDS.keys())
def test_a_bad_record_is_found_with_its_number_and_offset(name, change, said, damaged):
    path = damaged(name)
    file, offsets = rewrite_shard(path, 2, one_record(3, change))
    findings = find_all(path)
    assert findings
    assert {(finding.file, finding.record, finding.offset) for finding in findings} == {(file, 3, offsets[3])}
    text = "\n".join(map(str, findings))
    assert [word for word in said if word not in text] == [], text


def test_the_command_names_every_bad_record_of_every_shard(damaged, verify):
    path = damaged("gzip")
    expected = []
    for number in (0, 3):
        file, offsets = rewrite_shard(
            path, number, lambda record, _, e: with_feature(e, "label", int64_list=[7]) if record % 2 else None
        )
        expected += [f"{file}, record {record} at offset {offsets[record]}: " for record in range(1, len(offsets), 2)]
    ran = verify(path)
    assert ran.code == 1
    lines = ran.out.splitlines()
    assert [line[: line.index(": ") + 2] for line in lines] == expected
    assert all("label 7" in line for line in lines)


def test_index_rows_that_point_elsewhere_are_found(damaged):
    path = damaged()
    shard = manifest_of(path)["shards"][0]
    table = pq.read_table(path / shard["index"])
    offsets = table["offset"].to_pylist()
    offsets[1] += 1
    pq.write_table(table.set_column(table.schema.get_field_index("offset"), "offset", [offsets]), path / shard["index"])
    manifest = manifest_of(path)
    manifest["shards"][0]["index_sha256"] = hashlib.sha256((path / shard["index"]).read_bytes()).hexdigest()
    publish_manifest(path, manifest)
    (finding,) = find_all(path)
    assert (finding.file, finding.record, finding.offset) == (shard["file"], 1, offsets[1] - 1)


# No dataset


def test_a_folder_without_a_finished_dataset_is_a_wrong_request(datasets, damaged, verify):
    path = damaged()
    (path / "_SUCCESS").unlink()
    ran = verify(path)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "_SUCCESS" in ran.err


@pytest.mark.parametrize("text", [None, "", "[]", "{}", "no JSON"])
def test_a_dataset_whose_manifest_cannot_be_read_is_broken(damaged, verify, text):
    path = damaged()
    (path / "manifest.json").unlink()
    if text is not None:
        (path / "manifest.json").write_text(text)
    ran = verify(path)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert "manifest.json" in ran.err
