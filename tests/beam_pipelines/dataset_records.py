"""The records of a dataset, read by TensorFlow."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Record:
    """A record as TensorFlow reads it, with its index row."""

    key: str
    row: Mapping[str, Any]
    kinds: Mapping[str, str]
    values: Mapping[str, list[Any]]
    data: bytes

    def __getitem__(self, feature: str) -> Any:
        (value,) = self.values[feature]
        return value


def read_dataset(path: Path, split: str) -> list[Record]:
    manifest = json.loads((path / "manifest.json").read_text())
    kind = "GZIP" if manifest["spec"]["compression"] == "gzip" else ""
    records = []
    for shard in manifest["shards"]:
        if shard["split"] != split:
            continue
        rows = pq.read_table(path / shard["index"]).to_pylist()
        stored = tf.data.TFRecordDataset(str(path / shard["file"]), compression_type=kind)
        for row, data in zip(rows, stored.as_numpy_iterator(), strict=True):
            example = tf.train.Example.FromString(data).features.feature
            kinds = {name: feature.WhichOneof("kind") for name, feature in example.items()}
            values = {name: list(getattr(feature, kinds[name]).value) for name, feature in example.items()}
            records.append(Record(row["key"], row, kinds, values, data))
    return records
