"""Lists an input as a build and a dry run do: wanted samples, final splits, no more samples than asked for."""

from __future__ import annotations

import dataclasses
import gc
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from beam_tfrecords.errors import LimitError, RequestError
from beam_tfrecords.transforms.listing.indexing import read_unchanged
from beam_tfrecords.transforms.listing.limiting import limit_listing
from beam_tfrecords.transforms.listing.listing import Listing, ListPlan, read_refs, write_listing
from beam_tfrecords.transforms.listing.stratifying import stratify
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.sources.containers import Container, StagingFiles, until_damage
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.selection import Selection
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.source_spec import Damage, Skipped
from beam_tfrecords.transforms.splits import Splits

# Damaged containers that a message names.
_MOST_DAMAGED = 3

Result = TypeVar("Result")


def plan_listing(spec: BuildSpec, source: Source) -> ListPlan:
    """How the samples of a request are listed."""
    needs_label = spec.layout is None or spec.layout.needs_label or spec.layout.needs_objects
    count_labels = needs_label or spec.source.label_pattern is not None or bool(spec.source.classes)
    selection = spec.source.selection
    if source.is_inferred_later:
        # Whose class nobody knows yet.
        selection = dataclasses.replace(selection, classes=())
    return ListPlan(
        spec.splits,
        spec.seed,
        count_labels=count_labels,
        selection=selection,
        summarizes_folders=source.is_inferred_later,
    )


class ManySamplesError(Exception):
    """There are more samples than are listed here."""


def list_samples(spec: BuildSpec, source: Source, folder: str, *, most: float = math.inf) -> Listing:
    """Lists the samples of a source that has no containers.

    Raises:
      RequestError: a folder cannot be read, so that nobody knows which samples are in it.
      BuildError: a service fault.
      ManySamplesError: there are more than `most`.
    """

    def attempt() -> Listing:
        source.skipped = Skipped()
        samples = _up_to(most, source.samples())
        return write_listing(samples, folder, plan=plan_listing(spec, source), skipped=source.skipped)

    # A listing leaves no garbage that refers to itself, and looking for it among all modules takes a fifth of its time.
    gc.freeze()
    try:
        listing = _refuse_unreadable(attempt, spec, source)
    finally:
        gc.unfreeze()
    return infer_listing(listing, spec, source, source.skipped, folder)


def _up_to(most: float, samples: Iterable[SampleRef | RefColumns]) -> Iterator[SampleRef | RefColumns]:
    if not most:
        raise ManySamplesError
    count = 0
    for sample in samples:
        count += len(sample) if isinstance(sample, RefColumns) else 1
        if count > most:
            raise ManySamplesError
        yield sample


def cut_input(spec: BuildSpec, source: Source) -> Sequence[Container]:
    """The parts of a source that workers list; empty if they do not.

    Raises:
      RequestError, BuildError: as `list_samples`.
    """
    return _refuse_unreadable(source.parts, spec, source)


def _refuse_unreadable(read: Callable[[], Result], spec: BuildSpec, source: Source) -> Result:
    try:
        return retry_faults(", ".join(spec.source.input), read)
    except OSError as error:
        raise unreadable_input(error, spec, source) from error


def unreadable_input(error: OSError, spec: BuildSpec, source: Source) -> RequestError:
    """The error for an input with a folder that cannot be read."""
    return RequestError(
        f"`input={', '.join(spec.source.input)}`: {error.filename or source.name} cannot be read: "
        f"{error.strerror or error}; make it readable, or take it out of the input"
    )


def list_containers_here(
    containers: Sequence[Container], spec: BuildSpec, source: Source, folder: str, *, spools: str | None = None
) -> tuple[Listing, Skipped]:
    """Lists archives here, one after the other; a build does it in parallel.

    Args:
      spools: folder for what cannot be read at random where it is; None if nobody will read it.
    """
    source.check_containers()
    listing, skipped = Listing(), Skipped()
    for number, container in enumerate(containers):

        def read(container: Container, stem: str = f"{number:06d}-") -> tuple[Listing, Skipped]:
            staging = StagingFiles(folder, "", most_bytes=-1)
            if spools is not None:
                staging = StagingFiles(spools, stem, most_bytes=spec.max_file_size)
            with staging:
                return _list_container(container, spec, source, folder, stem=stem, staging=staging)

        listed, skipped_there = read_unchanged(container, read)
        listing.merge(listed)
        skipped.merge(skipped_there)
    return infer_listing(listing, spec, source, skipped, folder), skipped


def _list_container(
    container: Container, spec: BuildSpec, source: Source, folder: str, *, stem: str, staging: StagingFiles
) -> tuple[Listing, Skipped]:
    assert source.read_container is not None
    skipped = Skipped()
    samples = until_damage(source.read_container(container, staging, skipped), container, skipped)
    return write_listing(samples, folder, plan=plan_listing(spec, source), skipped=skipped, stem=stem), skipped


def infer_listing(listing: Listing, spec: BuildSpec, source: Source, skipped: Skipped, folder: str) -> Listing:
    """A listing of all samples with their final labels and splits, and with no more samples than `limit`.

    Args:
      listing: of all samples.
      spec: the request.
      source: the opened source.
      skipped: files that are not samples.
      folder: where new chunk files go.

    Raises:
      RequestError: the folders of the input do not fit the request, or globs of the request match nothing.
      LimitError: a container was not read to its end, and the request does not allow that.
    """
    if skipped.damaged:
        # First: without the samples that are lost, folders may seem to mean something else.
        source.notes.append(allow_damage(spec, skipped.damaged))
    examples = (key for keys in skipped.examples.values() for key in keys)
    spec.source.selection.check_globs(listing.unmatched or (), examples)
    if source.is_inferred_later and listing.total:
        change = source.infer(listing.folders)
        if change is not None or spec.source.classes:
            listing = _infer_labels(listing, spec, source, skipped, folder, change or _as_it_is)
    if spec.stratify and spec.splits.fractions is not None:
        listing = stratify(listing, folder, fractions=spec.splits.fractions, seed=spec.seed)
    if spec.limit is not None:
        listing = limit_listing(listing, limit=spec.limit, seed=spec.seed, folder=folder)
    return listing


def allow_damage(spec: BuildSpec, damaged: Sequence[Damage]) -> str:
    """The note on containers that were not read to their end.

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
    raise LimitError(f"{found}; get a whole one, or say `allow_damaged_containers` to leave out what is lost")


def _infer_labels(
    listing: Listing,
    spec: BuildSpec,
    source: Source,
    skipped: Skipped,
    folder: str,
    change: Callable[[SampleRef], SampleRef],
) -> Listing:
    """The listing with the final label and split of every sample, and with those of the wanted classes only."""
    plan = dataclasses.replace(
        plan_listing(spec, source),
        splits=Splits(),  # Fractions have been cut.
        selection=Selection(classes=spec.source.classes),
        summarizes_folders=False,
    )
    return write_listing(map(change, read_refs(listing)), folder, plan=plan, skipped=skipped, stem="inferred-")


def _as_it_is(ref: SampleRef) -> SampleRef:
    return ref
