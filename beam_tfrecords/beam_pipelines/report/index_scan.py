"""One pass over the index of a dataset: finds the records to show, and the distribution of sizes."""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.messages.progress import ReadProgress
from beam_tfrecords.beam_pipelines.report.distribution import Distribution
from beam_tfrecords.dataset.dataset import Dataset
from beam_tfrecords.dataset.index import read_batches
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.geometry.geometry import swaps_sides
from beam_tfrecords.storage.threads import map_in_threads

_COLUMNS = ("key", "label", "length", "height", "width", "source_height", "source_width", "orientation")
# Extreme -> column, and whether its largest values count.
EXTREMES = {
    "darkest": ("brightness", False),
    "brightest": ("brightness", True),
    "most blurred": ("sharpness", False),
    "flattest": ("contrast", False),
}
_QUALITY = (*dict.fromkeys(column for column, _ in EXTREMES.values()), "phash")
_MOST_EXTREME = 6
# Small datasets show fewer: one extreme record per this many records.
_EXTREME_OF = 8
_THREADS = 8
MOST_SHOWN = 200
_MOST_OF_A_CLASS = 8
_LEAST_OF_A_CLASS = 2
_MOST_OF_A_SPLIT = 40
# Records that may be shown of a compressed shard, which can only be read from its start.
_COMPRESSED_ROWS = 500

# Split, and class if each record of the split has exactly one.
Group: TypeAlias = "tuple[str, str | None]"


@dataclasses.dataclass(frozen=True)
class Chosen:
    """A record to show.

    Attributes:
      number: number in its split, from 0.
      pixels: number of pixels of the stored image; 0 if it has none.
    """

    split: str
    label: str | None
    number: int
    key: str
    height: int | None
    width: int | None

    @property
    def pixels(self) -> int:
        return (self.height or 0) * (self.width or 0)


class Extreme(NamedTuple):
    """An extreme record: the value of the column, the hash of the image if known, and the record."""

    value: float
    phash: int | None
    record: Chosen


@dataclasses.dataclass(frozen=True)
class IndexScan:
    """Results of a scan of the index.

    Attributes:
      chosen: records to show, by group.
      extremes: extreme -> records, the most extreme first; empty for a compressed dataset.
      named: (split, key) -> requested record; empty for a compressed dataset.
      lengths: split -> sizes of its records in bytes.
      sides: ("source" or "stored", "shorter", "longer" or "aspect") -> pixels, or width / height.
    """

    chosen: dict[Group, list[Chosen]] = dataclasses.field(default_factory=lambda: defaultdict(list))
    extremes: dict[str, list[Extreme]] = dataclasses.field(default_factory=lambda: defaultdict(list))
    named: dict[tuple[str, str], Chosen] = dataclasses.field(default_factory=dict)
    lengths: dict[str, Distribution] = dataclasses.field(default_factory=lambda: defaultdict(Distribution))
    sides: dict[tuple[str, str], Distribution] = dataclasses.field(default_factory=lambda: defaultdict(Distribution))


