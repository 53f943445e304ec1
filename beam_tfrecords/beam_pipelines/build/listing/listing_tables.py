"""Formats a listing as tables, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from beam_tfrecords.beam_pipelines.build.estimates import estimate_output
from beam_tfrecords.beam_pipelines.messages.summary import format_bytes, format_table
from beam_tfrecords.escaping import escape
from beam_tfrecords.examples.layouts import Layout
from beam_tfrecords.transforms.listing.listing import Listing
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.shards.plan import ShardPolicy


class SplitEstimate(NamedTuple):
    """What a split of a dataset would have.

    Attributes:
      samples: number of listed samples.
      bytes: estimated size of its shards.
      shards: number of its shards.
    """

    samples: int
    bytes: int
    shards: int


def estimate_splits(spec: BuildSpec, listing: Listing) -> dict[str, SplitEstimate]:
    """Returns the splits of a listing, sorted by name; "" has the samples without a valid one."""
    policy = ShardPolicy(spec.shard_size, spec.num_shards)
    estimates = {}
    for split, samples in sorted(listing.samples.items()):
        size = estimate_output(
            spec.image, spec.layout or Layout(()), samples=samples, source_bytes=listing.source_bytes[split]
        )
        estimates[split] = SplitEstimate(samples, size, policy.count(size, records=samples) if split else 0)
    return estimates


def describe_splits(estimates: Mapping[str, SplitEstimate]) -> list[str]:
    """Returns a table with a row per split: samples, total size and number of shards."""
    rows = [["split", "samples", "about", "shards"]]
    for split, (samples, size, shards) in estimates.items():
        rows.append([split or "(no valid split)", f"{samples:,}", format_bytes(size), f"{shards:,}"])
    return format_table(rows)


def describe_refs(refs: Sequence[SampleRef]) -> list[str]:
    """Returns a table with a row per sample: key, split, label and file."""
    rows = [["sample", "split", "label", "source"]]
    for ref in refs:
        labels = ref.label if isinstance(ref.label, list) else [ref.label]
        label = ", ".join("(none)" if name is None else str(name) for name in labels)
        if ref.objects:
            label = ", ".join(f"{count} {name}" for name, count in Counter(ref.objects.labels).items()) or "(no object)"
        cells = (ref.key, ref.split or "(none)", label, ref.uri or "(no image)")
        rows.append([escape(cell) for cell in cells])
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, [*widths, 0], strict=True)) for row in rows]
