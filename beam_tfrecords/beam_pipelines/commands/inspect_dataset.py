"""`beam-tfrecords inspect`: prints the schema and examples of a dataset."""

from __future__ import annotations

import argparse
import bisect
import dataclasses
import functools
import io
import itertools
import operator
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from PIL import Image, UnidentifiedImageError

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.commands.opening import open_dataset_or_files
from beam_tfrecords.beam_pipelines.messages.exit_codes import DONE
from beam_tfrecords.beam_pipelines.messages.summary import format_bytes, format_table
from beam_tfrecords.beam_pipelines.messages.values import describe_value, plain_values
from beam_tfrecords.beam_pipelines.settings.command_line import Parser, argument
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.dataset.dataset import StoredDataset
from beam_tfrecords.dataset.index import read_columns
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.escaping import escape, write_json
from beam_tfrecords.features.fields import ClassValue, Stored
from beam_tfrecords.features.layouts import Feature, decoded_names
from beam_tfrecords.features.serialize import parse_example
from beam_tfrecords.reading.conditions import find_rows, make_condition
from beam_tfrecords.reading.decoding import ReadExample, decode_mask
from beam_tfrecords.reading.record_columns import RecordColumns
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.tfrecord import RecordError, open_stream, read_records
from beam_tfrecords.transforms.settings import whole_number

if TYPE_CHECKING:
    from beam_tfrecords.transforms.sources.records.record_files import RecordFiles

# Suffix of a file -> its format.
_SAVED_AS = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG"}
_QUALITY = 92
_THREADS = 16
# Flags that need an index.
_OF_DATASETS = ("split", "where")

# Numbers of records.
Numbers: TypeAlias = "range | np.ndarray"


def inspect(argv: Sequence[str]) -> int:
    """Runs the command."""
    arguments = make_parser().read_all(argv)
    if arguments.json and (arguments.mapping or arguments.save):
        raise RequestError(
            f"--json prints one document about records; leave --{'mapping' if arguments.mapping else 'save'} out",
            code="conflicting_settings",
        )
    if arguments.save:
        _format_of(arguments.save)
    if arguments.mapping:
        _inspect_mapping(arguments)
        return DONE
    dataset = open_dataset_or_files(arguments.dataset)
    if not isinstance(dataset, StoredDataset):
        _inspect_files(dataset, arguments)
        return DONE
    found = _find_numbers(dataset, arguments)
    is_single = arguments.image is not None or arguments.save is not None
    numbered = ((split, int(number)) for split, numbers in found.items() for number in numbers)
    examples = _read_numbered(dataset, itertools.islice(numbered, 1 if is_single else arguments.examples))
    if arguments.json:
        show(*write_json(_as_json(dataset, found if arguments.where else None, examples), indent=2).splitlines())
        return DONE
    if not is_single:
        show(*_describe_schema(dataset))
    if arguments.where and not is_single:
        counts = ", ".join(
            f"{len(numbers):,} of {dataset.splits[split]:,} in {split}" for split, numbers in found.items()
        )
        show("", f"records where {arguments.where}: {counts}")
    for split, number, uri, data in examples:
        source = f", from {uri}" if uri else ""
        show(*([] if is_single else [""]), f"{split} example {number} ({len(data):,} bytes{source})")
        show(*(f"  {line}" for line in _describe_example(data, dataset)))
        if arguments.save:
            _save(_draw_record(dataset, number, data, arguments.save), arguments.save)
    return DONE


def _find_numbers(dataset: StoredDataset, arguments: argparse.Namespace) -> dict[str, Numbers]:
    """Returns the numbers of the records that the arguments choose, by split."""
    if arguments.where is not None:
        return _find_records(dataset, arguments.split, arguments.where)
    split = arguments.split or min(dataset.split_starts)
    records, number = sum(shard.records for shard in dataset.split_shards(split)), arguments.image or 0
    if arguments.image is None and not arguments.save:
        return {split: range(records)}
    if number >= records:
        raise RequestError(f"--image={number}: {split} has {records:,} records, numbered from 0", code="unknown_record")
    return {split: range(number, number + 1)}


