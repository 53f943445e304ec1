"""TFRecord files whose bytes are too many or too unusual for the YAML of cases."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections import Counter
from pathlib import Path

import apache_beam as beam
import pytest

from beam_tfrecords import build
from tests.framing import example_of, framed
from tests.pictures import picture
from tests.published import Published, read_published
from tests.writers import save

PICTURE = picture("red 6x5")


def publish(folder: Path, **settings: object) -> Published:
    dataset = build(
        **{"input": f"{folder}/in", "output": f"{folder}/out", "source": "tfrecord", "quiet": True, **settings}
    )
    return read_published(dataset.path)


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zlib.compress], ids=["plain", "gzip", "zlib"])
def test_large_records_are_read_whole(compress, tmp_path):
    """Records of zeros: the decompressor has output left when its input is used up."""
    examples = [
        {"image": PICTURE, "zeros": bytes(200_000)},
        {"image": PICTURE},
        {"image": PICTURE, "x": bytes(256_000)},
    ]
    save(tmp_path / "in", compress(framed(*map(example_of, examples))))
    records = sorted(publish(tmp_path, layout="same").records, key=lambda one: one.key)
    assert [{name: value for name, [value] in one.values.items()} for one in records] == examples


def test_a_record_of_a_length_that_looks_like_gzip_is_not_compressed(tmp_path):
    features = {"image": PICTURE, "filler": b""}
    while len(example := example_of(features)) < 0x88B1F:  # longer by what is missing; lengths have lengths too
        features["filler"] += bytes(max(1, 0x88B1F - len(example) - 12))
    assert struct.pack("<Q", len(example))[:3] == b"\x1f\x8b\x08"
    save(tmp_path / "in", framed(example))
    assert len(publish(tmp_path, layout="image").records) == 1


def test_what_beam_writes_for_tfx_is_found(tmp_path):
    """TFX's WriteSplit is this transform with this prefix and this suffix."""
    for split, count in (("train", 3), ("eval", 2)):
        with beam.Pipeline() as pipeline:
            prefix = f"{tmp_path}/in/Split-{split}/data_tfrecord"
            examples = beam.Create([example_of({"image": PICTURE})] * count)
            pipeline | examples | beam.io.WriteToTFRecord(prefix, file_name_suffix=".gz")
    assert Counter(one.split for one in publish(tmp_path, layout="image").records) == {"train": 3, "validation": 2}
