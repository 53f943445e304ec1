"""Lists containers, or parts of a large input, by a pipeline of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.user_functions import pickled_by_value
from beam_tfrecords.beam_pipelines.runners.runners import Execution
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage.opened import MOST_NOTED
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.containers import Container
from beam_tfrecords.transforms.sources.source import ReadPipeline, Source
from beam_tfrecords.transforms.sources.source_spec import Fingerprint, Skipped
from beam_tfrecords.transforms.workspace.build_folder import Workspace

if TYPE_CHECKING:
    from beam_tfrecords.transforms.listing.indexing import IndexPlan
    from beam_tfrecords.transforms.listing.listing import Listing


def index_input(
    containers: Sequence[Container], source: Source, spec: BuildSpec, execution: Execution, *, folder: str
) -> tuple[Listing, Skipped]:
    """Has the workers list containers or parts: the build needs the number of samples, splits and labels."""
    from beam_tfrecords.beam_pipelines.build.listing.local_listing import plan_listing, unreadable_input
    from beam_tfrecords.beam_pipelines.runners.progress import ListProgress
    from beam_tfrecords.transforms.listing.indexing import (
        IndexPlan,
        UnreadableError,
        read_index_markers,
        write_containers,
    )
    from beam_tfrecords.transforms.listing.stage import IndexContainers
    from beam_tfrecords.transforms.workspace.counts import clear_stage_counts

    plan = IndexPlan(
        folder,
        source.read_container,
        plan_listing(spec, source),
        spec.max_file_size,
        launch=uuid.uuid4().hex,
        trusts_time=spec.source.fingerprint is Fingerprint.STAT,
    )
    write_containers(containers, folder)
    clear_stage_counts(folder)
    what = "pieces of the input" if any(container.part for container in containers) else "containers"
    progress = ListProgress(folder, total=len(containers), what=what)
    with contextlib.nullcontext() if execution.quiet else progress:
        if source.pipeline is not None:
            _run_pipeline(source.pipeline, plan, containers[0], execution)
        else:
            stage = IndexContainers(plan, processes=execution.runner.processes)
            execution.run(lambda root: root | "IndexContainers" >> stage)
    try:
        return read_index_markers(containers, folder)
    except UnreadableError as error:
        raise unreadable_input(OSError(*error.args), spec, source) from error


def _run_pipeline(pipeline: ReadPipeline, plan: IndexPlan, container: Container, execution: Execution) -> None:
    """Runs the pipeline of the user, which lists its samples.

    Raises:
      RequestError: its function fails, or gives no collection.
      BuildError: the pipeline failed.
    """
    import apache_beam as beam

    from beam_tfrecords.transforms.listing.stage import ListSamples

    shown = f"`input={pipeline.function.name}`"

    def add_stages(root: beam.Pipeline) -> None:
        try:
            samples = pipeline.make(root)
        except Exception as error:  # whatever the user's function raises
            raise BuildError(f"{shown}: it fails: {pipeline.function.describe(error)}") from error
        if not isinstance(samples, beam.PCollection):
            raise BuildError(
                f"{shown}: without `parts`, a function of one parameter is given a pipeline, and this one returned "
                f"{type(samples).__name__}; expected a collection of samples, or the parts in `parts`"
            )
        _ = samples | "ListSamples" >> ListSamples(plan, container, pipeline.read)

    with pickled_by_value(pipeline.function):
        execution.run(add_stages)


@contextlib.contextmanager
def folder_of_parts(output: str) -> Iterator[str]:
    """A folder that all workers reach, for a listing that no other launch takes over."""
    # A worker of a launch that was killed may still write to another.
    folder = Workspace(output).listing(uuid.uuid4().hex[:16]).path
    try:
        yield folder
    finally:
        # Who may not delete it leaves it to the next build.
        with contextlib.suppress(OSError):
            storage.delete_tree(folder)


def identify_containers(containers: Sequence[Container], read_with: Mapping[str, str] | None) -> str:
    """Changes with the containers, and with the files that were opened to find out how they are read."""
    # Without the version: on some mounts, another launch finds another inode, and resumes all the same.
    packed = [dataclasses.replace(container, version="").pack() for container in containers]
    # If there are too many files, nobody knows whether a file has changed.
    beside = uuid.uuid4().hex if read_with is None else repr(sorted(read_with.items()))
    return hashlib.blake2b(b"".join([*packed, beside.encode(errors="surrogateescape")]), digest_size=16).hexdigest()


def find_read_with(listing: Listing, source: Source) -> Mapping[str, str] | None:
    """As `Listing.read_with`, without the files that are in the fingerprint; None if there are too many."""
    if listing.read_with is None:
        return None
    known = source.read_with or {}
    others = {file: found for file, found in sorted(listing.read_with.items()) if file not in known}
    return others if len(others) <= MOST_NOTED else None