def _as_json(
    dataset: StoredDataset, found: Mapping[str, Numbers] | None, examples: Iterable[tuple[str, int, str | None, bytes]]
) -> dict[str, Any]:
    """Returns the schema and examples as one document; docs/output.md describes it."""
    return {
        "dataset": dataset.path,
        "name": dataset.name,
        "splits": {
            name: {key: entry[key] for key in ("records", "shards", "bytes")}
            for name, entry in dataset.manifest["splits"].items()
        },
        "features": dataset.layout.to_json(),
        "class_names": list(dataset.class_names),
        "heads": {name: list(head.class_names) for name, head in dataset.layout.heads.items()},
        "found": found and {name: len(numbers) for name, numbers in found.items()},
        "examples": [
            {
                "split": split,
                "number": number,
                "bytes": len(data),
                "uri": uri,
                "features": {name: plain_values(values) for name, (_, values) in parse_example(data).items()},
            }
            for split, number, uri, data in examples
        ],
    }


def _inspect_files(found: RecordFiles, arguments: argparse.Namespace) -> None:
    """Shows the records of another program's files."""
    from beam_tfrecords.beam_pipelines.commands.record_files import (
        describe_files,
        find_pictures,
        inspect_files,
        show_record,
    )

    given = next((name for name in _OF_DATASETS if getattr(arguments, name) is not None), None)
    if given:
        raise RequestError(f"--{given} needs an index, and {arguments.dataset} has none; leave it out", code="no_index")
    if arguments.json and arguments.image is not None:
        raise RequestError(
            "--json and --image exclude each other for files of other programs", code="conflicting_settings"
        )
    files = [*found.files.values()]
    if arguments.image is None and not arguments.save:
        inspect_files(files, examples=arguments.examples, as_json=arguments.json)
        if not arguments.json:
            show("", *describe_files(found, arguments.dataset))
        return
    record = show_record(files, arguments.image or 0)
    if arguments.save:
        from beam_tfrecords.beam_pipelines.report.drawing import put_side_by_side

        _save(put_side_by_side(find_pictures(record, arguments.dataset)), arguments.save)


def _inspect_mapping(arguments: argparse.Namespace) -> None:
    from beam_tfrecords.beam_pipelines.commands.inspect_mapping import draw_sample, inspect_mapping

    given = next((name for name in ("split", "where", "image") if getattr(arguments, name) is not None), None)
    if given:
        raise RequestError(
            f"--{given} is about records, and --mapping about documents; expected one of them",
            code="conflicting_settings",
        )
    ref = inspect_mapping(arguments.dataset, arguments.mapping, arguments.image_root or ())
    if arguments.save:
        _save(draw_sample(ref), arguments.save)


def _find_records(dataset: StoredDataset, split: str | None, where: str) -> dict[str, Numbers]:
    """Returns the numbers of records that satisfy a condition, by split; None searches all splits."""
    columns = RecordColumns.of(dataset)
    condition = make_condition(where, columns.schema, dataset.class_names)
    found: dict[str, Numbers] = {}
    for name in [split] if split else dataset.split_starts:
        shards = dataset.split_shards(name)
        starts = itertools.accumulate((shard.records for shard in shards), initial=0)
        find = functools.partial(find_rows, dataset.path, condition=condition, records=columns)
        rows = map_in_threads(find, shards, threads=_THREADS)
        found[name] = np.concatenate([start + one for start, one in zip(starts, rows, strict=False)])
    return found


