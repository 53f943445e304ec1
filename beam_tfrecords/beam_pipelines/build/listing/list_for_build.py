"""Lists the input of a build: here, by the workers in a pipeline of their own, or by the job of the build."""

from __future__ import annotations

import contextlib
import functools
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.identity import identify_request, listing_folder
from beam_tfrecords.beam_pipelines.build.listing.list_input import (
    CutError,
    ListedInput,
    collect_listing,
    identify_partitions,
    list_here,
    plan_index,
)
from beam_tfrecords.beam_pipelines.build.listing.source_opening import check_source
from beam_tfrecords.beam_pipelines.build.output.lock import LockedOutput, open_listing, refuse_other
from beam_tfrecords.beam_pipelines.build.output.previous import Previous, would_repeat
from beam_tfrecords.beam_pipelines.build.user_functions import pickled_by_value
from beam_tfrecords.beam_pipelines.runners.execution import Execution
from beam_tfrecords.dataset.published_paths import PublishedPaths
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.transforms.listing.indexing import IndexPlan, write_partitions
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.partition import Partition
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.source_spec import Fingerprint
from beam_tfrecords.transforms.workspace.build_folder import Workspace

if TYPE_CHECKING:
    import apache_beam as beam


@contextlib.contextmanager
def list_for_build(
    spec: BuildSpec, source: Source, execution: Execution, output: LockedOutput, previous: Previous
) -> Iterator[ListedInput | IndexPlan | None]:
    """Lists an input, with workers if its partitions identify it or it has many samples.

    Workers write to a folder of the output that all of them can access. The context deletes local chunk files, the
    listing of a refused request, and a listing that no other run can resume.

    Args:
      spec: the request, with its layout.
      source: the opened source.
      execution: where pipelines run.
      output: the locked output.
      previous: the previous datasets.

    Yields:
      The listing; None if a build of these partitions would repeat the newest version. If the runner lets no process
      wait for another job, the plan with which the job of the build lists the partitions in the plan's folder.

    Raises:
      RequestError: the input cannot be read, or does not fit the request.
      OutputLockedError: a job of another build may write to the output.
      BuildError: a service fault.
    """
    with tempfile.TemporaryDirectory(prefix="beam-tfrecords-") as here, contextlib.ExitStack() as stack:
        if not source.is_whole:
            partitions = source.partitions
            paths, by_folders = spec.published_paths, source.description.is_inferred_later
            identity = identify_partitions(partitions, source.read_with, paths)
            # Files beside archives, such as those of class names, change no listing of their members.
            raw = identify_partitions(partitions, {}, paths) if by_folders else identity
            # Request and partitions determine the folder's name, so a build resumes it.
            folder = listing_folder(spec, raw, by_folders=by_folders)
            if _would_repeat(spec, identity, folder, output, previous):
                yield None
                return
            check_source(spec, source)
            open_listing(folder, output)
            # A job of an earlier launcher may read the folder.
            if output.job is None:
                stack.push(functools.partial(_delete_if_refused, folder))
        else:
            check_source(spec, source)
            found = _list_or_cut(spec, source, here, quiet=execution.quiet)
            if isinstance(found, ListedInput):
                yield found
                return
            partitions = found
            # A new name, because a worker of a killed run may still write to its own folder.
            folder = Workspace(output.path).listing(uuid.uuid4().hex[:16]).path
            stack.callback(_delete, folder)
        trusts_time = spec.fingerprint is Fingerprint.STAT
        plan = plan_index(spec, source, folder, max_file_size=spec.max_file_size, trusts_time=trusts_time)
        write_partitions(partitions, folder)
        if execution.runner.lists_in_job:
            stack.pop_all()
            yield plan
            return
        list_by_workers(partitions, source, plan, execution)
        yield collect_listing(spec, source, folder, partitions)


