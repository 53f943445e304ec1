"""Executors of a listing: this process, or the workers of a build."""

from __future__ import annotations

import contextlib
import functools
import math
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.output.lock import LockedOutput, open_listing, refuse_other
from beam_tfrecords.beam_pipelines.build.output.previous import Previous, would_repeat
from beam_tfrecords.beam_pipelines.build.user_functions import pickled_by_value
from beam_tfrecords.beam_pipelines.runners.execution import Execution
from beam_tfrecords.dataset.published_paths import PublishedPaths
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.transforms.listing.indexing import IndexPlan, index_container, read_containers, write_containers
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.request.published_settings import published_paths
from beam_tfrecords.transforms.sources.containers import Container
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder, Workspace

if TYPE_CHECKING:
    import apache_beam as beam


class Executor(Protocol):
    """Lists the partitions of an input.

    Attributes:
      here: local folder for the chunk files of samples that this process lists.
      resumes: whether a run may read the checkpoints of an earlier run, because the request names their folder.
    """

    here: str
    resumes: bool

    def most_listed_here(self, source: Source) -> float:
        """Returns the number of samples up to which this process lists an input itself, rather than in partitions."""
        ...

    def max_file_size(self, spec: BuildSpec) -> int:
        """Returns the size limit in bytes of samples that need a copy for random access; -1 copies none."""
        ...

    def listing_line(self, spec: BuildSpec) -> AbstractContextManager[Any]:
        """Shows that this process lists the input."""
        ...

    def would_repeat(self, spec: BuildSpec, identity: str) -> bool:
        """Whether a build of these containers would repeat the newest version."""
        ...

    def open_containers(self, spec: BuildSpec, identity: str) -> str:
        """Makes the folder for the listing of containers."""
        ...

    def cut(self, source: Source) -> Sequence[Container]:
        """Returns the partitions of an input without containers; empty if it cannot be split."""
        ...

    def open_partitions(self) -> str:
        """Makes the folder for the listing of partitions, which do not identify the input."""
        ...

    def index(self, partitions: Sequence[Container], source: Source, plan: IndexPlan) -> None:
        """Lists partitions; each writes its listing to a file in the plan's folder.

        Raises:
          RequestError, BuildError: as `list_input`.
        """
        ...


class LocalExecutor:
    """Lists an input in this process; writes nothing outside its folder.

    Args:
      folder: folder for chunk files and copies.
      copies: copies samples without random access, for callers that read them.
    """

    resumes = False

    def __init__(self, folder: str, *, copies: bool) -> None:
        self.here = BuildFolder(folder).listing
        self._folder = folder
        self._copies = copies

    def most_listed_here(self, source: Source) -> float:
        """See `Executor.most_listed_here`."""
        return math.inf

    def max_file_size(self, spec: BuildSpec) -> int:
        """See `Executor.max_file_size`."""
        return spec.max_file_size if self._copies else -1

    def listing_line(self, spec: BuildSpec) -> AbstractContextManager[Any]:
        """See `Executor.listing_line`."""
        return contextlib.nullcontext()

    def would_repeat(self, spec: BuildSpec, identity: str) -> bool:
        """See `Executor.would_repeat`."""
        return False

    def open_containers(self, spec: BuildSpec, identity: str) -> str:
        """See `Executor.open_containers`."""
        return self._folder

    def cut(self, source: Source) -> Sequence[Container]:
        """See `Executor.cut`."""
        return source.partitions()

    def open_partitions(self) -> str:
        """See `Executor.open_partitions`."""
        return self._folder

    def index(self, partitions: Sequence[Container], source: Source, plan: IndexPlan) -> None:
        """See `Executor.index`."""
        for partition in partitions:
            index_container(partition, plan=plan)


class ListedExecutor(LocalExecutor):
    """Takes a listing that a pipeline has already written to the folder."""

    def most_listed_here(self, source: Source) -> float:
        """See `Executor.most_listed_here`."""
        return 0

    def cut(self, source: Source) -> Sequence[Container]:
        """See `Executor.cut`; returns the partitions that the pipeline has listed, because the input may change."""
        return list(read_containers(self._folder))

    def index(self, partitions: Sequence[Container], source: Source, plan: IndexPlan) -> None:
        """See `Executor.index`."""


class DeferredListingError(Exception):
    """The job of the build lists the input, because no process can wait for another job.

    Attributes:
      partitions: the partitions of the input; also in a file of the folder.
      plan: the plan of the workers.
    """

    def __init__(self, partitions: Sequence[Container], plan: IndexPlan) -> None:
        super().__init__()
        self.partitions = partitions
        self.plan = plan


