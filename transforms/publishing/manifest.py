"""The manifest of a dataset."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from beam_tfrecords.dataset import FORMAT
from beam_tfrecords.manifest import Shard
from transforms.stats import DUPLICATE_COUNTS, Change, Stats


def manifest_json(
    *,
    name: str,
    listed: Mapping[str, int],
    class_names: Sequence[str],
    facts: Mapping[str, Any],
    stats: Stats,
    shards: Sequence[Shard] = (),
    files: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """The manifest: the same for the same data and spec, whoever built it, so it has no times.

    Only `reuse`, and the digest of `changes.json`, depend on what was there before.

    Args:
      name: of the dataset.
      listed: split -> samples listed; "" holds those without a valid split.
      class_names: classes in index order.
      facts: what is known before the build: spec, versions, input fingerprint, skipped files.
      stats: the counts of the build.
      shards: all shards, by split and number; none before they are composed.
      files: the other files -> hex SHA-256; likewise.
    """
    splits = {
        split: {
            "listed": samples,
            "records": stats.total("written", split),
            "failures": stats.total("failed", split),
            "dropped_duplicates": stats.total("dropped", split),
            "bytes": stats.total("bytes", split),
            "shards": sum(shard.split == split for shard in shards),
            "classes": stats.by("class", split),
        }
        for split, samples in sorted(listed.items())
        if split
    }
    taken = {change.value: stats.total("change", change.value) for change in (Change.COPIED, Change.RESERIALIZED)}
    converted = stats.total("written") + stats.total("dropped") - sum(taken.values())
    return {
        "format": FORMAT,
        "name": name,
        "listed": sum(listed.values()),
        "records": stats.total("written"),
        "failures": stats.total("failed"),
        "dropped_duplicates": stats.total("dropped"),
        "failure_reasons": stats.failure_reasons(),
        "stored_as_png": stats.by("stored_as_png"),
        "duplicates": {what: stats.total("duplicates", what) for what in DUPLICATE_COUNTS},
        "source_bytes": stats.total("source_bytes"),
        "median_pixels": _median(stats.by("pixels")),
        "reuse": {**taken, "converted": converted},
        "class_names": list(class_names),
        "splits": splits,
        "shards": [shard.to_json() for shard in shards],
        "files": files,
        **facts,
    }


def _median(counts: Mapping[str, int]) -> int | None:
    """The lower median of numbers: number -> how often."""
    total = 0
    for number in sorted(counts, key=int):
        total += counts[number]
        if 2 * total >= sum(counts.values()):
            return int(number)
    return None


def dump_json(value: Any) -> bytes:
    """JSON that a person can read."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
