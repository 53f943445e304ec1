"""Prepares a build: lists its input, checks the request against it, and copies the listing to the workers' folder."""

from __future__ import annotations

import dataclasses
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
    previous_classes,
    would_repeat,
)
from beam_tfrecords.beam_pipelines.settings.definitions import show_flags
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder

if TYPE_CHECKING:
    from beam_tfrecords.beam_pipelines.build.listing.executors import Executor
    from beam_tfrecords.beam_pipelines.build.resolve import ResolvedBuild
    from beam_tfrecords.transforms.listing.listing import Listing
    from beam_tfrecords.transforms.publishing.publication import Publication

_log = logging.getLogger(__name__)
_UPLOADS = 16
# Names of chunk files that travel in the pipeline, and cost a store no request.
_FEW_CHUNKS = 16


def prepare_build(
    spec: BuildSpec,
    source: Source,
    executor: Executor,
    *,
    output: HeldOutput,
    previous: Previous,
    may_repeat: bool = False,
) -> tuple[ResolvedBuild, Publication] | None:
    """Lists the input, checks the request against it, and resolves the build.

    Args:
      spec: the request, with its layout.
      source: the opened source.
      executor: lists the input.
      output: the output.
      previous: the previous datasets.
      may_repeat: whether to resolve also a build that would repeat the newest version.

    Returns:
      The build and the right to publish it; None if it would repeat the newest version.

    Raises:
      RequestError: the request does not match the input.
      OutputLockedError: a job of another build may write to the output.
      DeferredListingError: see `WorkerExecutor.index`.
    """
    from beam_tfrecords.beam_pipelines.build.checks.arrays import resolve_arrays
    from beam_tfrecords.beam_pipelines.build.checks.heads import resolve_heads
    from beam_tfrecords.beam_pipelines.build.checks.user_function import check_map
    from beam_tfrecords.beam_pipelines.build.listing.list_input import list_input
    from beam_tfrecords.beam_pipelines.build.resolve import plan_publication, resolve_build
    from beam_tfrecords.transforms.listing.listing import write_chunk_names
    from beam_tfrecords.transforms.publishing.manifest import describe_heads

    listed = list_input(spec, source, executor)
    if listed is None:
        return None
    spec = resolve_arrays(spec, source, listed.listing)
    listing, (kept, kept_heads) = listed.listing, previous_classes(spec, previous)
    class_names = check_listing(spec, source, listing, listed.skipped, kept=kept)
    heads = resolve_heads(spec, source, listing, kept_heads)
    for warning in describe_moved_classes(spec, class_names.names, heads):
        show(f"warning: {show_flags(warning)}", file=sys.stderr)
    build = resolve_build(spec, source, listed, class_names, heads=heads, previous=previous, is_new=output.is_new)
    refuse_other(output, build.folder)
    _log.info("listed %d samples; the folder of the build is %s", listing.total, build.folder)
    named = {"class_names": class_names.names, **describe_heads(build.search.layout)}
    if not (may_repeat or listing.unknown) and would_repeat(previous, spec, {**build.metadata, **named}):
        return None
    check_map(build, listing)
    fence, journal = open_folder(build.folder, output, keeps=listed.folder)
    if source.containers() is None:
        _copy_chunks(listing, BuildFolder(build.folder).listing)
    if len(listing.chunks) <= _FEW_CHUNKS:
        build = dataclasses.replace(build, chunks=tuple(listing.chunks))
    else:
        write_chunk_names(listing, build.folder)
    version = choose_version(spec, build.folder, previous) if spec.schedule.versioned else None
    return build, plan_publication(build, version=version, fence=fence, journal=journal)


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