class WorkerExecutor:
    """Lists an input with the workers of a build, in a folder of the output that all of them can access.

    A context manager: on exit, it deletes the local chunk files, and the listing of a refused request.

    Args:
      execution: where pipelines run.
      output: the locked output.
      previous: the previous datasets.
    """

    resumes = True

    def __init__(self, execution: Execution, output: LockedOutput, previous: Previous) -> None:
        self._execution = execution
        self._output = output
        self._previous = previous
        self._stack = contextlib.ExitStack()
        self.here = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="beam-tfrecords-"))

    def __enter__(self) -> WorkerExecutor:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def most_listed_here(self, source: Source) -> float:
        """See `Executor.most_listed_here`."""
        return source.most_listed_here

    def max_file_size(self, spec: BuildSpec) -> int:
        """See `Executor.max_file_size`."""
        return spec.max_file_size

    def listing_line(self, spec: BuildSpec) -> AbstractContextManager[Any]:
        """See `Executor.listing_line`."""
        from beam_tfrecords.beam_pipelines.messages.progress import ListingLine

        return contextlib.nullcontext() if self._execution.quiet else ListingLine(spec.source.input)

    def would_repeat(self, spec: BuildSpec, identity: str) -> bool:
        """See `Executor.would_repeat`.

        Raises:
          OutputLockedError: a job of another build may write to the output.
        """
        from beam_tfrecords.beam_pipelines.build.identity import identify_request, listing_folder

        folder = listing_folder(spec, identity)
        if self._output.job is not None and folder not in Workspace(spec.output).list_listings():
            # The job reads another listing, so it belongs to another build.
            refuse_other(self._output, folder)
        newest = self._previous.newest
        return (
            newest is not None
            and would_repeat(self._previous, spec, identify_request(spec, identity))
            and _are_same(newest.manifest.get("read_with"), published_paths(spec))
        )

    def open_containers(self, spec: BuildSpec, identity: str) -> str:
        """See `Executor.open_containers`. Request and identity determine the folder's name, so a build resumes it."""
        from beam_tfrecords.beam_pipelines.build.identity import listing_folder

        folder = listing_folder(spec, identity)
        open_listing(folder, self._output)
        # A job of an earlier launcher may read the folder.
        if self._output.job is None:
            self._stack.push(functools.partial(_delete_if_refused, folder))
        return folder

    def cut(self, source: Source) -> Sequence[Container]:
        """See `Executor.cut`."""
        return source.partitions()

    def open_partitions(self) -> str:
        """See `Executor.open_partitions`. No other run resumes the folder."""
        # A new name, because a worker of a killed run may still write to its own folder.
        folder = Workspace(self._output.path).listing(uuid.uuid4().hex[:16]).path
        self._stack.push(functools.partial(_delete_unless_deferred, folder))
        return folder

    def index(self, partitions: Sequence[Container], source: Source, plan: IndexPlan) -> None:
        """See `Executor.index`.

        Raises:
          DeferredListingError: the job of the build lists the partitions.
        """
        from beam_tfrecords.beam_pipelines.messages.progress import ListProgress
        from beam_tfrecords.transforms.workspace.counts import clear_stage_counts

        write_containers(partitions, plan.folder)
        if self._execution.runner.lists_in_job:
            raise DeferredListingError(partitions, plan)
        clear_stage_counts(plan.folder)
        what = "pieces of the input" if any(container.partition for container in partitions) else "containers"
        progress = ListProgress(plan.folder, total=len(partitions), what=what)
        with contextlib.nullcontext() if self._execution.quiet else progress, sending_pipeline(source):
            self._execution.run(
                functools.partial(
                    add_listing,
                    partitions=partitions,
                    source=source,
                    plan=plan,
                    processes=self._execution.runner.processes,
                )
            )


def sending_pipeline(source: Source) -> AbstractContextManager[None]:
    """Lets Beam send the user's pipeline to workers, if the source has one."""
    return pickled_by_value(source.pipeline.function) if source.pipeline is not None else contextlib.nullcontext()


def add_listing(
    root: beam.Pipeline, *, partitions: Sequence[Container], source: Source, plan: IndexPlan, processes: int
) -> beam.PCollection[str]:
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
    return samples | "ListSamples" >> ListSamples(plan, partitions[0], pipeline.read)


def _delete_if_refused(folder: str, kind: type[BaseException] | None, *_: Any) -> None:
    if kind is not None and issubclass(kind, RequestError):
        _delete(folder)


def _delete_unless_deferred(folder: str, kind: type[BaseException] | None, *_: Any) -> None:
    if kind is None or not issubclass(kind, DeferredListingError):
        _delete(folder)


def _delete(folder: str) -> None:
    # If this process lacks the permission, the next build deletes it.
    with contextlib.suppress(OSError):
        storage.delete_tree(folder)


def _are_same(read_with: Mapping[str, str] | None, paths: PublishedPaths) -> bool:
    """Whether files still have the fingerprints in a manifest; false if the manifest has none."""
    return read_with is not None and all(
        (path := paths.find(file)) is not None and storage.find_fingerprint(path) == was
        for file, was in read_with.items()
    )