def choose_groups(dataset: Dataset) -> dict[Group, int]:
    """Returns the groups to show, and the number of records of each: all classes of all splits, as far as they fit.

    If there are too many classes, takes classes at equal distances in the list of classes.
    """
    splits, names = dataset.manifest["splits"], dataset.class_names
    has_classes = bool(names) and not any(one.kind.several for one in dataset.layout.features)
    room = MOST_SHOWN // len(splits)
    classes = min(len(names), max(1, room // _LEAST_OF_A_CLASS))
    picked = [names[number * len(names) // classes] for number in range(classes)]
    groups: dict[Group, int] = {}
    for split, entry in splits.items():
        if has_classes and sum(entry["classes"].values()) == entry["records"]:
            most = min(_MOST_OF_A_CLASS, max(_LEAST_OF_A_CLASS, room // classes))
            groups.update({(split, name): most for name in picked if entry["classes"].get(name)})
        elif entry["records"]:
            groups[split, None] = min(_MOST_OF_A_SPLIT, max(1, room))
    return dict(list(groups.items())[: MOST_SHOWN // 2])


def scan_index(dataset: Dataset, names: Collection[tuple[str, str]], *, progress: ReadProgress | None) -> IndexScan:
    """Reads the index by columns, in batches of rows.

    Chooses the first records of each group, since the order is already a shuffle by a hash of the seed and the key.

    Args:
      dataset: the dataset.
      names: split and key of further records to show.
      progress: receives the number of records read.

    Raises:
      BuildError: the store does not answer.
      OSError, ValueError, LookupError, TypeError, NotImplementedError: an index is damaged or not one of ours.
    """
    scan, groups = IndexScan(), choose_groups(dataset)
    most_extreme = min(_MOST_EXTREME, dataset.manifest["records"] // _EXTREME_OF)
    for split in dataset.splits:
        shards = dataset.split_shards(split) if split in dataset.split_starts else []
        wanted = {label: most for (one, label), most in groups.items() if one == split}
        number = 0
        for shard, batches in zip(shards, _read(dataset, shards), strict=True):
            for batch in batches:
                rows = {name: batch[name] for name in batch.schema.names}
                scan.lengths[split].add(rows["length"].to_numpy())
                _add_sizes(scan, rows)
                if dataset.compression == "none" or shard.number == 0:
                    _choose(scan, split, wanted, rows, number, dataset.compression != "none")
                if dataset.compression == "none":
                    _find_extremes(scan, split, rows, number, most_extreme)
                    _find_named(scan, split, [key for one, key in names if one == split], rows, number)
                number += batch.num_rows
                if progress:
                    progress.done += batch.num_rows
    return scan


def _read(dataset: Dataset, shards: Sequence[Shard]) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yields the batches of each shard's index; downloads files of a store whole, several at once."""
    paths = [storage.join(dataset.path, shard.index or "") for shard in shards]
    fetch = functools.partial(map_in_threads, storage.read_bytes, threads=_THREADS)
    files = map(pa.BufferReader, fetch(paths)) if storage.has_scheme(dataset.path) else map(storage.open_read, paths)
    for opened in files:
        with opened as file:
            yield read_batches(file, [*_COLUMNS, *_QUALITY])


def _choose(
    scan: IndexScan, split: str, wanted: dict[str | None, int], rows: Mapping[str, pa.Array], start: int, near: bool
) -> None:
    if not wanted:
        return
    labels = rows["label"].dictionary_encode()
    codes = labels.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    code_of = {name: code for code, name in enumerate(labels.dictionary.to_pylist())}
    for label, most in list(wanted.items()):
        found = np.arange(len(codes)) if label is None else np.flatnonzero(codes == code_of.get(label, -2))
        for row in found[:most].tolist():
            if near and start + row >= _COMPRESSED_ROWS:
                break
            scan.chosen[split, label].append(_record(split, label, rows, row, start))
        wanted[label] = most - len(found[:most])
        if not wanted[label]:
            del wanted[label]


def _find_named(scan: IndexScan, split: str, keys: Sequence[str], rows: Mapping[str, pa.Array], start: int) -> None:
    if not keys:
        return
    import pyarrow.compute as pc  # its import takes longer than reading most indices

    for row in np.flatnonzero(pc.is_in(rows["key"], pa.array(keys)).to_numpy(zero_copy_only=False)).tolist():
        found = _record(split, rows["label"][row].as_py(), rows, row, start)
        scan.named[split, found.key] = found


def _record(split: str, label: str | None, rows: Mapping[str, pa.Array], row: int, start: int) -> Chosen:
    height, width = (rows[name][row].as_py() if name in rows else None for name in ("height", "width"))
    return Chosen(split, label, start + row, rows["key"][row].as_py(), height, width)


def _find_extremes(scan: IndexScan, split: str, rows: Mapping[str, pa.Array], start: int, most: int) -> None:
    for name, (column, is_largest) in EXTREMES.items():
        if column not in rows:
            continue
        values = rows[column].to_numpy(zero_copy_only=False).astype(float)
        known = np.flatnonzero(np.isfinite(values))
        ranked = known[np.argsort(-values[known] if is_largest else values[known], kind="stable")]
        contents = {(one.value, one.phash) for one in scan.extremes[name]}
        found: list[Extreme] = []
        for row in ranked.tolist():
            if len(found) == most:
                break
            content = float(values[row]), rows["phash"][row].as_py() if "phash" in rows else None
            # One picture is enough for several copies.
            if content[1] is None or content not in contents:
                contents.add(content)
                found.append(Extreme(*content, _record(split, rows["label"][row].as_py(), rows, row, start)))
        # The stable sort keeps the first of equal values.
        both = sorted([*scan.extremes[name], *found], key=lambda one: one.value, reverse=is_largest)
        scan.extremes[name] = both[:most]


def _add_sizes(scan: IndexScan, rows: Mapping[str, pa.Array]) -> None:
    for kind, prefix in (("source", "source_"), ("stored", "")):
        names = [f"{prefix}height", f"{prefix}width"]
        if not all(name in rows for name in names):
            continue
        height, width = (rows[name].fill_null(0).to_numpy(zero_copy_only=False).astype(float) for name in names)
        if kind == "source" and "orientation" in rows:
            # Orientations 5 to 8 exchange height and width.
            turned = swaps_sides(rows["orientation"].fill_null(1).to_numpy(zero_copy_only=False))
            height, width = np.where(turned, width, height), np.where(turned, height, width)
        known = (height > 0) & (width > 0)
        height, width = height[known], width[known]
        scan.sides[kind, "shorter"].add(np.minimum(height, width))
        scan.sides[kind, "longer"].add(np.maximum(height, width))
        scan.sides[kind, "aspect"].add(width / height)
