"""`convert`: the output, to the last file and the last byte."""

from __future__ import annotations

import hashlib
import itertools
import json
import struct
from collections import Counter
from pathlib import Path

import google_crc32c
import numpy as np
import pyarrow.parquet as pq
import pytest
from blake3 import blake3
from PIL import Image

from beam_tfrecords.tfrecord import masked_crc32c
from tests import tensorflow as tf
from tests.beam_pipelines.dataset_checks import CLASSES, EXACT, FLAGS, manifest_of, shards_of, splits_of

pytestmark = [pytest.mark.any_workers, pytest.mark.tensorflow]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture(scope="module")
def keys(pets) -> list[str]:
    """Keys of all pictures."""
    return sorted(
        str(path.relative_to(pets))
        for path in pets.rglob("*")
        if path.suffix in (".png", ".jpg") and "/." not in str(path)
    )


def test_the_output_has_these_files_and_no_other(out, snapshot):
    names = [f"pets-{split}.tfrecord-{n:05d}-of-00003" for split in ("train", "validation") for n in range(3)]
    indices = [f"index/pets-{split}-{n:05d}-of-00003.parquet" for split in ("train", "validation") for n in range(3)]
    metadata = [
        "dataset_info.json",
        "features.json",
        "label.labels.txt",
        "failures.jsonl",
        "duplicates.jsonl",
        "manifest.json",
        "report.html",
        "README.md",
        "croissant.json",
        "_SUCCESS",
    ]
    assert sorted(snapshot(out)) == sorted(["./", "index/", *names, *indices, *metadata])


def test_every_picture_is_in_one_record_as_pillow_converts_it(out, pets, keys, read):
    records = [*read(out, "train"), *read(out, "validation")]
    assert sorted(record.key for record in records) == keys
    for record in records:
        expected = np.asarray(Image.open(pets / record.key).resize((32, 24)))
        np.testing.assert_array_equal(tf.io.decode_png(record["image"]), expected, err_msg=record.key)
        assert record["label"] == CLASSES.index(record.key.split("/")[0])
        assert record["filename"].decode() == record.key.split("/")[-1]
        assert record.kinds == {"image": "bytes_list", "label": "int64_list", "filename": "bytes_list"}


def test_the_order_is_a_shuffle_of_all_classes(out, read):
    labels = [record["label"] for record in read(out, "train")]
    changes = sum(one != other for one, other in itertools.pairwise(labels))
    # In shuffled records of three equal classes, two neighbours of three differ; sorted by class, two pairs of 90 do.
    assert changes > 40


def test_index_rows_point_at_their_records_in_every_shard(out):
    for shard in manifest_of(out)["shards"]:
        data = (out / shard["file"]).read_bytes()
        read = list(tf.data.TFRecordDataset(str(out / shard["file"])).as_numpy_iterator())
        rows = pq.read_table(out / shard["index"]).to_pylist()
        assert len(rows) == len(read) == shard["records"]
        end = 0
        for row, expected in zip(rows, read, strict=True):
            assert row["offset"] == end
            end += row["length"]
            record = data[row["offset"] : end]
            length, length_crc = struct.unpack("<QI", record[:12])
            (data_crc,) = struct.unpack("<I", record[-4:])
            assert length_crc == masked_crc32c(record[:8])
            assert (length, record[12:-4], data_crc) == (len(expected), expected, masked_crc32c(expected))
        assert end == len(data)


def test_index_rows_of_gzip_shards_point_into_the_uncompressed_stream(pets, tmp_path, build):
    out = build(tmp_path / "out", f"--input={pets}", *FLAGS, *EXACT, "--compression=gzip")
    for shard in manifest_of(out)["shards"]:
        path = str(out / shard["file"])
        assert Path(path).read_bytes()[:2] == b"\x1f\x8b"
        records = list(tf.data.TFRecordDataset(path, compression_type="GZIP").as_numpy_iterator())
        rows = pq.read_table(out / shard["index"]).to_pylist()
        ends = np.cumsum([len(record) + 16 for record in records])
        assert [row["offset"] + row["length"] for row in rows] == ends.tolist()


