"""Tries what a suggestion would read: the samples of a request, and the first rows of a table."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.features.contents import CLASSES, Content
from beam_tfrecords.features.layouts import parse_layout
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.settings import settings_of
from beam_tfrecords.transforms.sources.detect.interpretation import Request
from beam_tfrecords.transforms.sources.opening import open_input
from beam_tfrecords.transforms.sources.source_spec import SourceSpec
from beam_tfrecords.transforms.sources.tables.table import TableFile, open_table

# Number of samples to list for a suggestion.
_MOST = 1000
# Number of rows to read of a table, and of values to look at.
FIRST_ROWS = 200
_SPREAD = 5
# Layouts of suggestions that need no labels.
_UNLABELLED = ("image", "detection", "detection_masks", "segmentation")
_Value = TypeVar("_Value")


@contextlib.contextmanager
def suppress_refusals() -> Iterator[None]:
    """Suppresses errors of trying to open a file in some format, except when the storage did not answer."""
    try:
        yield
    except (OSError, RequestError, BuildError, ValueError) as error:
        if storage.is_unanswered(error) or storage.is_unanswered(error.__cause__):
            raise


def is_usable(request: Request, settings: Mapping[str, Any]) -> bool:
    """Whether a suggested request lists samples, at least half of them valid, or is a question with suggestions.

    Args:
      request: the ambiguous request.
      settings: settings that the suggestion changes.
    """
    read = {one.name: one.read for one in settings_of(SourceSpec)}
    said = {name: read[name](value) for name, value in settings.items() if name in read}
    spec = dataclasses.replace(request.spec, **{"source": "auto", **said})
    layout, needs = settings.get("layout"), request.needs
    if layout in _UNLABELLED:
        needs = dataclasses.replace(needs, contents=needs.contents - CLASSES | parse_layout(layout).required)
    refs: list[SampleRef] = []
    wants_label = False
    with suppress_refusals():
        try:
            source = open_input(spec, needs).read(needs)
        except RequestError as error:
            return bool(error.suggestions)
        if not source.is_whole:
            return True
        wanted = (ref for ref in source.samples() if spec.skips_path(ref.key) is None)
        refs = list(itertools.islice(wanted, _MOST))
        # Folders give labels when all of them are known.
        wants_label = Content.LABEL in needs.contents and not source.description.is_inferred_later
    if layout == "detection" and not any(ref.objects and ref.objects.labels for ref in refs):
        return False
    good = [ref for ref in refs if ref.failure is None and not (wants_label and ref.label is None)]
    return bool(good) and 2 * len(good) >= len(refs)


def read_first_rows(path: str) -> tuple[TableFile, list[Mapping[str, Any]]] | None:
    """Opens a table and reads its valid first rows; returns None if there are none."""
    found = None
    with suppress_refusals():
        table = open_table(path)
        found = table, table.head(table.columns, FIRST_ROWS)
    return found if found and found[1] else None


def spread(values: Sequence[_Value]) -> list[_Value]:
    """Returns some values from all parts of the rows, because images of different parts may be in different folders.

    Used to test whether the images that the values name exist.
    """
    return [*values[:: max(len(values) // _SPREAD, 1)], values[-1]]
