"""Makes the manifest of a dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from beam_tfrecords.dataset.manifest import MANIFEST_FORMAT, Shard, lists_shards
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.transforms.stats import BUILD_METRICS, Stats, find_size


def describe_heads(layout: Layout) -> dict[str, Any]:
    """Returns the manifest entry with the classes of the features that have some of their own; none without them."""
    names = {name: list(head.class_names) for name, head in layout.heads.items()}
    return {"heads": names} if names else {}


def manifest_json(
    *,
    name: str,
    listed: Mapping[str, int],
    class_names: Sequence[str],
    listed_classes: Collection[str],
    layout: Layout,
    metadata: Mapping[str, Any],
    stats: Stats,
    shards: Sequence[Shard] = (),
    files: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Returns the manifest. The same data and spec always give the same manifest, so it contains no times.

    Only `reuse` and the digest of `changes.json` depend on previous datasets.

    Args:
      name: name of the dataset.
      listed: split -> number of listed samples; "" counts samples without a valid split.
      class_names: classes in index order.
      listed_classes: classes that listed samples have.
      layout: the layout, with the classes of its heads.
      metadata: values known before the build: spec, versions, input fingerprint, skipped files.
      stats: the counts of the build.
      shards: all shards, by split and number; empty before they are composed. See `lists_shards`.
      files: name of every other file -> hex SHA-256; empty before they are written.
    """
    by_split, counted = stats.by_split(listed), Counter(shard.split for shard in shards)
    splits = {
        split: {
            "listed": samples,
            "shards": counted[split],
            **{name: metric.read(by_split[split], split) for name, metric in BUILD_METRICS.items() if metric.of_splits},
            **({"heads": {name: stats.by("head", split, name) for name in layout.heads}} if layout.heads else {}),
        }
        for split, samples in sorted(listed.items())
        if split
    }
    # A filter may leave classes out on purpose.
    unwritten = (
        []
        if stats.total("filtered")
        else sorted({*listed_classes}.difference(*(entry["classes"] for entry in splits.values())))
    )
    return {
        **MANIFEST_FORMAT,
        "name": name,
        "listed": sum(listed.values()),
        **{name: metric.read(stats) for name, metric in BUILD_METRICS.items() if metric.of_build},
        "class_names": list(class_names),
        **describe_heads(layout),
        **({"unwritten_classes": unwritten} if unwritten else {}),
        "splits": splits,
        **({"shards": [shard.to_json() for shard in shards]} if lists_shards(len(shards)) else {}),
        "files": files,
        **({"array_size": find_size(stats)} if Content.ARRAY in layout.required else {}),
        **metadata,
    }
