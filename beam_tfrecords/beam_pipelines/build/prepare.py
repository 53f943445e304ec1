"""Prepares a build: lists its input, checks the request against it, and copies the listing to the workers' folder."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.checks.listing import check_listing
from beam_tfrecords.beam_pipelines.build.output.lock import LockedOutput, open_folder, refuse_other
from beam_tfrecords.beam_pipelines.build.output.previous import Previous, choose_version, previous_classes, would_repeat
from beam_tfrecords.beam_pipelines.runners.execution import Execution
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder

if TYPE_CHECKING:
    from beam_tfrecords.beam_pipelines.build.resolve import ResolvedBuild
    from beam_tfrecords.transforms.listing.listing import Listing
    from beam_tfrecords.transforms.publishing.publication import Publication

_log = logging.getLogger(__name__)
_UPLOADS = 16


def prepare_build(
    spec: BuildSpec, source: Source, execution: Execution, *, output: LockedOutput, previous: Previous
) -> tuple[ResolvedBuild, Publication] | None:
    """Lists the input, checks the request against it, and resolves the build.

    Args:
      spec: the request, with its layout.
      source: the opened source.
      execution: where pipelines run.
      output: the locked output.
      previous: the previous datasets.

    Returns:
      The build and the right to publish it; None if it would repeat the newest version.

    Raises:
      RequestError: the request does not match the input, or a job of another build may write to the output.
    """
    from beam_tfrecords.beam_pipelines.build.checks.heads import resolve_heads
    from beam_tfrecords.beam_pipelines.build.checks.user_function import check_map
    from beam_tfrecords.beam_pipelines.build.listing.executors import WorkerExecutor
    from beam_tfrecords.beam_pipelines.build.listing.list_input import list_input
    from beam_tfrecords.beam_pipelines.build.resolve import plan_publication, resolve_build
    from beam_tfrecords.transforms.listing.listing import write_chunk_names
    from beam_tfrecords.transforms.publishing.manifest import describe_heads

    with WorkerExecutor(execution, output, previous) as executor:
        listed = list_input(spec, source, executor)
        if listed is None:
            return None
        listing, (kept, kept_heads) = listed.listing, previous_classes(spec, previous)
        class_names = check_listing(spec, source, listing, listed.skipped, kept=kept)
        heads = resolve_heads(spec, source, listing, kept_heads)
        build = resolve_build(spec, source, listed, class_names, heads=heads, previous=previous, is_new=output.is_new)
        refuse_other(output, build.folder)
        _log.info("listed %d samples; the folder of the build is %s", listing.total, build.folder)
        named = {"class_names": class_names.names, **describe_heads(build.search.layout)}
        if not listing.unknown and would_repeat(previous, spec, {**build.metadata, **named}):
            return None
        check_map(build, listing)
        fence, journal = open_folder(build.folder, output, keeps=listed.folder)
        if source.containers() is None:
            _copy_chunks(listing, BuildFolder(build.folder).listing)
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
