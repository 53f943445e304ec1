"""The listing of a build: made here, or by workers, and checked against the request."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.checks.listing import check_listing
from beam_tfrecords.beam_pipelines.build.listing.worker_listing import (
    find_read_with,
    folder_of_parts,
    identify_containers,
    index_input,
)
from beam_tfrecords.beam_pipelines.build.output.lock import Output, deleted_if_refused, open_listing, refuse_other
from beam_tfrecords.beam_pipelines.build.output.previous import Previous, previous_classes, would_repeat
from beam_tfrecords.beam_pipelines.runners.runners import Execution
from beam_tfrecords.transforms.labels import ClassNames
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.containers import Container
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.source_spec import Skipped
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder, Workspace

if TYPE_CHECKING:
    from beam_tfrecords.transforms.listing.listing import Listing


@dataclasses.dataclass(frozen=True)
class Listed:
    """A listed input.

    Attributes:
      fingerprint: of the input, for the manifest.
      listing: its samples.
      skipped: files that are not samples.
      class_names: its classes.
      folder: the folder below the output with the listing; None if it is a folder of this machine.
      read_with: as `Listing.read_with`.
    """

    fingerprint: str
    listing: Listing
    skipped: Skipped
    class_names: ClassNames
    folder: str | None
    read_with: Mapping[str, str] | None = None


def list_input(
    spec: BuildSpec,
    source: Source,
    execution: Execution,
    *,
    earlier: Previous,
    output: Output,
    stack: contextlib.ExitStack,
) -> Listed:
    """Lists an input here, or has workers do it; the chunk files are there until the stack is closed."""
    from beam_tfrecords.beam_pipelines.build.listing.local_listing import (
        ManySamplesError,
        cut_input,
        infer_listing,
        list_samples,
    )
    from beam_tfrecords.beam_pipelines.runners.progress import ListingLine

    def line() -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext() if execution.quiet else ListingLine(spec.source.input)

    most = execution.runner.most_listed_here(source.most_listed_here)
    here = stack.enter_context(tempfile.TemporaryDirectory(prefix="beam-tfrecords-"))
    listing: Listing | None = None
    # What began to list ends with the block.
    with contextlib.suppress(ManySamplesError), line():
        listing = list_samples(spec, source, here, most=most)
    parts, shared = cut_input(spec, source) if listing is None else (), None
    if parts:
        shared = stack.enter_context(folder_of_parts(spec.output))
        listing, source.skipped = index_input(parts, source, spec, execution, folder=shared)
        listing = infer_listing(listing, spec, source, source.skipped, BuildFolder(shared).listing)
    if listing is None:
        with line():
            listing = list_samples(spec, source, here)
    class_names = check_listing(spec, source, listing, source.skipped, earlier=previous_classes(spec, earlier))
    return Listed(listing.fingerprint, listing, source.skipped, class_names, shared)


def list_containers(
    containers: Sequence[Container],
    spec: BuildSpec,
    source: Source,
    execution: Execution,
    *,
    earlier: Previous,
    output: Output,
) -> Listed | None:
    """Has the workers list the samples of containers; None if a build would make the version before again.

    What is in containers follows from their fingerprints and those of the files that they are read with, so unchanged
    ones are not read.
    """
    from beam_tfrecords.beam_pipelines.build.identity import identify_request, listing_folder
    from beam_tfrecords.beam_pipelines.build.listing.local_listing import infer_listing

    fingerprint = identify_containers(containers, source.read_with)
    folder = listing_folder(spec, fingerprint)
    if output.job is not None and folder not in Workspace(spec.output).list_listings():
        # It is of another listing, so of another build.
        refuse_other(output, folder)
    facts = identify_request(spec, fingerprint)
    if would_repeat(earlier, spec, facts) and earlier.newest and _are_same(earlier.newest.manifest.get("read_with")):
        return None
    source.check_containers()
    open_listing(folder, output)
    listing, skipped = index_input(containers, source, spec, execution, folder=folder)
    read_with = find_read_with(listing, source)
    with deleted_if_refused(spec.output):
        listing = infer_listing(listing, spec, source, skipped, BuildFolder(folder).listing)
        class_names = check_listing(spec, source, listing, skipped, earlier=previous_classes(spec, earlier))
    if read_with is None:
        # Only the listing tells whether something has changed.
        fingerprint = f"{fingerprint}-{listing.fingerprint}"
    return Listed(fingerprint, listing, skipped, class_names, folder, read_with)


def _are_same(read_with: Mapping[str, str] | None) -> bool:
    """Whether files have the fingerprints that a manifest says; if it says nothing, nobody knows."""
    return read_with is not None and all(storage.find_fingerprint(file) == was for file, was in read_with.items())
