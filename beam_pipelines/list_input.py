"""Lists an input as a build and a dry run do: wanted samples, final splits, no more samples than asked for."""

from __future__ import annotations

from beam_tfrecords.errors import RequestError
from transforms.listing.limiting import limit_listing
from transforms.listing.listing import Listing, ListPlan, write_listing
from transforms.listing.stratifying import stratify
from transforms.request.build_spec import BuildSpec
from transforms.service_faults import retry_faults
from transforms.sources.source import Source
from transforms.sources.source_spec import Skipped


def plan_listing(spec: BuildSpec) -> ListPlan:
    """How the samples of a request are listed."""
    needs_label = spec.layout is None or spec.layout.needs_label
    count_labels = needs_label or spec.source.label_pattern is not None or bool(spec.source.classes)
    return ListPlan(spec.splits, spec.seed, count_labels=count_labels, selection=spec.source.selection)


def list_samples(spec: BuildSpec, source: Source, folder: str) -> Listing:
    """Lists the samples of a source that has no containers.

    Args:
      spec: the request.
      source: the opened source.
      folder: where the chunk files go.

    Raises:
      RequestError: a folder cannot be read, so that nobody knows which samples are in it.
      BuildError: a service fault.
    """

    def attempt() -> Listing:
        source.skipped = Skipped()
        return write_listing(source.samples(), folder, plan=plan_listing(spec), skipped=source.skipped)

    try:
        listing = retry_faults(", ".join(spec.source.input), attempt)
    except OSError as error:
        raise RequestError(
            f"`input={', '.join(spec.source.input)}`: {error.filename or source.name} cannot be read: "
            f"{error.strerror or error}; make it readable, or take it out of the input"
        ) from error
    return settle_listing(listing, spec, folder)


def settle_listing(listing: Listing, spec: BuildSpec, folder: str) -> Listing:
    """A listing of all samples with their final splits, and with no more samples than `limit`.

    Args:
      listing: of all samples.
      spec: the request.
      folder: where new chunk files go.
    """
    if spec.stratify and spec.splits.fractions is not None:
        listing = stratify(listing, folder, fractions=spec.splits.fractions, seed=spec.seed)
    if spec.limit is not None:
        listing = limit_listing(listing, limit=spec.limit, seed=spec.seed, folder=folder)
    return listing
