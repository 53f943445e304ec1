"""Reads the index of a dataset: finds the records to show, and the sizes of records and images."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Collection, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.messages.progress import ReadProgress
from beam_tfrecords.dataset.dataset import StoredDataset
from beam_tfrecords.dataset.index import QUALITY, read_columns
from beam_tfrecords.geometry.geometry import swaps_sides
from beam_tfrecords.storage.threads import map_in_threads

# Rows that are read of all splits, as many of each as its share of the records. The order is a shuffle, so they are a
# random sample.
MOST_ROWS = 200_000
_COLUMNS = ("key", "label", "length", "height", "width", "source_height", "source_width", "orientation")
# Extreme -> column, and whether its largest values count.
EXTREMES = {
    "darkest": ("brightness", False),
    "brightest": ("brightness", True),
    "most blurred": ("sharpness", False),
    "flattest": ("contrast", False),
}
_MOST_EXTREME = 6
# Small datasets show fewer: one extreme record per this many records.
_EXTREME_OF = 8
_THREADS = 8
_MOST_SHOWN = 200
_MOST_OF_A_CLASS = 8
_LEAST_OF_A_CLASS = 2
_MOST_OF_A_SPLIT = 40
# Records that may be shown of a compressed split.
_COMPRESSED_ROWS = 500

# Split, and class if each record of the split has exactly one.
Group: TypeAlias = "tuple[str, str | None]"


@dataclasses.dataclass(frozen=True)
class ChosenRecord:
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


@dataclasses.dataclass(frozen=True)
class IndexScan:
    """Numbers and records that the report takes from the index.

    Attributes:
      chosen: records to show, by group.
      extremes: extreme -> (value, record), the most extreme first; empty for a compressed dataset.
      named: (split, key) -> requested record; empty for a compressed dataset.
      lengths: split -> sizes of its records in bytes.
      sides: ("source" or "stored", "shorter", "longer" or "aspect") -> pixels, or width / height.
    """

    chosen: dict[Group, list[ChosenRecord]]
    extremes: dict[str, list[tuple[float, ChosenRecord]]]
    named: dict[tuple[str, str], ChosenRecord]
    lengths: dict[str, np.ndarray]
    sides: dict[tuple[str, str], np.ndarray]


def choose_groups(dataset: StoredDataset) -> dict[Group, int]:
    """Returns the groups to show, and the number of records of each: all classes of all splits, as far as they fit.

    If there are too many classes, takes classes at equal distances in the list of classes.
    """
    splits, names = dataset.manifest["splits"], dataset.class_names
    has_classes = bool(names) and not any(one.kind.several for one in dataset.layout.features)
    room = _MOST_SHOWN // len(splits)
    classes = min(len(names), max(1, room // _LEAST_OF_A_CLASS))
    picked = [names[number * len(names) // classes] for number in range(classes)]
    groups: dict[Group, int] = {}
    for split, entry in splits.items():
        if has_classes and sum(entry["classes"].values()) == entry["records"]:
            most = min(_MOST_OF_A_CLASS, max(_LEAST_OF_A_CLASS, room // classes))
            groups.update({(split, name): most for name in picked if entry["classes"].get(name)})
        elif entry["records"]:
            groups[split, None] = min(_MOST_OF_A_SPLIT, max(1, room))
    return dict(list(groups.items())[: _MOST_SHOWN // 2])


def scan_index(
    dataset: StoredDataset, names: Collection[tuple[str, str]], *, progress: ReadProgress | None
) -> IndexScan:
    """Reads the index, or the first rows of each split of a large one.

    Chooses the first records of each group, since the order is already a shuffle by a hash of the seed and the key.

    Args:
      dataset: the dataset.
      names: split and key of further records to show.
      progress: receives the number of records read.

    Raises:
      BuildError: the store does not answer.
      OSError, ValueError, LookupError, TypeError, NotImplementedError: an index is damaged or not one of ours.
    """
    splits = {split: _read_split(dataset, split, progress) for split in dataset.split_starts if dataset.splits[split]}
    if not splits:
        return IndexScan({}, {}, {}, {}, {})
    chosen: dict[Group, list[ChosenRecord]] = {}
    for (split, label), most in choose_groups(dataset).items():
        near = splits[split]
        if dataset.compression != "none":  # a compressed shard can only be read from its start
            near = near.slice(0, min(_COMPRESSED_ROWS, dataset.split_shards(split)[0].records))
        found: Sequence[int] = range(near.num_rows) if label is None else _find_label(near, label)
        chosen[split, label] = [dataclasses.replace(_record(near, row), label=label) for row in found[:most]]
    rows = pa.concat_tables(splits.values(), promote_options="default")
    lengths = {split: of_split["length"].to_numpy() for split, of_split in splits.items()}
    scan = IndexScan(chosen, {}, {}, lengths, _find_sides(rows))
    if dataset.compression == "none":
        most = min(_MOST_EXTREME, dataset.num_records // _EXTREME_OF)
        for name, (column, is_largest) in EXTREMES.items():
            if most and column in rows.column_names:
                scan.extremes[name] = _find_extremes(rows, column, is_largest, most)
        keys = zip(rows["split"].to_pylist(), rows["key"].to_pylist(), strict=True) if names else ()
        scan.named.update((key, _record(rows, row)) for row, key in enumerate(keys) if key in names)
    return scan


def _find_label(rows: pa.Table, label: str) -> list[int]:
    """Returns the rows of a class; compares the codes of labels, which is faster than their texts."""
    codes = rows["label"].combine_chunks()
    names = codes.dictionary.to_pylist()
    if label not in names:
        return []
    codes = codes.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    found: list[int] = np.flatnonzero(codes == names.index(label)).tolist()
    return found


def _read_split(dataset: StoredDataset, split: str, progress: ReadProgress | None) -> pa.Table:
    """Reads rows of a split; adds the split, and the number of each record in it."""
    most = math.ceil(dataset.splits[split] * min(1.0, MOST_ROWS / dataset.num_records))
    shards = dataset.split_shards(split)
    starts = itertools.accumulate((shard.records for shard in shards), initial=0)
    paths = [
        storage.join(dataset.path, shard.index or "")
        for shard, start in zip(shards, starts, strict=False)
        if start < most
    ]
    tables = []
    for data in map_in_threads(storage.read_bytes, paths, threads=_THREADS):
        tables.append(read_columns(data, [*_COLUMNS, *QUALITY]))
        if progress:
            progress.done += tables[-1].num_rows
    rows = pa.concat_tables(tables, promote_options="default").slice(0, most)
    place = rows.column_names.index("label")
    rows = rows.set_column(place, "label", rows["label"].dictionary_encode())
    rows = rows.append_column("split", pa.repeat(split, rows.num_rows))
    return rows.append_column("number", pa.array(np.arange(rows.num_rows)))


def _record(rows: pa.Table, row: int) -> ChosenRecord:
    (found,) = rows.slice(row, 1).to_pylist()
    return ChosenRecord(**{field.name: found.get(field.name) for field in dataclasses.fields(ChosenRecord)})


def _find_extremes(rows: pa.Table, column: str, is_largest: bool, most: int) -> list[tuple[float, ChosenRecord]]:
    values = rows[column].to_numpy().astype(float)
    known = np.flatnonzero(np.isfinite(values))
    # The stable sort keeps the first of equal values.
    ranked = known[np.argsort(-values[known] if is_largest else values[known], kind="stable")]
    hashes = rows["phash"] if "phash" in rows.column_names else None
    found: dict[tuple[float, ...], int] = {}
    for row in ranked.tolist():
        if len(found) == most:
            break
        phash = hashes[row].as_py() if hashes is not None else None
        # One picture is enough for several copies.
        found.setdefault((row,) if phash is None else (values[row], phash), row)
    return [(float(values[row]), _record(rows, row)) for row in found.values()]


def _find_sides(rows: pa.Table) -> dict[tuple[str, str], np.ndarray]:
    sides: dict[tuple[str, str], np.ndarray] = {}
    for kind, prefix in (("source", "source_"), ("stored", "")):
        names = [f"{prefix}height", f"{prefix}width"]
        if not {*names} <= {*rows.column_names}:
            continue
        height, width = (rows[name].to_numpy().astype(float) for name in names)
        if kind == "source" and "orientation" in rows.column_names:
            # Orientations 5 to 8 exchange height and width.
            turned = swaps_sides(rows["orientation"].fill_null(1).to_numpy())
            height, width = np.where(turned, width, height), np.where(turned, height, width)
        known = (height > 0) & (width > 0)
        height, width = height[known], width[known]
        sides[kind, "shorter"] = np.minimum(height, width)
        sides[kind, "longer"] = np.maximum(height, width)
        sides[kind, "aspect"] = width / height
    return sides
