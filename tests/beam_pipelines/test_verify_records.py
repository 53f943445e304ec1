"""`verify`: a bad record is named with its number and offset."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import pyarrow.parquet as pq
import pytest
from PIL import Image

from beam_tfrecords.features.example_pb2 import Example
from beam_tfrecords.tfrecord import FRAME_BYTES, open_stream, read_records
from beam_tfrecords.transforms.parts import PartPolicy, PartWriter
from tests.beam_pipelines.dataset_checks import find_all, manifest_of
from tests.transforms.part_writing import add_row


def publish_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """Writes a manifest as a build does."""
    data = json.dumps(manifest, indent=2).encode()
    (path / "manifest.json").write_bytes(data)
    (path / "_SUCCESS").write_text(json.dumps({"manifest_sha256": hashlib.sha256(data).hexdigest()}))


def rewrite_shard(
    path: Path, number: int, change: Callable[[int, dict, Example], bytes | None]
) -> tuple[str, list[int]]:
    """Writes a shard again with changed records, and all hashes, sizes and offsets as a build does.

    Args:
      path: the dataset.
      number: of the shard in the manifest.
      change: from a record's number, index row and example to new bytes, or None to keep it; may change the row.

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
        add_row(writer, data, {name: value for name, value in row.items() if name not in ("offset", "length")})
        offsets.append(end)
        end += len(data) + FRAME_BYTES
    (part,) = writer.close()
    shutil.move(part.uri, path / shard["file"])
    shutil.move(part.index, path / shard["index"])
    (path / "new").rmdir()
    shard["bytes"] = part.bytes
    shard["crc32c"] = f"{google_crc32c.value((path / shard['file']).read_bytes()):08x}"
    shard["index_sha256"] = hashlib.sha256((path / shard["index"]).read_bytes()).hexdigest()
    manifest["splits"][shard["split"]]["bytes"] = sum(
        one["bytes"] for one in manifest["shards"] if one["split"] == shard["split"]
    )
    publish_manifest(path, manifest)
    return shard["file"], offsets


def with_feature(example: Example, name: str, **values: list[Any]) -> bytes:
    """The example with other values of one feature; without the feature if no values are given."""
    example.features.feature.pop(name, None)
    for kind, value in values.items():
        getattr(example.features.feature[name], kind).value.extend(value)
    return example.SerializeToString(deterministic=True)


def jpeg(height: int, width: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(file, "JPEG")
    return file.getvalue()


def test_a_shard_that_is_only_written_again_has_no_findings(damaged, datasets):
    for name in ("plain", "gzip"):
        path = damaged(name)
        rewrite_shard(path, 0, lambda *_: None)
        assert find_all(path) == []


# Records written with the right CRCs, sizes and hashes, so that only the check in question can find them


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
    "a label below the class names": (
        "plain",
        lambda _, e: with_feature(e, "label", int64_list=[-1]),
        ["label is None", "index"],
    ),
    "another label than in the index": ("plain", _other_label, ["label", "index"]),
    "bytes that are not an image": (
        "plain",
        lambda _, e: with_feature(e, "image", bytes_list=[b"not an image"]),
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
    "an extra feature": ("plain", lambda _, e: with_feature(e, "more", int64_list=[1]), ["'more'"]),
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
    "bytes that are not an example": ("plain", lambda *_: b"\xff\xff\xff", ["tf.train.Example"]),
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
