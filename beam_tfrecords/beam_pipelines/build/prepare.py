"""Prepares a build: checks the request against its input, and copies the listing to the workers' folder."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.checks.listing import check_listing
from beam_tfrecords.beam_pipelines.build.output.lock import HeldOutput, open_folder, refuse_other
from beam_tfrecords.beam_pipelines.build.output.previous import (
    Previous,
    choose_version,
    describe_moved_classes,
    open_previous,
    previous_classes,
    would_repeat,
)
from beam_tfrecords.beam_pipelines.settings.definitions import show_flags
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder

if TYPE_CHECKING:
    from beam_tfrecords.beam_pipelines.build.listing.list_input import ListedInput
    from beam_tfrecords.beam_pipelines.build.resolve import ResolvedBuild
    from beam_tfrecords.transforms.listing.listing import Listing

_log = logging.getLogger(__name__)
_UPLOADS = 16
# Names of chunk files that travel in the pipeline, and cost a store no request.
_FEW_CHUNKS = 16


def prepare_build(
    spec: BuildSpec,
    listed: ListedInput,
    *,
    output: HeldOutput,
    previous: Previous,
    may_repeat: bool = False,
) -> ResolvedBuild | None:
    """Checks the request against the listed input, resolves the build, and takes the right to publish it.

    Args:
      spec: the request, with its layout.
      listed: the listed input.
      output: the output.
      previous: the previous datasets.
      may_repeat: whether to resolve also a build that would repeat the newest version.

    Returns:
      The build; None if it would repeat the newest version.

    Raises:
      RequestError: the request does not match the input.
      OutputLockedError: a job of another build may write to the output.
    """
    from beam_tfrecords.beam_pipelines.build.checks.arrays import resolve_arrays
    from beam_tfrecords.beam_pipelines.build.checks.heads import resolve_heads
    from beam_tfrecords.beam_pipelines.build.checks.ledger import make_ledger
    from beam_tfrecords.beam_pipelines.build.checks.user_function import check_map
    from beam_tfrecords.beam_pipelines.build.identity import describe_metadata
    from beam_tfrecords.beam_pipelines.build.resolve import ResolvedBuild, plan_blocks, plan_publication, plan_search
    from beam_tfrecords.transforms.listing.listing import write_chunk_names
    from beam_tfrecords.transforms.publishing.publication import describe_heads

    listing, tally, source = listed.listing, listed.tally, listed.source
    spec = resolve_arrays(spec, source, listing, tally)
    kept, kept_heads = previous_classes(spec, previous)
    class_names = check_listing(spec, source, listing, tally, kept=kept)
    heads = resolve_heads(spec, source, listing, tally, kept_heads)
    for warning in describe_moved_classes(spec, class_names.names, heads):
        show(f"warning: {show_flags(warning)}", file=sys.stderr)
    plan = plan_blocks(spec, source, listing, class_names, heads=heads, previous=previous, is_new=output.is_new)
    refuse_other(output, plan.folder)
    _log.info("listed %d samples; the folder of the build is %s", listing.total, plan.folder)
    metadata = describe_metadata(
        spec,
        input_fingerprint=listed.fingerprint,
        tally=tally,
        ledger=make_ledger(spec, source, listing, tally, class_names),
        read_with=listed.read_with,
    )
    named = {"class_names": class_names.names, **describe_heads(plan.convert.layout)}
    if not (may_repeat or listing.unknown) and would_repeat(previous, spec, {**metadata, **named}):
        return None
    check_map(spec, plan, listing)
    fence, journal = open_folder(plan.folder, output, keeps=listed.folder)
    if source.is_whole:
        _copy_chunks(listing, BuildFolder(plan.folder).listing)
    has_few = len(listing.chunks) <= _FEW_CHUNKS
    if not has_few:
        write_chunk_names(listing, plan.folder)
    version = choose_version(spec, plan.folder, previous) if spec.versioned else None
    return ResolvedBuild(
        spec,
        tuple(listing.chunks) if has_few else (),
        listing.decisions,
        plan,
        plan_search(spec, plan, listing),
        plan_publication(
            spec, plan, listing, metadata, previous=previous, version=version, fence=fence, journal=journal
        ),
    )


def resolve_listed(spec: BuildSpec, source: Source, folder: str, output: HeldOutput) -> ResolvedBuild:
    """Resolves a build whose input was listed by the pipeline that runs the build.

    Args:
      spec: the request, with its layout.
      source: the opened source.
      folder: folder of the listing.
      output: the output.

    Raises:
      RequestError, OutputLockedError: as `prepare_build`.
    """
    from beam_tfrecords.beam_pipelines.build.listing.list_input import collect_listing
    from beam_tfrecords.transforms.listing.indexing import read_partitions

    # A whole may have changed since it was cut.
    partitions = read_partitions(folder) if source.is_whole else source.partitions
    listed = collect_listing(spec, source, folder, partitions)
    build = prepare_build(spec, listed, output=output, previous=open_previous(spec), may_repeat=True)
    assert build is not None
    return build


def _copy_chunks(listing: Listing, folder: str) -> None:
    def copies(files: Iterable[str]) -> list[str]:
        return [storage.join(folder, storage.basename(file)) for file in files]

    # Sequential copies of the listing of a billion images to a bucket take an hour and a half.
    with ThreadPoolExecutor(_UPLOADS) as pool:
        for _ in pool.map(_copy, listing.files, copies(listing.files)):
            pass
    listing.chunks, listing.overflow_files = copies(listing.chunks), copies(listing.overflow_files)


def _copy(source: str, target: str) -> None:
    storage.write_bytes(target, storage.read_bytes(source))