def _would_repeat(spec: BuildSpec, identity: str, folder: str, output: LockedOutput, previous: Previous) -> bool:
    """Whether a build of these partitions would repeat the newest version.

    Raises:
      OutputLockedError: a job of another build may write to the output.
    """
    if output.job is not None and folder not in Workspace(spec.output).list_listings():
        # The job reads another listing, so it belongs to another build.
        refuse_other(output, folder)
    newest = previous.newest
    return (
        newest is not None
        and would_repeat(previous, spec, identify_request(spec, identity))
        and _are_same(newest.manifest.get("read_with"), spec.published_paths)
    )


def _are_same(read_with: Mapping[str, str] | None, paths: PublishedPaths) -> bool:
    """Whether files still have the fingerprints in a manifest; false if the manifest has none."""
    return read_with is not None and all(
        (path := paths.find(file)) is not None and storage.find_fingerprint(path) == was
        for file, was in read_with.items()
    )


def _list_or_cut(spec: BuildSpec, source: Source, folder: str, *, quiet: bool) -> ListedInput | Sequence[Partition]:
    """Lists a whole here, or returns its partitions if workers are faster for its size."""
    from beam_tfrecords.beam_pipelines.messages.progress import ListingLine

    try:
        # Everything that the listing has started ends with the block.
        with contextlib.nullcontext() if quiet else ListingLine(spec.input):
            return list_here(spec, source, folder, cut=source.cut)
    except CutError as cut:
        return cut.partitions


def list_by_workers(partitions: Sequence[Partition], source: Source, plan: IndexPlan, execution: Execution) -> None:
    """Runs a pipeline that lists partitions; each writes its listing to a file in the plan's folder.

    Raises:
      BuildError: a service fault, or the user's function fails.
    """
    from beam_tfrecords.beam_pipelines.messages.progress import ListProgress
    from beam_tfrecords.transforms.workspace.counts import clear_stage_counts

    clear_stage_counts(plan.folder)
    what = "pieces of the input" if any(partition.part for partition in partitions) else "containers"
    progress = ListProgress(plan.folder, total=len(partitions), what=what)
    stages = functools.partial(add_listing, source=source, plan=plan, processes=execution.runner.processes)
    with contextlib.nullcontext() if execution.quiet else progress, sending_pipeline(source):
        execution.run(stages)


def sending_pipeline(source: Source) -> AbstractContextManager[None]:
    """Lets Beam send the user's pipeline to workers, if the source has one."""
    return pickled_by_value(source.pipeline.function) if source.pipeline is not None else contextlib.nullcontext()


def add_listing(root: beam.Pipeline, *, source: Source, plan: IndexPlan, processes: int) -> beam.PCollection[str]:
    """Adds the stages that list the partitions of an input, or the samples of the user's pipeline: -> checkpoint files.

    Raises:
      BuildError: the user's function fails, or returns no collection.
    """
    import apache_beam as beam

    from beam_tfrecords.transforms.listing.stage import IndexContainers, ListSamples

    pipeline = source.pipeline
    if pipeline is None:
        return root | "IndexContainers" >> IndexContainers(plan, processes=processes)
    shown = f"`input={pipeline.function.name}`"
    try:
        samples = pipeline.make(root)
    except Exception as error:  # any error of the user's function
        raise BuildError(f"{shown}: it fails: {pipeline.function.describe(error)}") from error
    if not isinstance(samples, beam.PCollection):
        raise BuildError(
            f"{shown}: without `parts`, a function of one parameter is given a pipeline, and this one returned "
            f"{type(samples).__name__}; expected a collection of samples, or the parts in `parts`"
        )
    return samples | "ListSamples" >> ListSamples(plan, pipeline.without_code(), pipeline.read)


def _delete_if_refused(folder: str, kind: type[BaseException] | None, *_: Any) -> None:
    if kind is not None and issubclass(kind, RequestError):
        _delete(folder)


def _delete(folder: str) -> None:
    # If this process lacks the permission, the next build deletes it.
    with contextlib.suppress(OSError):
        storage.delete_tree(folder)
