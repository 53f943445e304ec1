"""`inspect` for TFRecord files of other programs: shows their features."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from PIL import Image

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.messages.summary import format_bytes
from beam_tfrecords.beam_pipelines.messages.values import describe_value, plain_values
from beam_tfrecords.beam_pipelines.terminal import counted, show
from beam_tfrecords.dataset.files import LATEST, MANIFEST
from beam_tfrecords.errors import BuildError, RequestError, SampleError
from beam_tfrecords.escaping import escape, write_json
from beam_tfrecords.features.serialize import parse_example
from beam_tfrecords.tfrecord import RecordError
from beam_tfrecords.transforms.images.formats import sniff
from beam_tfrecords.transforms.images.raw_pixels import as_file
from beam_tfrecords.transforms.refs.sample_refs import IMAGE
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition
from beam_tfrecords.transforms.sources.records.folder_metadata import Features
from beam_tfrecords.transforms.sources.records.image_features import choose_features
from beam_tfrecords.transforms.sources.records.record_datasets import find_ours
from beam_tfrecords.transforms.sources.records.record_files import (
    RecordFiles,
    count_files,
    find_record_files,
    is_record_file,
    scan_file,
)
from beam_tfrecords.transforms.sources.registry import RECORDS
from beam_tfrecords.transforms.sources.tables.cells import read_cell
from beam_tfrecords.transforms.sources.tables.table import FirstRows
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings
from beam_tfrecords.transforms.workspace.build_folder import Workspace

# Number of records whose features are summarized.
_DESCRIBED = 100
_MOST_VALUES = 10
_MOST_SHOWN = 5


def find_foreign_files(path: str, error: RequestError) -> RecordFiles | None:
    """Finds the TFRecord files of other programs: a single file, the matches of a glob, or those below a folder.

    Args:
      path: the file, glob or folder.
      error: why there is no dataset of beam-tfrecords.

    Returns:
      The files; None if nothing is there, and for the output folder of an unfinished build.

    Raises:
      RequestError: the folder has other files, or datasets of beam-tfrecords below it.
    """
    path = storage.absolute(os.fspath(path)).rstrip("/")
    try:
        ours = (storage.join(path, name) for name in (MANIFEST, LATEST))
        if any(map(storage.exists, ours)) or storage.is_folder(Workspace(path).path):
            return None
        if storage.is_file(path) and not is_record_file(path):
            return None
        found = find_record_files(path)
    except (OSError, RequestError, storage.SchemeError) as unreadable:
        if storage.is_unanswered(unreadable):
            raise
        return None
    if datasets := sorted(find_ours(found)):
        shown = ", ".join(storage.join(path, folder) for folder in datasets[:_MOST_SHOWN])
        raise RequestError(
            f"{path}: below it there are datasets of beam-tfrecords ({shown}); name one of them", code=error.code
        ) from error
    if found.others and not found.files:
        raise RequestError(
            f"{error.message}; there is no TFRecord file either, only {count_files(found.others)}", code=error.code
        ) from error
    return found if found.files else None


def describe_files(found: RecordFiles, path: str) -> list[str]:
    """Returns lines that say what the files are, and how to convert them."""
    command = shlex.join(["beam-tfrecords", "convert", f"--source={RECORDS}", f"--input={path}", "--output=FOLDER"])
    return [f"TFRecord files of another program, not a dataset of beam-tfrecords; to convert them: {command}"]


def inspect_files(files: Sequence[storage.FileEntry], *, examples: int, as_json: bool = False) -> None:
    """Shows the features of the first records, and a few of these records.

    Raises:
      BuildError: a record is damaged, or not a `tf.train.Example`.
    """
    counts: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    shown: list[list[str]] = []
    whole: list[dict[str, Any]] = []
    number = 0
    for number, record in enumerate(itertools.islice(_read_examples(files), max(_DESCRIBED, examples)), 1):
        for name, (kind, values) in record.items():
            counts[escape(name), kind].append(len(values))
        if number <= examples:
            shown.append([f"{escape(name)}: {_describe(values)}" for name, (_, values) in sorted(record.items())])
            whole.append({name: plain_values(values) for name, (_, values) in sorted(record.items())})
    if as_json:
        features = [
            {"name": name, "type": kind or None, "least": min(lengths), "most": max(lengths), "records": len(lengths)}
            for (name, kind), lengths in sorted(counts.items())
        ]
        result = {"files": len(files), "described_records": number, "features": features, "examples": whole}
        show(*write_json(result, indent=2).splitlines())
        return
    show(f"{_count(files)}; features of the first {number:,} records:", "")
    width = max((len(name) for name, _ in counts), default=0)
    for (name, kind), lengths in sorted(counts.items()):
        several = f"{min(lengths)} to {max(lengths)}" if min(lengths) < max(lengths) else f"{lengths[0]}"
        where = "" if len(lengths) == number else f", in {len(lengths):,} of the records"
        show(f"{name:{width}}  {kind or 'empty':5}  {several} value{'' if several == '1' else 's'}{where}")
    for index, lines in enumerate(shown):
        show("", f"example {index}", *(f"  {line}" for line in lines))


def show_record(files: Sequence[storage.FileEntry], number: int) -> Mapping[str, tuple[str, list[Any]]]:
    """Shows one record of all files, counted from 0, and returns its features.

    Raises:
      RequestError: the files have fewer records.
      BuildError: a record before it is damaged.
    """
    count = 0
    for count, record in enumerate(_read_examples(files), 1):
        if count > number:
            show(f"example {number}", *(f"  {escape(name)}: {_describe(of)}" for name, (_, of) in record.items()))
            return record
    raise RequestError(f"--image={number}: there are {count:,} records, numbered from 0", code="unknown_record")


def find_pictures(record: Mapping[str, tuple[str, list[Any]]], path: str) -> list[Image.Image]:
    """Returns the images of a record: files in its features, or else pixels whose size is in other features.

    Raises:
      RequestError: the record has no image.
    """
    values = [value for _, (kind, found) in sorted(record.items()) if kind == "bytes" for value in found]
    pictures = [picture for value in values if (picture := _open_image(value)) is not None]
    if pictures:
        return pictures
    row = {name: read_cell(feature) for name, feature in record.items()}
    picture = None
    with contextlib.suppress(RequestError, SampleError):
        chosen = choose_features(FirstRows(path, tuple(row), [row]), Features(), TableSettings(), Needs())
        if reader := chosen.pixels.get(chosen.features[IMAGE]):
            pixels, shape = reader.read(row)
            stored = {"axes": reader.axes, "dtype": pixels.dtype.str, "limits": reader.limits}
            picture = _open_image(as_file(pixels.tobytes(), shape=shape, **stored))
    if picture is None:
        raise RequestError(
            f"{path}: the record has neither an encoded image nor one with pixels whose size and type are evident",
            code="no_image",
        )
    return [picture]


def _open_image(value: bytes) -> Image.Image | None:
    try:
        sniff(value)
        with Image.open(io.BytesIO(value)) as image:
            return image.convert("RGB")
    except (SampleError, OSError, ValueError, SyntaxError):
        return None


def _read_examples(files: Sequence[storage.FileEntry]) -> Iterator[dict[str, tuple[str, list[Any]]]]:
    for file in files:
        try:
            for record, _ in scan_file(Partition.of(file)):
                if isinstance(record, RecordError):
                    raise BuildError(f"{file.path}: record {record.record} at offset {record.offset}: {record}")
                try:
                    example = parse_example(record.data)
                except ValueError as error:
                    where = f"{file.path}: record {record.number} at offset {record.offset}"
                    raise BuildError(f"{where}: not a tf.train.Example: {error}") from error
                yield example
        except SampleError as error:
            raise BuildError(f"{file.path}: {error.detail}") from error


def _count(files: Sequence[storage.FileEntry]) -> str:
    size = format_bytes(sum(file.size for file in files))
    return f"{counted(len(files), 'TFRecord file')} of {size}"


def _describe(values: Sequence[Any]) -> str:
    more = f", and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
    return ", ".join(map(describe_value, values[:_MOST_VALUES])) + more
