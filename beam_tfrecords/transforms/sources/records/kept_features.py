"""Finds the features of records that are stored as they are.

The first records of some files give the types and the numbers of values. A feature that always has the same number of
values keeps that number; any other may have any number of values, or be missing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords.errors import RequestError, SampleError
from beam_tfrecords.features.fields import COLUMN
from beam_tfrecords.features.layouts import SAME, Feature, Layout
from beam_tfrecords.features.serialize import ParsedExample, parse_example
from beam_tfrecords.tfrecord import Record
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.partition import Partition
from beam_tfrecords.transforms.sources.records.record_files import choose_evenly, scan_file

# Limits for the first records: number of files, and records and bytes of all files together.
_FILES = 16
_RECORDS = 1024
_MOST_BYTES = 64 << 20


@dataclasses.dataclass
class _Seen:
    """One feature in the first records.

    Attributes:
      kinds: types of its values.
      counts: numbers of its values.
      numbers: smallest and largest of its integers.
      records: number of records that have it.
    """

    kinds: set[str] = dataclasses.field(default_factory=set)
    counts: set[int] = dataclasses.field(default_factory=set)
    numbers: tuple[int, int] = (0, 0)
    records: int = 0

    def add(self, kind: str, values: Sequence[Any]) -> None:
        """Adds the feature of one record."""
        self.kinds |= {kind} if kind else set()
        self.counts.add(len(values))
        self.records += 1
        if kind == "int64" and values:
            self.numbers = min(self.numbers[0], *values), max(self.numbers[1], *values)


def find_kept_layout(
    files: Sequence[Partition],
    columns: Collection[str],
    given: Layout,
    class_names: Mapping[str, Sequence[Sequence[str]]],
) -> tuple[Layout, list[str]]:
    """Returns the layout of records that are stored as they are, and notes.

    Args:
      files: the files.
      columns: features of the first records.
      given: features that the request states; if these are all, no file is read.
      class_names: feature -> the class names that the folders of the files give to its numbers.

    Raises:
      RequestError: the first records have no features, a feature has several types, or its numbers mean other classes
        in other files.
    """
    if given.features and given.columns.issuperset(columns):
        return given, []
    seen: dict[str, _Seen] = {}
    records = 0
    for example in _first_examples(files):
        records += 1
        for name, (kind, values) in example.items():
            seen.setdefault(name, _Seen()).add(kind, values)
    features, notes = {one.name: one for one in given.features}, []
    for name, one in seen.items():
        if name in features:
            continue
        if len(one.kinds) > 1:
            raise RequestError(
                f"{quote_input(files[0].uri)}: feature {name!r} is {' in some and '.join(sorted(one.kinds))} in "
                f"others of the first records; `layout={SAME}` needs one type for each feature; convert the files of "
                "each type separately",
                code="types_differ",
            )
        feature = _make_feature(name, one, is_in_all=one.records == records)
        features[name], note = _with_classes(feature, one, class_names.get(name, ()), files)
        notes += [note] if note else []
    if not features:
        raise RequestError(
            f"{quote_input(files[0].uri)}: the first records have no features, so that `layout={SAME}` has "
            "nothing to describe",
            code="missing_content",
        )
    return Layout(tuple(features[name] for name in sorted(features)), keeps_records=True), notes


def _make_feature(name: str, seen: _Seen, *, is_in_all: bool) -> Feature:
    kind = next(iter(seen.kinds), "bytes")
    count = next(iter(seen.counts)) if is_in_all and len(seen.counts) == 1 else 0
    is_vector = count > 1 and kind != "bytes"
    return Feature(name, COLUMN + name, kind, count != 1 and not is_vector, count if is_vector else 0)


def _with_classes(
    feature: Feature, seen: _Seen, lists: Sequence[Sequence[str]], files: Sequence[Partition]
) -> tuple[Feature, str]:
    """Returns the feature as the number of a class, if files beside the records name the classes; and a note.

    Raises:
      RequestError: the files of different folders name the numbers differently.
    """
    named = [names for names in lists if names]
    if not named or feature.type != "int64":
        return feature, ""
    if len({*map(tuple, lists)}) > 1:
        raise RequestError(
            f"{quote_input(files[0].uri)}: the numbers of {feature.name!r} mean other classes in other folders, "
            f"and `layout={SAME}` keeps numbers; convert the folders separately, or state that they are plain numbers "
            f"with `layout={SAME},{feature.name}:int64`",
            code="class_names_differ",
        )
    names, (least, most) = named[0], seen.numbers
    if feature.several or feature.length or least < 0 or most >= len(names):
        return feature, f"the class names of feature {feature.name!r} are not stored, only its numbers"
    numbered = tuple(f"{number}:{name}" for number, name in enumerate(names))
    return dataclasses.replace(feature, is_class=True, class_names=numbered), ""


def _first_examples(files: Sequence[Partition]) -> Iterator[ParsedExample]:
    """Yields the first valid examples of files that are spread evenly over the input."""
    chosen = choose_evenly(files, _FILES)
    most_records, most_bytes = _RECORDS // len(chosen), _MOST_BYTES // len(chosen)
    for file in chosen:
        size = 0
        # The listing rejects damaged records.
        with contextlib.suppress(SampleError):
            for record, _ in itertools.islice(scan_file(file), most_records):
                if isinstance(record, Record):
                    size += len(record.data)
                    with contextlib.suppress(ValueError):
                        yield parse_example(record.data)
                if size >= most_bytes:
                    break
