"""Finds the datasets of beam-tfrecords among the inputs, and the layout, images and classes that these share."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.dataset.dataset import StoredDataset, is_dataset
from beam_tfrecords.dataset.files import LABEL_MAP, MANIFEST, SUCCESS
from beam_tfrecords.dataset.label_files import label_files, label_map, parse_label_map, read_label_file
from beam_tfrecords.dataset.pointers import open_latest
from beam_tfrecords.errors import RequestError
from beam_tfrecords.features.layouts import NAMED, Layout, parse_layout
from beam_tfrecords.reading.index_files import read_index
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.labels import sort_names
from beam_tfrecords.transforms.settings import read_settings, settings_of
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.tables.joined_rows import fit_all
from beam_tfrecords.transforms.sources.tables.joined_table import JoinedTable
from beam_tfrecords.transforms.sources.tables.table import ReadTable, Row


def find_datasets(paths: Sequence[str]) -> dict[str, StoredDataset]:
    """Returns input -> dataset if the inputs are beam-tfrecords datasets; opens the version that LATEST names.

    Raises:
      RequestError: only some inputs are datasets, or a manifest was changed.
      BuildError: a dataset is damaged.
    """
    found = {path: open_latest(path) for path in paths if is_dataset(path)}
    changed = next((path for path, dataset in found.items() if not dataset.is_whole), None)
    if changed is not None:
        raise RequestError(
            f"{quote_input(changed)}: {MANIFEST} is not the one that {SUCCESS} names; build it again",
            code="damaged_dataset",
        )
    for path, dataset in found.items():
        _refuse_edited_names(path, dataset)
    other = next((path for path in paths if path not in found), None)
    if found and other is not None:
        raise RequestError(
            f"{quote_input(next(iter(found)))} is a dataset of beam-tfrecords and {quote_input(other)} is not; the "
            "inputs of one dataset must be of one kind: convert the other one first",
            code="sources_differ",
        )
    return found


def _refuse_edited_names(path: str, dataset: StoredDataset) -> None:
    """Refuses a dataset whose files of class names were edited: its records have the names of the manifest."""
    names = list(dataset.class_names)
    lists = label_files(dataset.layout, names)
    for file in (*lists, *label_map(dataset.layout, names)):
        place = storage.join(dataset.path, file)
        if file not in dataset.files or not storage.is_file(place):
            continue
        data = storage.read_bytes(place)
        is_map = file == LABEL_MAP
        found = [*parse_label_map(data.decode(errors="replace")).values()] if is_map else read_label_file(data)
        known = list(lists.get(file, names))
        if found != known:
            pairs = itertools.zip_longest(found, known)
            number, (edited, name) = next((number, pair) for number, pair in enumerate(pairs) if pair[0] != pair[1])
            raise RequestError(
                f"{quote_input(path)}: {file} was edited: class {number} is {edited!r} there and {name!r} in "
                f"{MANIFEST}, which has the names of the records; restore the file, and name the classes when the "
                "dataset is built, with `class_names`",
                code="edited_class_names",
            )


def join_datasets(
    datasets: Mapping[str, StoredDataset], joins: Sequence[JoinedTable]
) -> tuple[list[JoinedTable], list[str]]:
    """Chooses the keys of the tables that the request joins to records; returns the tables, and notes.

    Raises:
      RequestError: as `fit`.
    """
    if not joins:
        return [], []
    shards = [(one.path, shard) for one in datasets.values() for shard in one.shards]

    def read(columns: Sequence[str]) -> Iterator[Row]:
        return (row for path, shard in shards for rows in read_index(path, shard, columns) for row in rows.to_pylist())

    return fit_all(joins, ReadTable(",".join(datasets), ("key",), read))


def common_layout(datasets: Mapping[str, StoredDataset]) -> Layout:
    """Returns the common layout of all inputs.

    Raises:
      RequestError: the layouts differ.
    """
    (first, one), *others = datasets.items()
    for place, dataset in others:
        if dataset.layout != one.layout:
            both = (f"{name} has {_describe_layout(each.layout)}" for name, each in ((first, one), (place, dataset)))
            raise RequestError(
                f"the inputs have different layouts: {'; '.join(both)}; convert one of them to the layout of the other "
                "first",
                code="layouts_differ",
            )
    return one.layout


def join_layout(layout: Layout, joins: Iterable[JoinedTable]) -> dict[str, Any]:
    """Adds a feature for each column of joined tables to a layout; returns the layout as in a spec file.

    Raises:
      RequestError: the layout already has a feature with the same name.
    """
    words = layout.to_json()
    for join in joins:
        added = join.layout_words()
        if twice := next((name for name in added if name in words), None):
            raise RequestError(
                f"`join={join.files[0].path}`: the layout has a feature {twice!r} already; rename the column in the "
                "table, or list the features in a spec file",
                code="duplicate_feature",
            )
        words |= added
    return words


def common_image_spec(datasets: Sequence[StoredDataset]) -> ImageSpec | None:
    """Returns the common image settings of all datasets; None if they differ."""
    # Stored masks have their final numbers.
    names = {setting.name for setting in settings_of(ImageSpec)} - {"mask_colors", "mask_values"}
    specs = [
        read_settings(ImageSpec, {"layout": None, **{k: v for k, v in one.manifest["spec"].items() if k in names}})
        for one in datasets
    ]
    return specs[0] if all(spec == specs[0] for spec in specs) else None


def merge_class_names(several: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Merges the class names of all datasets: sorted if each dataset's are, else in order of occurrence."""
    names = tuple(dict.fromkeys(name for names in several for name in names))
    return sort_names(names) if all(sort_names(each) == tuple(each) for each in several) else names


def _describe_layout(layout: Layout) -> str:
    name = next((name for name in NAMED if parse_layout(name) == layout), None)
    return f"layout {name}" if name else f"the features {', '.join(feature.name for feature in layout.features)}"
