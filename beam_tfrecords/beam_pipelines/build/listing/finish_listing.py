"""Finishes a listing: determines final labels and splits, and applies the request's limit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeVar

from beam_tfrecords.errors import LimitError
from beam_tfrecords.transforms.listing.limiting import limit_listing
from beam_tfrecords.transforms.listing.listing import Listing, ListPlan, read_refs, write_listing
from beam_tfrecords.transforms.listing.stratifying import stratify
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.selection import Selection
from beam_tfrecords.transforms.sources.skipped import Damage, Skipped
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.splits import Splits

# Damaged containers that a message names.
_MOST_DAMAGED = 3

Result = TypeVar("Result")


def plan_listing(spec: BuildSpec, source: Source) -> ListPlan:
    """Plans how to list the samples of a request."""
    needs_label = spec.layout is None or spec.layout.needs_label or spec.layout.needs_objects
    count_labels = needs_label or spec.source.label_pattern is not None or bool(spec.source.selection.classes)
    selection = spec.source.selection
    if source.is_inferred_later:
        # Classes are still unknown.
        selection = dataclasses.replace(selection, classes=())
    return ListPlan(
        spec.splits,
        spec.seed,
        count_labels=count_labels,
        selection=selection,
        summarizes_folders=source.is_inferred_later,
    )


def finish_listing(listing: Listing, spec: BuildSpec, source: Source, skipped: Skipped, folder: str) -> Listing:
    """Returns a listing with final labels and splits, and with at most `limit` samples.

    Args:
      listing: listing of all samples.
      spec: the request.
      source: the opened source.
      skipped: files that are not samples.
      folder: folder for new chunk files.

    Raises:
      RequestError: the folders of the input do not fit the request, or globs of the request match nothing.
      LimitError: a container was not read to its end, and the request does not allow that.
    """
    if skipped.damaged:
        # First: without the lost samples, folders may seem to have another meaning.
        source.notes.append(_allow_damage(spec, skipped.damaged))
    examples = (key for keys in skipped.examples.values() for key in keys)
    spec.source.selection.check_globs(listing.unmatched or (), examples)
    if source.is_inferred_later and listing.total:
        change = source.infer(listing.folders)
        if change is not None or spec.source.selection.classes:
            listing = _infer_labels(listing, spec, source, skipped, folder, change or _as_it_is)
    if spec.stratify and spec.splits.fractions is not None:
        listing = stratify(listing, folder, fractions=spec.splits.fractions, seed=spec.seed)
    if spec.limit is not None:
        listing = limit_listing(listing, limit=spec.limit, seed=spec.seed, folder=folder)
    return listing


def _allow_damage(spec: BuildSpec, damaged: Sequence[Damage]) -> str:
    """Returns the note on containers that were not read to their end.

    Raises:
      LimitError: the request does not allow them.
    """
    shown = [
        f"{printable(one.uri)} (after {one.samples:,} samples: {one.detail})"
        for one in sorted(damaged, key=lambda one: one.uri)[:_MOST_DAMAGED]
    ]
    more = [f"{len(damaged) - len(shown):,} more"] if len(damaged) > len(shown) else []
    what = (
        "a container was not read to its end"
        if len(damaged) == 1
        else f"{len(damaged):,} containers were not read to their end"
    )
    found = f"{what}, and an unknown number of samples is lost: {'; '.join([*shown, *more])}"
    if spec.allow_damaged_containers:
        return found
    raise LimitError(f"{found}; get a whole one, or use `allow_damaged_containers` to leave out what is lost")


def _infer_labels(
    listing: Listing,
    spec: BuildSpec,
    source: Source,
    skipped: Skipped,
    folder: str,
    change: Callable[[SampleRef], SampleRef],
) -> Listing:
    """Returns the listing with the final label and split of every sample, restricted to the requested classes."""
    plan = dataclasses.replace(
        plan_listing(spec, source),
        splits=Splits(),  # The fractions are already applied.
        selection=Selection(classes=spec.source.selection.classes),
        summarizes_folders=False,
    )
    return write_listing(map(change, read_refs(listing)), folder, plan=plan, skipped=skipped, stem="inferred-")


def _as_it_is(ref: SampleRef) -> SampleRef:
    return ref
