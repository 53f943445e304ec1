"""Files that the package webdataset writes, with what it reads from them as the oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
import webdataset

from tests.integration import buckets

pytestmark = pytest.mark.nightly

PHOTOS = sorted((Path(__file__).parents[1] / "data/photos").rglob("*_0[1-4].jpg"))
CLASSES = sorted({path.parent.name for path in PHOTOS})
LAYOUT = """
layout:
  image: image.encoded
  label: label.index
  caption: {field: column.txt, type: bytes}
  year: {field: column.year, type: int64}
"""


@pytest.fixture(params=["tar", "tar.gz"])
def shards(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """Three archives of samples, by the package."""
    pattern = str(tmp_path / f"photos-%02d.{request.param}")
    with webdataset.ShardWriter(pattern, maxcount=10, verbose=0) as writer:
        for number, path in enumerate(PHOTOS):
            sample: dict[str, Any] = {"__key__": f"{path.parent.name}/{number:04d}", "jpg": path.read_bytes()}
            sample |= {"cls": CLASSES.index(path.parent.name), "txt": f"été {number}", "json": {"year": 2000 + number}}
            writer.write(sample)
    return sorted(str(path) for path in tmp_path.glob(f"*.{request.param}"))


def test_records_are_the_samples_that_the_package_reads(shards, tmp_path):
    assert len(shards) == 3
    spec = tmp_path / "spec.yaml"
    spec.write_text(f"input: {shards[0].replace('-00.', '-{00..02}.')!r}\n{LAYOUT}")
    words = [f"--spec={spec}", f"--output={tmp_path}/out", "--name=photos", "--image_encoding=keep", "--num_shards=1"]
    assert "is read as webdataset" in buckets.build(*words)
    found = []
    for data in tf.data.TFRecordDataset(str(tmp_path / "out/photos-train.tfrecord-00000-of-00001")):
        feature = tf.train.Example.FromString(data.numpy()).features.feature
        image, caption = (feature[name].bytes_list.value[0] for name in ("image", "caption"))
        label, year = (feature[name].int64_list.value[0] for name in ("label", "year"))
        found.append((image, label, caption.decode(), year))
    samples = webdataset.WebDataset(shards, shardshuffle=False).decode(only=["cls", "txt", "json"])
    expected = [(sample["jpg"], sample["cls"], sample["txt"], sample["json"]["year"]) for sample in samples]
    assert len(expected) == len(PHOTOS)
    assert sorted(found) == sorted(expected)
