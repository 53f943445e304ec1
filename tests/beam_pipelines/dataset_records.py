"""The records of a dataset, read without its own reader of records and examples."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.framing import Example, records_of


@dataclasses.dataclass(frozen=True)
class Record:
    """A record as a strange reader sees it, with its index row."""

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
    records = []
    for shard in manifest["shards"]:
        if shard["split"] != split:
            continue
        rows = pq.read_table(path / shard["index"]).to_pylist()
        for row, data in zip(rows, records_of(path / shard["file"]), strict=True):
            example = Example.FromString(data).features.feature
            kinds = {name: feature.WhichOneof("kind") for name, feature in example.items()}
            values = {
                name: list(getattr(feature, kinds[name]).value) if kinds[name] else []
                for name, feature in example.items()
            }
            records.append(Record(row["key"], row, kinds, values, data))
    return records
