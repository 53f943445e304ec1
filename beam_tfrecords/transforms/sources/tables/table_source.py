"""The source for tables of any format: each row is a sample."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import Reading, RequestError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.storage.reading import unchanged
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, MASK, SampleRef
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.sources.description import Description
from beam_tfrecords.transforms.sources.detect.column_suggestions import column_suggestions
from beam_tfrecords.transforms.sources.detect.columns import Columns, choose_columns, has_labels
from beam_tfrecords.transforms.sources.detect.image_columns import METADATA, find_file_names, is_file_list
from beam_tfrecords.transforms.sources.detect.missing_images import first_images, refuse_missing
from beam_tfrecords.transforms.sources.image_roots import FileRoots, keep_roots, pair_roots
from beam_tfrecords.transforms.sources.input_settings import PathSettings
from beam_tfrecords.transforms.sources.inputs import (
    Inputs,
    describe_splits,
    keep_inputs,
    key_prefixes,
    quote_input,
)
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import WHOLE, Partition, StagingFiles, until_damage
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest, Source
from beam_tfrecords.transforms.sources.tables.joined_rows import join_tables
from beam_tfrecords.transforms.sources.tables.row_source import NamedImages, list_rows
from beam_tfrecords.transforms.sources.tables.row_values import RowReader, row_reader
from beam_tfrecords.transforms.sources.tables.table import RowRange, Table, TableFile, available, open_table
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings
from beam_tfrecords.transforms.sources.tables.text_table import name_alike
from beam_tfrecords.transforms.sources.tally import Tally

# For smaller tables, parallel listing costs more time than it saves.
_LEAST_BYTES = 4 << 20
# Number of rows by which to choose how keys are made.
_MOST_PAIRS = 1000
# Number of images from which to choose a table's folder of images.
_FIRST_IMAGES = 5


@dataclasses.dataclass(frozen=True)
class TableReader:
    """Reads the rows of one table as samples.

    Attributes:
      keys_are_pairs: as in `NamedImages`.
    """

    table: TableFile
    file: Partition
    roots: Sequence[str]
    mask_roots: Sequence[str]
    allow_outside_root: bool
    cells: RowReader
    keys_are_pairs: bool

    @property
    def columns(self) -> Columns:
        return self.cells.columns

    def cut(self) -> tuple[list[Partition], list[str]]:
        """Splits the table into row ranges for workers, and returns a note if it could not be split well."""
        ranges, problem = retry_faults(self.table.path, self.table.cut)
        name = printable(storage.basename(self.table.path))
        notes = [f"{name}: one process lists most of its rows, because {problem}"] if problem else []
        # `samples` checks the version.
        file = dataclasses.replace(self.file, version="", identifies=False)
        return [dataclasses.replace(file, part=tuple(part)) for part in ranges] or [file], notes

    def samples(self, part: RowRange | None = None) -> Iterator[SampleRef | RefColumns]:
        """Yields the references of the table or of a range of its rows."""
        images = NamedImages(
            self.columns,
            self.roots,
            self.mask_roots,
            allow_outside_root=self.allow_outside_root,
            keys_are_pairs=self.keys_are_pairs,
        )
        has_files = self.columns.has_images or self.columns.mask is not None
        with unchanged(self.table.path, self.file.version):
            yield from list_rows(
                self.cells,
                self.table.rows(self.cells.needed, part),
                images if has_files else None,
                self.file,
                first=part.row if part else 0,
            )


class TableSource(Source):
    """Lists the rows of one or more tables as samples.

    Args:
      tables: the files and their opened tables.
      request: the request.
      needs: requested contents.

    Raises:
      RequestError: a column of the request does not exist, or the tables do not fit together.
    """

    description = Description(unit="row")

    def __init__(self, tables: Sequence[tuple[Partition, TableFile]], request: OpenRequest, needs: Needs) -> None:
        super().__init__()
        self._inputs = inputs = request.inputs
        settings = request.spec
        self._readers: list[TableReader] = []
        named = (settings.label_column,) if settings.label_column else settings.label_columns
        _check_labels(tables, inputs, named, needs)
        files = [file for file, _ in tables]
        of_masks = (settings.mask_root, "mask_root") if settings.mask_root else (settings.image_root, "image_root")
        paired = pair_roots(files, settings.image_root), pair_roots(files, *of_masks)
        # A split stated in `input` takes precedence over a column; a split in the file name does not.
        said = dataclasses.replace(settings, split_column="") if inputs.splits else settings
        may_lack = Content.LABEL in needs.contents and len(tables) > 1
        have_labels = [not may_lack or has_labels(table, named) for _, table in tables]
        for (file, table), roots, mask_roots, has_own in zip(tables, *paired, have_labels, strict=True):
            own, wanted = said, needs
            # The test images of a competition have no labels.
            if any(have_labels) and not has_own:
                own = dataclasses.replace(said, label_column=None, label_columns=())
                wanted = dataclasses.replace(needs, contents=needs.contents - {Content.LABEL})
            columns, notes = choose_columns(table, own, wanted)
            cells = row_reader(table, columns, own, wanted)
            self.notes += [*notes, *cells.notes]
            chosen = _choose_root(table, columns, roots, settings)
            mask = dataclasses.replace(columns, patterns={IMAGE: f"{{{columns.mask}}}"}) if columns.mask else None
            self._readers.append(
                TableReader(
                    table=table,
                    file=file,
                    roots=chosen,
                    mask_roots=_choose_root(table, mask, mask_roots, settings),
                    allow_outside_root=settings.allow_outside_root,
                    cells=cells,
                    keys_are_pairs=_has_pairs(table, columns),
                )
            )
        self._readers = _number_alike(self._readers)
        labelled = [one for one in self._readers if one.columns.label or one.columns.labels]
        first = [*(one for one in self._readers if _has_objects(one.columns)), *labelled, *self._readers][0]
        columns, cells = first.columns, first.cells
        seen = cells.describe({name: name in columns.lists for name in columns.images or columns.patterns})
        text = next((one.cells.text for one in self._readers if one.cells.text), "")
        self._describe(
            table=first.table,
            other_tables=_with_other_columns(first.table, [one.table for one in self._readers]),
            columns=tuple(dict.fromkeys(column for _, table in tables for column in table.columns)),
            column_types=_merge_types([table for _, table in tables]),
            groups_rows=columns.boxes is not None,
            other_labels=self._other_labels,
            **{
                **seen,
                "labels": dataclasses.replace(seen["labels"], text_column=text),
                "used": frozenset(name for one in self._readers for name in one.cells.needed),
            },
        )
        for reader in self._readers[1:]:
            if reader.columns.has_images != columns.has_images:
                raise RequestError(
                    f"{quote_input(self._readers[0].table.path)} and {quote_input(reader.table.path)}: one has a "
                    "column with images and the other has none; convert them separately",
                    code="columns_differ",
                )
        if not needs.required:
            _refuse_some_objects(self._readers)

    def has_read(self, path: str) -> bool:
        """See `Source.has_read`."""
        return super().has_read(path) or any(path == one.table.path for one in self._readers)

    def check(self, most_missing: float) -> None:
        """See `Source.check`."""
        found: list[str] = []
        for reader in self._readers:
            try:
                refuse_missing(reader.table, reader.columns, reader.roots, most_missing)
            except RequestError as error:
                raise keep_inputs(keep_roots(error, found), self._inputs) from error.__cause__
            found += reader.roots

    def _other_labels(self) -> tuple[str, Sequence[Reading]]:
        """Suggests other columns of the first table."""
        columns, table = self._readers[0].columns, self._readers[0].table
        image = next(iter(columns.images.values()), None)
        found = column_suggestions(table, image=image, needs_image=False, needs_label=True)
        found = [one for one in found if one.settings != {"label_column": self.description.label_column}]
        return "", [one for one in found if one.settings.keys() & {"label_column", "label_columns"}]

    def read(self, partition: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef | RefColumns]:
        """Yields a reference for each row, in the order of the tables, or batches of references.

        Raises:
          RequestError: no row of the tables has an existing mask.
          BuildError: a table was replaced in the meantime, or a service fault.
        """
        if partition == WHOLE:
            yield from self._read_all(tally)
        for reader in self._readers:
            if (reader.table.path, reader.file.key_prefix) == (partition.uri, partition.key_prefix):
                yield from reader.samples(RowRange(*map(int, partition.part)) if partition.part else None)

    def _read_all(self, tally: Tally) -> Iterator[SampleRef | RefColumns]:
        without: str | None = None
        is_found = Content.MASK not in self.description.provides
        for reader in self._readers:
            for ref in until_damage(reader.samples(), reader.file, tally):
                if not is_found and isinstance(ref, SampleRef) and ref.images:
                    is_found = MASK in ref.images
                    without = without or (ref.failure[1] if ref.failure else None)
                yield ref
        if without is not None and not is_found:
            raise RequestError(
                f"{quote_input(self._readers[0].table.path)}: no mask exists for any row; the first: {without}; "
                "`mask_column` names the column, and `mask_root` the folder that its paths are relative to",
                code="missing_masks",
            )

    def cut(self, listed: int) -> Sequence[Partition]:
        """See `Source.cut`; returns ranges of rows."""
        if listed or sum(reader.file.size for reader in self._readers) < _LEAST_BYTES:
            return ()
        parts = []
        for reader in self._readers:
            ranges, notes = reader.cut()
            parts += ranges
            self.notes += notes
        return parts if len(parts) > 1 else ()


def open_tables(open_table: Callable[[str, TableSettings], TableFile], request: OpenRequest) -> MakeSource:
    """Opens the tables of a request.

    Raises:
      RequestError: a table cannot be read.
    """
    inputs = request.inputs
    files = request.find_files()
    opened = join_tables(name_alike([open_table(file.uri, request.spec) for file in files]), request.joined)
    tables = list(zip(files, opened, strict=True))

    def make(needs: Needs) -> TableSource:
        source = TableSource(tables, request, needs)
        source.notes += describe_splits({file.uri: file.split for file in files}, inputs)
        return source

    return make


def _check_labels(
    tables: Sequence[tuple[Partition, TableFile]], inputs: Inputs, named: Sequence[str], needs: Needs
) -> None:
    """Raises an error if only some tables have labels, unless the others are the tables of other splits."""
    labeled = [(file, table) for file, table in tables if has_labels(table, named)]
    splits = {file.split for file, _ in labeled}
    without = next(
        (table for file, table in tables if not has_labels(table, named) and file.split in (None, *splits)), None
    )
    if Content.LABEL in needs.contents and labeled and without is not None:
        paths = [f"{file.split}={table.path}" if inputs.splits else table.path for file, table in labeled]
        raise RequestError(
            f"{quote_input(without.path)} has no labels, as {labeled[0][1].path} has; {available(without)}",
            [Reading("the tables with labels", {"input": paths})],
            code="missing_label_column",
        )


def _has_pairs(table: TableFile, columns: Columns) -> bool:
    """Whether the first rows have several images, and share the first of them."""
    if columns.key is not None or columns.lists or len(columns.images or columns.patterns) < 2:
        return False
    names = [*itertools.islice(first_images(table, columns), _MOST_PAIRS)]
    return len({*names}) < len(names)


def _choose_root(table: TableFile, columns: Columns | None, roots: FileRoots, paths: PathSettings) -> tuple[str, ...]:
    """Returns the folders to search for the files that the columns name; `columns` is None if there are none."""
    names: list[str] = []
    if columns is not None and len(roots.every) > 1:
        names += itertools.islice(first_images(table, columns), _FIRST_IMAGES)
    return roots.choose(names, allow_outside_root=paths.allow_outside_root)


def _merge_types(tables: Sequence[TableFile]) -> Mapping[str, str] | None:
    merged: dict[str, str] = {}
    for table in tables:
        if table.column_types is None:
            return None
        for column, kind in table.column_types.items():
            if merged.setdefault(column, kind) != kind:
                raise RequestError(
                    f"{quote_input(table.path)}: column {column!r} is {kind} there, but {merged[column]} in another "
                    "input",
                    code="columns_differ",
                )
    return merged


def _with_other_columns(first: Table, tables: Sequence[Table]) -> list[Table]:
    """Returns a table for each column that the first one lacks."""
    known = {*first.columns}
    found = {name: table for table in reversed(tables) for name in table.columns if name not in known}
    return [*dict.fromkeys(found.values())]


def _has_objects(columns: Columns) -> bool:
    return columns.boxes is not None or columns.objects is not None


def _refuse_some_objects(readers: Sequence[TableReader]) -> None:
    """Checks that all tables have annotated objects, or none."""
    with_objects = [quote_input(one.table.path) for one in readers if _has_objects(one.columns)]
    without = [quote_input(one.table.path) for one in readers if not _has_objects(one.columns)]
    if with_objects and without:
        raise RequestError(
            f"{with_objects[0]} has annotated objects and {without[0]} has none; convert them separately, or ask for a "
            "`layout`",
            [Reading("the objects, and images without any", {"layout": "detection"})],
            code="columns_differ",
        )


def _number_alike(readers: Sequence[TableReader]) -> list[TableReader]:
    """Returns the readers of tables that all take the class numbers of their texts from one column, or none does."""
    number = next((one.cells.number for one in readers if one.cells.number), None)
    # A table of test images has no labels.
    have_labels = [bool(one.columns.label or one.columns.boxes) for one in readers]
    is_there = all(number in one.table.columns for one in itertools.compress(readers, have_labels))
    numbers = [number if is_there and has_labels else None for has_labels in have_labels]
    cells = [dataclasses.replace(one.cells, number=own) for one, own in zip(readers, numbers, strict=True)]
    return [dataclasses.replace(one, cells=own) for one, own in zip(readers, cells, strict=True)]


def open_input(request: OpenRequest) -> MakeSource:
    """Opens folders of images with tables of these names next to them, as Hugging Face's datasets reads them.

    Raises:
      RequestError: there is no table, or the tables do not fit the request.
    """
    inputs = request.inputs
    tables: dict[str, tuple[Partition, TableFile]] = {}
    folders = [path.rstrip("/") + "/" for path in inputs.paths]
    for path, folder, prefix in zip(inputs.paths, folders, key_prefixes(inputs.paths), strict=True):
        listed = storage.list_files(folder, literal=True)
        found = [entry for entry in listed if storage.basename(entry.path) in METADATA]
        if not found:
            raise RequestError(f"{quote_input(folder)}: there is none of {', '.join(METADATA)} in it", code="not_found")
        for entry in sorted(found, key=lambda entry: entry.path):
            below = entry.path[len(folder) :].rpartition("/")[0]
            key = f"{prefix}{below}/" if below else prefix
            if key in tables:
                other = tables[key][1].path
                raise RequestError(
                    f"{other} and {entry.path} both list the images of one folder; delete one",
                    code="several_metadata_files",
                )
            file = Partition.of(entry, key_prefix=key, split=inputs.splits.get(path))
            tables[key] = file, open_table(entry.path, request.spec)
    opened = join_tables([one for _, one in tables.values()], request.joined)
    files = [file for file, _ in tables.values()]
    return functools.partial(_make_source, list(zip(files, opened, strict=True)), request)


def _make_source(tables: Sequence[tuple[Partition, TableFile]], request: OpenRequest, needs: Needs) -> TableSource:
    images = find_file_names(tables[0][1], request.spec.image_column, needs.images)
    image = None
    if len(images) == 1 and not (needs.images or is_file_list(*images.values())):
        image = next(iter(images.values()))
    else:
        needs = dataclasses.replace(needs, images=images)
    request = dataclasses.replace(request, spec=dataclasses.replace(request.spec, image_column=image))
    return TableSource(tables, request, needs)