def _describe_schema(dataset: StoredDataset) -> list[str]:
    """Describes name, splits, classes and features of a dataset."""
    manifest = dataset.manifest
    rows = [["split", "records", "shards", "size"]]
    for split, entry in manifest["splits"].items():
        rows.append([split, f"{entry['records']:,}", f"{entry['shards']:,}", format_bytes(entry["bytes"])])
    lines = [f"{manifest['name']} in {dataset.path}", "", *format_table(rows), ""]
    features = [[escape(feature.name), feature.type, _describe_field(feature)] for feature in dataset.layout.features]
    widths = [max(len(row[column]) for row in features) for column in (0, 1)]
    lines += [f"{name:{widths[0]}}  {kind:{widths[1]}}  {field}" for name, kind, field in features]
    lists = {"classes": dataset.class_names}
    lists |= {f"classes of {escape(name)}": head.class_names for name, head in dataset.layout.heads.items()}
    for title, names in lists.items():
        shown = ", ".join(f"{index} {name}" for index, name in enumerate(names[:20]))
        more = f", and {len(names) - 20} more" if len(names) > 20 else ""
        lines += ["", f"{title}: {shown}{more}"] if names else []
    return lines


def _describe_example(data: bytes, dataset: StoredDataset) -> list[str]:
    """Describes an example, one line per feature."""
    parsed = parse_example(data)
    features = {feature.name: feature for feature in dataset.layout.features}
    width = max((len(escape(name)) for name in parsed), default=0)
    lines = []
    for name, (_, values) in parsed.items():
        shown = [describe_value(value) for value in values[:10]]
        feature = features.get(name)
        kind = ClassValue.INDEX if feature and feature.is_class else feature and feature.class_value
        if feature and kind in (ClassValue.INDEX, ClassValue.ID):
            of = feature.class_names if feature.is_class else dataset.class_names
            found = [kind.find(value, of) for value in values[:10]]
            shown = [
                f"{value:g} ({class_name})" if class_name is not None else str(value)
                for value, class_name in zip(values, found, strict=False)
            ]
        if feature and feature.kind.stored is Stored.MASK:
            shown = [f"{one}{_describe_numbers(value)}" for one, value in zip(shown, values, strict=False)]
        more = f", and {len(values) - 10} more" if len(values) > 10 else ""
        lines.append(f"{escape(name):{width}}  {', '.join(shown)}{more}")
    return lines


def _describe_field(feature: Feature) -> str:
    if feature.length:
        return f"{feature.field} ({feature.length} values)"
    return f"{feature.field} (several values)" if feature.several else feature.field


def _describe_numbers(mask: bytes) -> str:
    try:
        numbers = sorted(set(decode_mask(mask).ravel().tolist()))
    except UnidentifiedImageError:
        return ""
    return f", numbers {', '.join(map(str, numbers[:10]))}" + (f", … {numbers[-1]}" if len(numbers) > 10 else "")


def _draw_record(dataset: StoredDataset, number: int, data: bytes, save: str) -> Image.Image:
    """Draws the images of a record, with their boxes and masks."""
    if not any(feature.holds_image for feature in dataset.layout.features):
        raise RequestError(f"--save={save}: the records of {dataset.path} have no image", code="no_image")
    from beam_tfrecords.beam_pipelines.report.drawing import (
        draw_boxes,
        draw_mask,
        find_boxes,
        flatten,
        from_pixels,
        put_side_by_side,
    )

    read = ReadExample(dataset.layout.features, dataset.images, pixels=False)
    pixels, example = dataclasses.replace(read, pixels=True)(data), read(data)
    names, pictures = decoded_names(dataset.layout.features), []
    for feature in dataset.layout.features:
        if feature.holds_image:
            stored = pixels[names.get(feature.name, feature.name)]
            pictures += [flatten(from_pixels(one)) for one in (stored if feature.several else [stored])]
        if feature.is_image:
            boxes = find_boxes(dataset, example)
            pictures[-1] = draw_boxes(draw_mask(pictures[-1], dataset, example), boxes)
    if not pictures:
        raise RequestError(f"--image={number}: the record has no image", code="no_image")
    return put_side_by_side(pictures)


