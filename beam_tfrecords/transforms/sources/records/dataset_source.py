"""The source for beam-tfrecords datasets: records with their metadata from manifest and index."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.dataset.dataset import Dataset, is_dataset
from beam_tfrecords.dataset.files import LABEL_MAP, MANIFEST, SUCCESS
from beam_tfrecords.dataset.label_files import label_files, label_map, parse_label_map, read_label_file
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.dataset.opening import open_dataset
from beam_tfrecords.errors import RequestError
from beam_tfrecords.features.contents import OUTLINES, Content
from beam_tfrecords.features.layouts import NAMED, Layout, parse_layout
from beam_tfrecords.nearest import list_known
from beam_tfrecords.reading.index_files import read_index
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.labels import sort_names
from beam_tfrecords.transforms.refs.sample_refs import IMAGE
from beam_tfrecords.transforms.settings import read_settings, settings_of
from beam_tfrecords.transforms.sources.description import Description
from beam_tfrecords.transforms.sources.inputs import InputFile, Inputs, key_prefixes, quote_input
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.records.dataset_rows import ReadDataset, StoredShard
from beam_tfrecords.transforms.sources.source import MakeSource, Source, partitions_of
from beam_tfrecords.transforms.sources.stored_records import StoredRecords
from beam_tfrecords.transforms.sources.tables.joined_rows import fit_all
from beam_tfrecords.transforms.sources.tables.joined_table import JoinedTable, Joins
from beam_tfrecords.transforms.sources.tables.table import Row, Table
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings
from beam_tfrecords.transforms.splits import Splits

# Settings whose information the manifest already contains.
_KNOWN = (
    "label_column", "label_columns", "label_separator", "unknown_labels", "split_column", "key_column", "image_column",
    "image_path", "mask_column", "pixels",
)  # fmt: skip


class DatasetSource(Source):
    """Existing beam-tfrecords datasets.

    Args:
      datasets: input -> dataset.
      files: shard files of the datasets.
      shards: file -> input of its dataset, and the shard.
      joins: tables whose columns are joined to the records.
      notes: notes on the rows of these tables.
      inputs: inputs of the request.
      settings: settings of the rows, of which datasets accept only `group_column`.
      needs: requested contents.

    Raises:
      RequestError: the datasets do not fit the request.
    """

    description = Description(unit="record")

    def __init__(
        self,
        datasets: Mapping[str, Dataset],
        files: Sequence[InputFile],
        shards: Mapping[str, tuple[str, Shard]],
        joins: Sequence[JoinedTable],
        notes: Sequence[str],
        inputs: Inputs,
        settings: TableSettings,
        needs: Needs,
    ) -> None:
        super().__init__(partitions_of(files))
        self.notes += notes
        _refuse_settings(next(iter(datasets)), settings)
        group_column = settings.group_column
        layout = common_layout(datasets)
        records = StoredRecords(layout, common_image_spec(list(datasets.values())))
        column_types = {
            name: "bytes" if one.is_class else one.type for one in layout.features for name in one.read_columns
        }
        for join in joins:
            column_types |= join.types
        columns = tuple(column_types)
        images = {IMAGE: False} if layout.has_image else {}
        images |= {one.image: one.several for one in layout.features if one.image is not None}
        self._describe(
            # Masks can be drawn from stored polygons.
            provides=layout.required
            | {*([Content.COLUMNS] if columns else []), *(OUTLINES if Content.POLYGONS in layout.required else [])},
            images=images,
            columns=columns,
            column_types=column_types,
            has_several_labels=layout.has_several_labels,
            class_names=merge_class_names([dataset.class_names for dataset in datasets.values()]),
            records=records,
        )
        if records.image is None:
            self.notes.append("the inputs store their images differently; each is converted from what is stored")
        wanted = columns if needs.takes_all else sorted(needs.columns or ())
        for name in (*wanted, *([group_column] if group_column else [])):
            if name not in columns:
                raise RequestError(
                    f"{quote_input(inputs.paths[0])} has no column {name!r}; {list_known(name, columns)}",
                    code="unknown_column",
                )
        stored = {
            path: StoredShard(
                datasets[place].path,
                shard,
                datasets[place].class_names,
                inputs.splits.get(place) or _split_of(shard, needs.splits),
                datasets[place].images.dtype if datasets[place].images.encoding == "raw" else "",
            )
            for path, (place, shard) in shards.items()
        }
        self.read = ReadDataset(stored, layout, wanted, group_column, needs.contents, joins)


def find_datasets(paths: Sequence[str]) -> dict[str, Dataset]:
    """Returns input -> dataset if the inputs are beam-tfrecords datasets; opens the version that LATEST names.

    Raises:
      RequestError: only some inputs are datasets, or a manifest was changed.
      BuildError: a dataset is damaged.
    """
    found = {path: open_dataset(path) for path in paths if is_dataset(path)}
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


def _refuse_edited_names(path: str, dataset: Dataset) -> None:
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


def open_datasets(datasets: Mapping[str, Dataset], tables: Joins, inputs: Inputs, table: TableSettings) -> MakeSource:
    """Finds the shards.

    Args:
      datasets: input -> dataset.
      tables: tables whose columns are joined to the records.
      inputs: as for `DatasetSource`.
      table: `settings` of `DatasetSource`.

    Raises:
      RequestError: a shard is missing, or two inputs have the same last component.
    """
    files: list[InputFile] = []
    shards: dict[str, tuple[str, Shard]] = {}
    for (place, dataset), prefix in zip(datasets.items(), key_prefixes([*datasets]), strict=True):
        entries = {entry.path: entry for entry in storage.list_files(dataset.path, literal=True)}
        for shard in dataset.shards:
            path = storage.join(dataset.path, shard.file)
            if path not in entries:
                raise RequestError(
                    f"{quote_input(place)}: the dataset is incomplete: {shard.file} is missing", code="damaged_dataset"
                )
            files.append(InputFile(prefix, entries[path], None))
            shards[path] = place, shard
    joins, notes = join_datasets(datasets, tables)
    return functools.partial(DatasetSource, datasets, files, shards, joins, notes, inputs, table)


def join_datasets(datasets: Mapping[str, Dataset], joins: Joins) -> tuple[list[JoinedTable], list[str]]:
    """Chooses the keys of the tables that the request joins to records; returns the tables, and notes.

    Raises:
      RequestError: as `fit`.
    """
    if not joins.tables:
        return [], []
    shards = [(one.path, shard) for one in datasets.values() for shard in one.shards]
    return fit_all(joins, KeyTable(",".join(datasets), ("key",), shards=shards))


@dataclasses.dataclass(frozen=True, eq=False)
class KeyTable(Table):
    """A table of the keys of all records, read from the indices."""

    shards: Sequence[tuple[str, Shard]]

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """See `Table.rows`."""
        for path, shard in self.shards:
            for rows in read_index(path, shard, ["key"]):
                yield from rows.to_pylist()


def common_layout(datasets: Mapping[str, Dataset]) -> Layout:
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


def common_image_spec(datasets: Sequence[Dataset]) -> ImageSpec | None:
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


def _split_of(shard: Shard, splits: Splits) -> str | None:
    if splits.folders is None:
        return shard.split if splits.are_auto else None
    return splits.folders.get(shard.split, shard.split)


def _refuse_settings(path: str, settings: TableSettings) -> None:
    named = next((name for name in _KNOWN if getattr(settings, name)), None)
    if named:
        raise RequestError(
            f"`{named}`: {quote_input(path)} is a dataset of beam-tfrecords, which defines it; leave `{named}` out",
            code="setting_not_applicable",
        )


def _describe_layout(layout: Layout) -> str:
    name = next((name for name in NAMED if parse_layout(name) == layout), None)
    return f"layout {name}" if name else f"the features {', '.join(feature.name for feature in layout.features)}"
