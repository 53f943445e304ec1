"""The manifest of a dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from beam_tfrecords.output.manifest import Shard
from beam_tfrecords.reading.dataset import FORMAT
from beam_tfrecords.transforms.stats import BUILD_METRICS, Stats


def manifest_json(
    *,
    name: str,
    listed: Mapping[str, int],
    class_names: Sequence[str],
    metadata: Mapping[str, Any],
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
      metadata: what is known before the build: spec, versions, input fingerprint, skipped files.
      stats: the counts of the build.
      shards: all shards, by split and number; none before they are composed.
      files: the other files -> hex SHA-256; likewise.
    """
    by_split, counted = stats.by_split(listed), Counter(shard.split for shard in shards)
    splits = {
        split: {
            "listed": samples,
            "shards": counted[split],
            **{name: metric.read(by_split[split], split) for name, metric in BUILD_METRICS.items() if metric.of_splits},
        }
        for split, samples in sorted(listed.items())
        if split
    }
    return {
        "format": FORMAT,
        "name": name,
        "listed": sum(listed.values()),
        **{name: metric.read(stats) for name, metric in BUILD_METRICS.items() if metric.of_build},
        "class_names": list(class_names),
        "splits": splits,
        "shards": [shard.to_json() for shard in shards],
        "files": files,
        **metadata,
    }