def _format_of(save: str) -> str:
    """Returns the format of an image file, by its name."""
    kind = _SAVED_AS.get(save[save.rfind(".") :].lower())
    if kind is None:
        raise RequestError(
            f"--save={save}: expected a name that ends with {', '.join(_SAVED_AS)}", code="invalid_value"
        )
    return kind


def _save(picture: Image.Image, save: str) -> None:
    file = io.BytesIO()
    picture.save(file, _format_of(save), quality=_QUALITY)
    storage.write_bytes(storage.absolute(save), file.getvalue())
    show(f"saved {save}")


def make_parser() -> Parser:
    """Returns the parser of this command."""
    parser = Parser(prog="beam-tfrecords inspect", description="Shows schema and examples.", allow_abbrev=False)
    parser.add_folder(
        "dataset", "the --output of a build; or TFRecord files: one, a glob or a folder; with --mapping, documents"
    )
    parser.add_argument("--split", metavar="NAME", help="split of the examples (the first; with --where, all)")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--where", metavar="CONDITION", help="only records such as \"label = 'cat' and sharpness < 20\""
    )
    count = argument(whole_number(0))
    parser.add_argument("--examples", metavar="N", type=count, default=3, help="show at most N examples (3)")
    chosen.add_argument("--image", metavar="N", type=count, help="show the N-th record of the split alone, from 0")
    parser.add_argument("--mapping", metavar="NAME", help="show what a mapping finds in the documents of an input")
    parser.add_argument("--image_root", metavar="FOLDER", action="append", help="with --mapping, folder of the images")
    parser.add_argument("--json", action="store_true", help="print schema and examples as one document of JSON")
    parser.add_argument("--save", metavar="FILE", help="write its image, with boxes and masks drawn, as .jpg or .png")
    return parser


def _read_numbered(
    dataset: StoredDataset, numbered: Iterable[tuple[str, int]]
) -> Iterator[tuple[str, int, str | None, bytes]]:
    """Yields split, number, name of the image file or None, and serialized example of records.

    Without its index, a shard is read from its start.

    Raises:
      BuildError: a record is damaged.
    """
    for split, of_split in itertools.groupby(numbered, operator.itemgetter(0)):
        shards = dataset.split_shards(split)
        starts = [0, *itertools.accumulate(shard.records for shard in shards)]
        placed = ((bisect.bisect_right(starts, number) - 1, number) for _, number in of_split)
        for place, group in itertools.groupby(placed, operator.itemgetter(0)):
            if place >= len(shards):
                raise BuildError(
                    f"{dataset.path}: its manifest counts more records in split {split} than the shards have"
                )
            shard, row, offset = shards[place], 0, 0
            try:
                table = _read_places(dataset, shard)
                with storage.open_read(storage.join(dataset.path, shard.file)) as file:
                    stream = open_stream(file, dataset.compression)
                    records = enumerate(read_records(stream))
                    for _, number in group:
                        row = number - starts[place]
                        if table is None:
                            yield split, number, None, next(record.data for n, record in records if n == row)
                            continue
                        offset = table["offset"][row].as_py()
                        stream.seek(offset)
                        yield split, number, table["uri"][row].as_py(), next(read_records(stream)).data
            except RecordError as error:
                raise BuildError(f"{shard.file}, record {row} at offset {offset}: {error}") from error
            except (OSError, EOFError, ValueError, IndexError, StopIteration, zlib.error) as error:
                raise BuildError(
                    f"{shard.file} cannot be read: {error or 'it ends before a record that its index names'}"
                ) from error


def _read_places(dataset: StoredDataset, shard: Shard) -> pa.Table | None:
    """Returns image files and offsets of the records of a shard; None if its index is missing."""
    try:
        return read_columns(storage.read_bytes(storage.join(dataset.path, shard.index or "")), ["uri", "offset"])
    except FileNotFoundError:
        return None
