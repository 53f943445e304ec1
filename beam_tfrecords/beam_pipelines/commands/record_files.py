"""`inspect` and `verify` for TFRecord files of other programs: shows their features, and checks them."""

from __future__ import annotations

import itertools
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.messages.exit_codes import DONE, FAILED
from beam_tfrecords.beam_pipelines.messages.progress import ReadProgress
from beam_tfrecords.beam_pipelines.messages.summary import format_bytes
from beam_tfrecords.beam_pipelines.messages.values import describe_value
from beam_tfrecords.beam_pipelines.terminal import counted, show
from beam_tfrecords.errors import BuildError, RequestError, SampleError
from beam_tfrecords.escaping import escape
from beam_tfrecords.examples.parse import parse_example
from beam_tfrecords.output.files import LATEST, MANIFEST
from beam_tfrecords.tfrecord import Record, RecordError
from beam_tfrecords.transforms.sources.containers import Container
from beam_tfrecords.transforms.sources.inputs import find_entries
from beam_tfrecords.transforms.sources.records.record_rows import scan_file
from beam_tfrecords.transforms.sources.records.tfrecord import RECORD_FILE
from beam_tfrecords.transforms.workspace.build_folder import Workspace

# Number of records whose features are summarized.
_DESCRIBED = 100
_MOST_VALUES = 10


def find_record_files(path: str) -> list[storage.FileEntry]:
    """Lists the TFRecord files of a path: a single file, the matches of a glob, or the files directly in a folder.

    Returns:
      The files; an empty list also for the output folder of an unfinished build.
    """
    path = storage.absolute(os.fspath(path)).rstrip("/")
    try:
        if not storage.is_folder(path):
            return find_entries(path)
        ours = (storage.join(path, name) for name in (MANIFEST, LATEST))
        if any(map(storage.exists, ours)) or storage.is_folder(Workspace(path).path):
            return []
        found = storage.list_files(path, literal=True)
        named = [entry for entry in found if entry.size and RECORD_FILE.fullmatch(entry.path[len(path) + 1 :])]
        return sorted(named, key=lambda entry: entry.path)
    except (OSError, RequestError, storage.SchemeError) as error:
        if storage.is_unanswered(error):
            raise
        return []


def inspect_files(files: Sequence[storage.FileEntry], *, examples: int) -> None:
    """Shows the features of the first records, and a few of these records.

    Raises:
      BuildError: a record is damaged, or not a `tf.train.Example`.
    """
    counts: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    shown: list[list[str]] = []
    number = 0
    for number, record in enumerate(itertools.islice(_read_examples(files), max(_DESCRIBED, examples)), 1):
        for name, (kind, values) in record.items():
            counts[escape(name), kind].append(len(values))
        if number <= examples:
            shown.append([f"{escape(name)}: {_describe(values)}" for name, (_, values) in sorted(record.items())])
    show(f"{_count(files)}; features of the first {number:,} records:", "")
    width = max((len(name) for name, _ in counts), default=0)
    for (name, kind), lengths in sorted(counts.items()):
        several = f"{min(lengths)} to {max(lengths)}" if min(lengths) < max(lengths) else f"{lengths[0]}"
        where = "" if len(lengths) == number else f", in {len(lengths):,} of the records"
        show(f"{name:{width}}  {kind or 'empty':5}  {several} value{'' if several == '1' else 's'}{where}")
    for index, lines in enumerate(shown):
        show("", f"example {index}", *(f"  {line}" for line in lines))


def verify_files(files: Sequence[storage.FileEntry], *, findings: int) -> int:
    """Checks framing and CRCs, and that every record is a `tf.train.Example`; prints the problems.

    Args:
      files: the files.
      findings: maximum number of problems to print.

    Returns:
      The exit code of the command.
    """
    found = good = 0
    with ReadProgress(sum(file.size for file in files), then="finishing", form=format_bytes) as progress:
        before = 0
        for file in files:
            for problem, offset in _check(file):
                # In a compressed file, the offset may exceed the file's size.
                progress.done = before + min(offset, file.size)
                if problem is None:
                    good += 1
                    continue
                if found < findings:
                    with progress.hidden():
                        show(f"{file.path}: {problem}")
                found += 1
            before += file.size
    where = _count(files)
    if found:
        show(f"{counted(found, 'finding')} in {where}; {good:,} records are whole", file=sys.stderr)
        return FAILED
    show(f"OK: framing and CRCs of {counted(good, 'record')} in {where}")
    return DONE


def _check(file: storage.FileEntry) -> Iterator[tuple[str | None, int]]:
    """Yields the problem of each record, or None, and the record's offset."""
    try:
        for record, _ in scan_file(Container.of(file, key_prefix="")):
            yield _problem_of(record), record.offset
    except SampleError as error:
        yield error.detail, 0


def _problem_of(record: Record | RecordError) -> str | None:
    if isinstance(record, RecordError):
        return f"record {record.record} at offset {record.offset}: {record}"
    try:
        parse_example(record.data)
    except ValueError as error:
        return f"record {record.number} at offset {record.offset}: no tf.train.Example: {error}"
    return None


def _read_examples(files: Sequence[storage.FileEntry]) -> Iterator[dict[str, tuple[str, list[Any]]]]:
    for file in files:
        try:
            for record, _ in scan_file(Container.of(file, key_prefix="")):
                if (problem := _problem_of(record)) is not None:
                    raise BuildError(f"{file.path}: {problem}")
                assert isinstance(record, Record)
                yield parse_example(record.data)
        except SampleError as error:
            raise BuildError(f"{file.path}: {error.detail}") from error


def _count(files: Sequence[storage.FileEntry]) -> str:
    size = format_bytes(sum(file.size for file in files))
    return f"{counted(len(files), 'TFRecord file')} of {size}"


def _describe(values: Sequence[Any]) -> str:
    more = f", and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
    return ", ".join(map(describe_value, values[:_MOST_VALUES])) + more
