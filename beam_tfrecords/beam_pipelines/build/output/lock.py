"""The lock of an output: keeps other builds out, and prepares the folder for one build."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import math
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.checks.output import check_location, check_output
from beam_tfrecords.beam_pipelines.build.output.previous import read_version
from beam_tfrecords.beam_pipelines.runners.find_runner import WritingJob, find_running, find_writing
from beam_tfrecords.beam_pipelines.runners.jobs import Run
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.dataset.files import SUCCESS
from beam_tfrecords.dataset.versions import remove
from beam_tfrecords.errors import BuildError, OutputLockedError, RequestError
from beam_tfrecords.storage.fence import Fence
from beam_tfrecords.storage.lease import Lease
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder, Workspace
from beam_tfrecords.transforms.workspace.cleaning import delete_temporary
from beam_tfrecords.transforms.workspace.output_folder import start_journal

if TYPE_CHECKING:
    from beam_tfrecords.beam_pipelines.runners.runner import Runner


_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class HeldOutput:
    """An output that no other build writes to.

    Attributes:
      path: the folder given to `convert`.
      replaced_files: files in the output that the build replaces.
      fence: the right to publish; the fence of `job` if there is a job.
      job: job of an earlier launcher that may still write to the output, or None.
      is_new: whether the output did not exist when this run took the lease, so that nothing in it needs to be read.
    """

    path: str
    replaced_files: Sequence[str]
    fence: Fence
    job: WritingJob | None = None
    is_new: bool = False

    def take_fence(self) -> Fence:
        """Returns the right of this run to publish."""
        return self.fence


@dataclasses.dataclass(frozen=True, kw_only=True)
class LockedOutput(HeldOutput):
    """An output that this process has locked.

    Attributes:
      lease: keeps other builds out.
      is_cleaned: set when the output has no temporary files left.
    """

    lease: Lease
    is_cleaned: threading.Event = dataclasses.field(default_factory=threading.Event)

    def take_fence(self) -> Fence:
        """Returns the right of this run to publish; takes it over from an earlier job."""
        return Fence.take_over(Workspace(self.path).fence, self.lease) if self.job else self.fence


@contextlib.contextmanager
def lock_output(spec: BuildSpec, runner: Runner | None = None) -> Iterator[LockedOutput]:
    """Locks an output against other builds, and checks what it contains.

    Waits for a build that may be dead, at most until its lease is stale.

    Args:
      spec: the request.
      runner: where the build will run; None for a pipeline that runs already.

    Raises:
      OutputLockedError: another build holds the output.
      RequestError: the output cannot be written, or its content does not fit the request.
    """
    check_location(spec)
    workspace, was_there = Workspace(spec.output), storage.has_scheme(spec.output) or storage.exists(spec.output)
    try:
        try:
            waiting = functools.partial(_show_wait, spec.output)
            taken = Lease.take(workspace.lease, Run.of_this_process().launcher, waiting=waiting)
        except OSError as error:
            raise _not_writable(spec.output, error) from error
        if isinstance(taken, str):
            raise OutputLockedError(
                f"`output={spec.output}`: another build is writing to it, {taken}; run the same command again after "
                "its end, or choose another folder"
            )
        with taken:
            is_new = workspace.is_all_there_is()
            job = None if is_new else find_writing(spec.output)
            # A job continues without its launcher, and may publish.
            fence = Fence.find(workspace.fence) if job else Fence.take_over(workspace.fence, taken, is_new=is_new)
            _log.debug("holding %s: is_new=%s, job=%s", spec.output, is_new, job)
            output: LockedOutput | None = None
            try:
                try:
                    replaced_files = [] if is_new else check_output(spec)
                except RequestError:
                    # A misspelt `versioned` or `overwrite` is the more likely mistake.
                    if runner is not None:
                        runner.arguments.check_known()
                    raise
                output = LockedOutput(spec.output, replaced_files, fence, job, is_new, lease=taken)
                yield output
            except (OSError, RequestError, BuildError) as error:
                # Another build may have removed a missing file, so check the lease, unless the store does not answer.
                if not (isinstance(error, BuildError) and storage.has_scheme(spec.output)):
                    taken.check()
                raise
            finally:
                # Keeps the fencing token while any build can still resume.
                with contextlib.suppress(OSError, BuildError):
                    is_cleaned = output is not None and output.is_cleaned.is_set()
                    if is_cleaned and job:
                        # A build that resumes an earlier job has taken its own token since.
                        fence = Fence.find(workspace.fence)
                        taken.check()
                    if is_cleaned or not (job or workspace.list_folders()):
                        fence.remove()
    finally:
        # Network disks cannot delete an open file, and the lease file was open until now.
        storage.delete_if_empty(workspace.path)
        if not was_there:
            storage.delete_if_empty(spec.output)


def _show_wait(output: str, holder: str, seconds: float) -> None:
    show(
        f"waiting: {output} is held by {holder}, which may have died: at most {math.ceil(seconds)} s, until its lease "
        "is renewed or expires",
        file=sys.stderr,
    )


def open_listing(folder: str, output: LockedOutput) -> None:
    """Makes the folder for a listing of containers, and deletes listings of other inputs that no job may read.

    Raises:
      RequestError: the output cannot be written.
      BuildError: a service fault.
    """
    try:
        if output.job is None:
            with contextlib.suppress(storage.AccessDeniedError):
                for other in Workspace(output.path).list_listings():
                    if other not in (folder, Workspace(output.path).expanded):
                        storage.delete_tree(other)
        storage.write_bytes(BuildFolder(folder).started, b"")
    except OSError as error:
        raise _not_writable(output.path, error) from error


def open_folder(folder: str, output: HeldOutput, *, keeps: str | None) -> Fence:
    """Makes the folder of this build, and deletes the temporary files of other builds and dead attempts.

    Args:
      folder: temporary folder of this build, whose finished blocks are kept.
      output: the output.
      keeps: another folder that this run made; None if there is none.

    Returns:
      The fence of this run, or of the job that it follows.

    Raises:
      RequestError: the output cannot be written.
      BuildError: a service fault.
    """
    workspace = Workspace(output.path)
    if output.is_new:
        output.fence.check()
        return output.fence
    version, running = storage.run_concurrently(
        folder, functools.partial(read_version, folder), functools.partial(find_running, folder)
    )
    if running is not None:
        # The followed job made the folder, and may be publishing.
        return output.fence
    try:
        fence = output.take_fence()
        fence.check()
        kept = folder, keeps or folder, workspace.expanded, workspace.journal
        # Files that this process may not delete stay, and do no harm.
        with contextlib.suppress(storage.AccessDeniedError):
            delete_temporary(output.path, keeps=kept)
        is_registered = version and storage.exists(workspace.version(version))
        if version and is_registered and not storage.exists(storage.join(output.path, version, SUCCESS)):
            # Its shards may differ from the shards that this attempt composes.
            delete = functools.partial(storage.delete_checked, staging=folder, check=fence.check)
            remove(output.path, version, delete=delete)
        start_journal(output.path, output.replaced_files)
        if not storage.has_scheme(folder):
            storage.write_bytes(BuildFolder(folder).started, b"")
    except OSError as error:
        raise _not_writable(output.path, error) from error
    return fence


def _not_writable(output: str, error: OSError) -> RequestError | BuildError:
    reason = error.strerror or str(error)
    if storage.is_service_fault(error):
        return BuildError(f"{output} cannot be written: {reason}; fix this and run the same command again to resume")
    return RequestError(f"`output={output}`: cannot be written: {reason}", code="output_not_writable")


def refuse_other(output: HeldOutput, folder: str) -> None:
    """Refuses an output if a job of another build may be writing to it.

    Raises:
      OutputLockedError: the job runs, or its runner does not say whether it does.
    """
    job = output.job
    if job is None or job.folder == folder:
        return
    shown = job.record.url or job.record.job_id
    if job.is_known:
        raise OutputLockedError(
            f"`output={output.path}`: the job of another build is writing to it, {shown}; run the same command again "
            "after its end, cancel it, or choose another folder"
        )
    raise OutputLockedError(
        f"`output={output.path}`: the job of another build may still write to it, and its runner does not say whether "
        f"it does: {shown}; make sure that it has ended and delete {job.folder}, or choose another folder"
    )