def test_the_index_says_where_each_record_comes_from(out, pets, read):
    for record in [*read(out, "train"), *read(out, "validation")]:
        source = pets / record.key
        assert record.row["uri"] == f"{pets.name}/{record.key}"
        assert record.row["content_hash"] == blake3(source.read_bytes()).hexdigest()
        assert record.row["label"] == record.key.split("/")[0]
        assert (record.row["height"], record.row["width"]) == (24, 32)
        assert record.row["orientation"] == 1
        assert str(source.stat().st_size) in record.row["fingerprint"]
    columns = ["key", "uri", "fingerprint", "label", "offset", "length", "content_hash", "sample_hash"]
    columns += ["height", "width", "replaced_format", "source_height", "source_width", "orientation"]
    columns += [
        "kept_orientation",
        "stored_maximum",
        "brightness",
        "contrast",
        "sharpness",
        "phash",
    ]
    columns += ["objects", "objects_clipped", "objects_outside", "objects_invalid"]
    assert pq.read_schema(out / "index/pets-train-00000-of-00003.parquet").names == columns


def test_the_manifest_describes_the_dataset(out, pets):
    manifest = manifest_of(out)
    assert (manifest["format"], manifest["name"], manifest["class_names"]) == (1, "pets", CLASSES)
    assert (manifest["listed"], manifest["records"], manifest["failures"]) == (120, 120, 0)
    assert manifest["failure_reasons"] == {}
    for split, entry in manifest["splits"].items():
        shards = [shard for shard in manifest["shards"] if shard["split"] == split]
        assert entry["records"] == entry["listed"] == sum(shard["records"] for shard in shards)
        assert entry["bytes"] == sum(shard["bytes"] for shard in shards)
        assert (entry["shards"], entry["failures"]) == (3, 0)
        in_index = Counter(key.split("/")[0] for key, other in splits_of(out).items() if other == split)
        assert entry["classes"] == in_index
    for shard in manifest["shards"]:
        data = (out / shard["file"]).read_bytes()
        assert (shard["bytes"], shard["crc32c"]) == (len(data), f"{google_crc32c.value(data):08x}")
        assert "sha256" not in shard
        assert shard["index_sha256"] == sha256((out / shard["index"]).read_bytes())
    assert manifest["source_bytes"] == sum((pets / key).stat().st_size for key in splits_of(out))
    assert {"beam-tfrecords", "image-revision", "apache-beam", "Pillow", "python"} <= set(manifest["versions"])
    assert manifest["input_fingerprint"]


def test_the_manifest_has_the_spec_with_its_defaults_filled_in(out, pets):
    spec = manifest_of(out)["spec"]
    expected = {
        "input": pets.name,
        "source": "auto",
        "image_size": "24x32",
        "resize_mode": "exact",
        "resample": "bicubic",
        "upscale": True,
        "image_encoding": "png",
        "codec": "exact",
        "jpeg_quality": 95,
        "channels": 3,
        "splits": {"train": 0.75, "validation": 0.25},
        "shard_size": 150_000_000,
        "num_shards": 3,
        "compression": "none",
        "seed": 0,
        "max_failures": 0.01,
    }
    assert {name: spec[name] for name in expected} == expected
    assert {name: feature["field"] for name, feature in spec["layout"].items()} == {
        "image": "image.encoded",
        "label": "label.index",
        "filename": "filename",
    }


def test_the_spec_of_the_manifest_gives_the_same_shards_again(out, pets, tmp_path, build, monkeypatch):
    monkeypatch.chdir(pets.parent)
    (tmp_path / "spec.json").write_text(json.dumps(manifest_of(out)["spec"]))
    assert shards_of(build(tmp_path / "out", f"--spec={tmp_path / 'spec.json'}")) == shards_of(out)


def test_the_metadata_is_what_tfds_reads(out):
    info = json.loads((out / "dataset_info.json").read_text())
    assert (info["name"], info["version"], info["fileFormat"]) == ("pets", "1.0.0", "tfrecord")
    shards = manifest_of(out)["shards"]
    assert {split["name"]: split["shardLengths"] for split in info["splits"]} == {
        name: [str(shard["records"]) for shard in shards if shard["split"] == name] for name in ("train", "validation")
    }
    features = json.loads((out / "features.json").read_text())["featuresDict"]["features"]
    assert features["image"]["image"]["shape"]["dimensions"] == ["24", "32", "3"]
    assert features["label"]["classLabel"]["numClasses"] == "3"
    assert (out / "label.labels.txt").read_text(encoding="utf-8").splitlines() == CLASSES


def test_hidden_files_and_files_without_an_image_extension_are_reported(out):
    skipped = manifest_of(out)["skipped"]
    assert {kind: entry["files"] for kind, entry in skipped.items()} == {"hidden": 3, ".txt": 2, ".db": 1}
    assert sorted(skipped[".txt"]["examples"]) == ["cat/notes.txt", "list.TXT"]
