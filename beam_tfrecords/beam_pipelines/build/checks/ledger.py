"""Makes the ledger of a build: what of the input it does not store, or stores under another number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam_tfrecords.features.contents import CLASSES
from beam_tfrecords.transforms.labels import ClassNames
from beam_tfrecords.transforms.refs.sample_refs import Scalar
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.description import Description
from beam_tfrecords.transforms.sources.detect.judge import find_unused
from beam_tfrecords.transforms.sources.meaning.ledger import (
    STRUCTURE,
    Entry,
    find_renumbered,
    find_unstored,
    number_labels,
)
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.tally import Tally

if TYPE_CHECKING:
    from beam_tfrecords.transforms.listing.listing import Listing


def make_ledger(
    spec: BuildSpec, source: Source, listing: Listing, tally: Tally, classes: ClassNames
) -> tuple[Entry, ...]:
    """Returns the ledger of a listed input.

    Args:
      spec: the request, with its layout.
      source: the listed source.
      listing: its samples.
      tally: files that are not samples, and the fields that the source has seen.
      classes: the classes of the dataset.
    """
    layout, seen = spec.layout, source.description
    if layout is None or layout.keeps_records:
        return ()
    uses = seen.uses
    if spec.map is not None:
        # The function receives everything that the source reads.
        uses = dict.fromkeys(uses, STRUCTURE)
    found = [*find_unstored(tally.fields, uses, layout)]
    if seen.table is not None and not spec.needs.takes_all:
        found += find_unused(seen.table, _used_columns(spec, seen), seen.other_images, count=listing.total)
    if spec.map is None:
        named = spec.class_names
        of_list: dict[Scalar, int] = dict(zip(named.names, named.numbers, strict=False)) if named is not None else {}
        numbers = {**seen.class_numbers, **of_list} or number_labels(listing.labels)
        found += find_renumbered(numbers, classes, layout)
    return tuple(found)


def _used_columns(spec: BuildSpec, seen: Description) -> set[str | None]:
    """Returns the columns of the source that the layout stores, or that decide what is stored."""
    needs = spec.needs
    is_label = CLASSES & needs.contents or seen.label_column in (needs.columns or ())
    return {name for name in seen.used if is_label or name != seen.label_column}
