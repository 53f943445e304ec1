"""Adds decisions to a listing. Its chunk files are not written again, and are read only if its groups cannot answer."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from beam_tfrecords.transforms.listing.decisions import RowDecision
from beam_tfrecords.transforms.listing.groups import Groups
from beam_tfrecords.transforms.listing.listing import Listing, ListPlan, read_batches, write_listing
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import Scalar
from beam_tfrecords.transforms.sources.detect.path_splits import PathWords
from beam_tfrecords.transforms.sources.selection import EVERYTHING


def decide(
    listing: Listing,
    name: str,
    step: RowDecision,
    *,
    folder: str,
    plan: ListPlan,
    by_sample: Callable[[RefColumns], RefColumns] | None = None,
) -> Listing:
    """Returns a listing with one more decision, and with the totals after it.

    Args:
      listing: the listing; its chunk files are shared.
      name: field of `Decisions`.
      step: the decision.
      folder: folder for new chunk files.
      plan: plan of the listing.
      by_sample: applies the decision, and counts what it leaves out.
    """
    decisions = dataclasses.replace(listing.decisions, **{name: step})
    batches = filter(len, map(by_sample or step.apply, read_batches(listing)))
    if step.is_large or (listing.overflow_files and not step.by_key):
        decided = _write(listing, batches, folder, plan, stem=f"{name}-")
    elif (groups := listing.groups.apply(step)) is not None:
        decided = _of_groups(listing, groups, plan)
        decided.decisions = decisions
    else:
        decided = _count(listing, batches, plan)
        decided.decisions = decisions
    # These say which classes there are.
    decided.labels.update(dict.fromkeys((label for label, count in listing.labels.items() if not count), 0))
    return decided


def _write(listing: Listing, batches: Iterator[RefColumns], folder: str, plan: ListPlan, *, stem: str) -> Listing:
    """Writes the references as all decisions change them to new chunk files."""
    plan = dataclasses.replace(plan, splits=None, selection=EVERYTHING, summarizes_folders=False)
    return _keep(listing, write_listing(batches, folder, plan=plan, stem=stem))


def _count(listing: Listing, batches: Iterable[RefColumns], plan: ListPlan) -> Listing:
    """Counts the references as a decision changes them."""
    counted = dataclasses.replace(
        Listing(), digest=listing.digest, chunks=listing.chunks, overflow_files=listing.overflow_files
    )
    for refs in batches:
        counted.count_classes(refs, plan=plan)
        counted.count(refs, plan=plan)
    return _keep(listing, counted)


def _of_groups(listing: Listing, groups: Groups, plan: ListPlan) -> Listing:
    """Returns a listing with the totals of groups."""
    decided = dataclasses.replace(
        listing, samples=Counter(), source_bytes=Counter(), ref_bytes=Counter(), split_labels={}, groups=groups
    )
    labels: Counter[Scalar] = Counter()
    for group, totals in (groups.totals or {}).items():
        split = group.split or ""
        decided.samples[split] += totals.samples
        decided.source_bytes[split] += totals.source_bytes
        decided.ref_bytes[split] += totals.ref_bytes
        if group.failed or not plan.count_labels:
            continue
        found = totals.labels
        if not group.has_objects:
            found = Counter(group.label if isinstance(group.label, tuple) else [group.label])
            found = Counter({label: count * totals.samples for label, count in found.items()})
        labels.update(found)
        if found:
            decided.split_labels.setdefault(split, set()).update(found)
    decided.labels = labels
    return decided


def _keep(listing: Listing, decided: Listing) -> Listing:
    """Keeps what no decision changes."""
    decided.read_with, decided.unmatched, decided.folders = listing.read_with, listing.unmatched, listing.folders
    decided.objects.left_out = listing.objects.left_out
    return decided


def count_paths(listing: Listing, plan: ListPlan) -> PathWords:
    """Counts the split words in the paths of a listing, whose samples have the splits that the source states."""
    words = PathWords()
    if listing.groups.totals is not None:
        counts = [totals.samples for totals in listing.groups.totals.values()]
        words.add(listing.groups.specimens(), by_image=False, counts=counts)
    else:
        for refs in read_batches(listing):
            words.add(refs, by_image=plan.paths_are_images)
    return words
