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
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from PIL import Image

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.commands.opening import open_dataset_or_files
from beam_tfrecords.beam_pipelines.messages.dataset_lines import describe_example, describe_schema
from beam_tfrecords.beam_pipelines.messages.exit_codes import DONE
from beam_tfrecords.beam_pipelines.settings.command_line import Parser, argument
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.examples.layouts import IMAGE_FIELDS
from beam_tfrecords.output.index import read_columns
from beam_tfrecords.reading.conditions import find_rows, make_condition
from beam_tfrecords.reading.dataset import Dataset
from beam_tfrecords.reading.decoding import ReadExample
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.tfrecord import RecordError, open_stream, read_records
from beam_tfrecords.transforms.settings import whole_number

# Suffix of a file -> its format.
_SAVED_AS = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG"}
_QUALITY = 92
_THREADS = 16
# Flags that need an index.
_OF_DATASETS = ("split", "where", "image", "save")

# Numbers of records.
Numbers: TypeAlias = "range | np.ndarray"


def inspect(argv: Sequence[str]) -> int:
    """Runs the command."""
    arguments = make_parser().read_all(argv)
    if arguments.mapping:
        _inspect_mapping(arguments)
        return DONE
    dataset = open_dataset_or_files(arguments.dataset)
    if isinstance(dataset, list):
        from beam_tfrecords.beam_pipelines.commands.record_files import inspect_files

        given = next((name for name in _OF_DATASETS if getattr(arguments, name) is not None), None)
        if given:
            raise RequestError(
                f"--{given} needs an index, and {arguments.dataset} has none; leave it out", code="no_index"
            )
        inspect_files(dataset, examples=arguments.examples)
        return DONE
    split = arguments.split or min(shard.split for shard in dataset.shards)
    if arguments.image is not None or arguments.save:
        _inspect_record(dataset, split, arguments.image or 0, save=arguments.save)
        return DONE
    dataset.split_shards(split)
    if arguments.where is None:
        found: dict[str, Numbers] = {split: range(dataset.splits[split])}
    else:
        found = _find_records(dataset, arguments.split, arguments.where)
    show(*describe_schema(dataset))
    if arguments.where is not None:
        counts = ", ".join(
            f"{len(numbers):,} of {dataset.splits[split]:,} in {split}" for split, numbers in found.items()
        )
        show("", f"records where {arguments.where}: {counts}")
    numbered = ((split, number) for split, numbers in found.items() for number in numbers)
    shown = list(itertools.islice(numbered, arguments.examples))
    for split, group in itertools.groupby(shown, operator.itemgetter(0)):
        numbers = [number for _, number in group]
        for number, (uri, data) in zip(numbers, read_examples(dataset, split, numbers), strict=True):
            show("")
            _show_example(dataset, split, number, uri, data)
    return DONE


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


def _find_records(dataset: Dataset, split: str | None, where: str) -> dict[str, Numbers]:
    """Returns the numbers of records that satisfy a condition, by split; None searches all splits."""
    columns = dataset.unindexed_columns
    condition = make_condition(where, columns.schema)
    found: dict[str, Numbers] = {}
    for name in [split] if split else dict.fromkeys(shard.split for shard in dataset.shards):
        shards = dataset.split_shards(name)
        starts = itertools.accumulate((shard.records for shard in shards), initial=0)
        find = functools.partial(find_rows, dataset.path, condition=condition, records=columns)
        rows = map_in_threads(find, shards, threads=_THREADS)
        found[name] = np.concatenate([start + one for start, one in zip(starts, rows, strict=False)])
    return found


def _show_example(dataset: Dataset, split: str, number: int, uri: str | None, data: bytes) -> None:
    source = f", from {uri}" if uri else ""
    show(f"{split} example {number} ({len(data):,} bytes{source})")
    show(*(f"  {line}" for line in describe_example(data, dataset)))


def _inspect_record(dataset: Dataset, split: str, number: int, *, save: str | None) -> None:
    """Shows one record, and saves its image."""
    if save:
        _format_of(save)
    if number >= sum(shard.records for shard in dataset.split_shards(split)):
        raise RequestError(
            f"--image={number}: {split} has {dataset.splits[split]:,} records, numbered from 0", code="unknown_record"
        )
    uri, data = next(read_examples(dataset, split, [number]))
    _show_example(dataset, split, number, uri, data)
    if not save:
        return
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
    pictures = []
    for feature in dataset.layout.features:
        if feature.holds_image:
            stored = pixels[feature.name]
            pictures += [flatten(from_pixels(one)) for one in (stored if feature.several else [stored])]
        if feature.field in IMAGE_FIELDS:
            boxes = find_boxes(dataset, example)
            pictures[-1] = draw_boxes(draw_mask(pictures[-1], dataset, example), boxes)
    if not pictures:
        raise RequestError(f"--image={number}: the record has no image", code="no_image")
    _save(put_side_by_side(pictures), save)


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
    chosen.add_argument("--where", metavar="CONDITION", help="show such as \"label = 'cat' and sharpness < 20\"")
    count = argument(whole_number(0))
    parser.add_argument("--examples", metavar="N", type=count, default=3, help="show at most N examples (3)")
    chosen.add_argument("--image", metavar="N", type=count, help="show the N-th record of the split alone, from 0")
    parser.add_argument("--mapping", metavar="NAME", help="show what a mapping finds in the documents of an input")
    parser.add_argument("--image_root", metavar="FOLDER", action="append", help="with --mapping, folder of the images")
    parser.add_argument("--save", metavar="FILE", help="write its image, with boxes and masks drawn, as .jpg or .png")
    # The flag's earlier name; in `convert`, it limits the input samples.
    parser.add_argument("--limit", dest="examples", type=count, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser


def read_examples(dataset: Dataset, split: str, numbers: Iterable[int]) -> Iterator[tuple[str | None, bytes]]:
    """Yields examples of a split: name of the image file or None, serialized example.

    Args:
      dataset: the dataset.
      split: name of the split.
      numbers: numbers of the records, in order.

    Raises:
      BuildError: a record is damaged.
    """
    shards = dataset.split_shards(split)
    starts = [0, *itertools.accumulate(shard.records for shard in shards)]
    for place, group in itertools.groupby(numbers, lambda number: bisect.bisect_right(starts, number) - 1):
        if place >= len(shards):
            raise BuildError(f"{dataset.path}: its manifest counts more records of split {split} than its shards have")
        shard, row, offset = shards[place], 0, 0
        try:
            index = storage.read_bytes(storage.join(dataset.path, shard.index or ""))
            table = read_columns(index, ["uri", "offset"])
            with storage.open_read(storage.join(dataset.path, shard.file)) as file:
                stream = open_stream(file, dataset.compression)
                for number in group:
                    row = number - starts[place]
                    offset = table["offset"][row].as_py()
                    stream.seek(offset)
                    yield table["uri"][row].as_py(), next(read_records(stream)).data
        except RecordError as error:
            raise BuildError(f"{shard.file}, record {row} at offset {offset}: {error}") from error
        except (OSError, EOFError, ValueError, IndexError, StopIteration, zlib.error) as error:
            raise BuildError(
                f"{shard.file} cannot be read: {error or 'it ends before a record of its index'}"
            ) from error
