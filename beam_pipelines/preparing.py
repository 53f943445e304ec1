"""Lists and checks the input of a build, and keeps other builds away from its output."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
import socket
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.checking import check_listing, check_output
from beam_tfrecords.beam_pipelines.execution.runners import Execution, RunningJob, find_job
from beam_tfrecords.beam_pipelines.places import check_place
from beam_tfrecords.beam_pipelines.versioning import (
    Earlier,
    choose_version,
    earlier_classes,
    open_earlier,
    read_version,
)
from beam_tfrecords.errors import TRIED_AGAIN, BuildError, RequestError
from beam_tfrecords.files import SUCCESS
from beam_tfrecords.storage.fence import Fence
from beam_tfrecords.storage.lease import Lease
from beam_tfrecords.storage.opened import MOST_NOTED
from beam_tfrecords.transforms.labels import ClassNames
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.containers import Container
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.source_spec import Fingerprint, Skipped
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder, Workspace
from beam_tfrecords.transforms.workspace.cleaning import delete_temporary
from beam_tfrecords.transforms.workspace.output_folder import claim_output
from beam_tfrecords.versions import remove

if TYPE_CHECKING:
    from beam_tfrecords.beam_pipelines.execution.runner import Runner
    from beam_tfrecords.beam_pipelines.planning import BuildPlan
    from beam_tfrecords.transforms.listing.listing import Listing

_UPLOADS = 16


@dataclasses.dataclass(frozen=True)
class Output:
    """An output that this launch holds.

    Attributes:
      path: the folder that was given to `convert`.
      lease: keeps other builds away from it.
      old_files: files in it that the build replaces.
      job: of an earlier launcher, which may still write to it; None if there is none.
      fence: the right to publish; that of the job if there is one.
    """

    path: str
    lease: Lease
    old_files: Sequence[str]
    job: RunningJob | None
    fence: Fence


@contextlib.contextmanager
def hold_output(spec: BuildSpec, runner: Runner) -> Iterator[Output]:
    """Keeps other builds away from an output, and looks what is in it.

    Args:
      spec: the request.
      runner: where the build will run.

    Raises:
      RequestError: another build is writing to it, it cannot be written, or the request does not fit what it holds.
    """
    check_place(spec)
    workspace, was_there = Workspace(spec.output), storage.has_scheme(spec.output) or storage.exists(spec.output)
    try:
        try:
            taken = Lease.take(workspace.lease, f"process {os.getpid()} on {socket.gethostname()}")
        except OSError as error:
            raise _not_writable(spec.output, error) from error
        if isinstance(taken, str):
            raise RequestError(
                f"`output={spec.output}`: another build is writing to it, {taken}; wait for its end, or choose another "
                "folder"
            )
        with taken:
            job = find_job(spec.output)
            # A job goes on without its launcher, and may publish.
            fence = Fence.find(workspace.fence) if job else Fence.take_over(workspace.fence, taken)
            try:
                try:
                    old_files = check_output(spec)
                except RequestError:
                    # A misspelt `versioned` or `overwrite` is the likelier mistake.
                    runner.arguments.check_known()
                    raise
                yield Output(spec.output, taken, old_files, job, fence)
            except (OSError, RequestError, BuildError) as error:
                # Another build may have removed what was not found. A store that does not answer is not asked again.
                if not (isinstance(error, BuildError) and storage.has_scheme(spec.output)):
                    taken.check()
                raise
            finally:
                # It stays while there is a build that may go on.
                with contextlib.suppress(OSError, BuildError):
                    if not (job or workspace.list_builds()):
                        fence.remove()
    finally:
        # On network disks an open file cannot be deleted, and until now that of the lease was open.
        storage.delete_if_empty(workspace.path)
        if not was_there:
            storage.delete_if_empty(spec.output)


def prepare_build(spec: BuildSpec, source: Source, execution: Execution, *, output: Output) -> BuildPlan | Earlier:
    """Lists the input, checks the request against it, and puts the listing where all workers find it.

    Args:
      spec: the request.
      source: the opened source.
      execution: where pipelines run.
      output: the output, held.

    Returns:
      The plan; or the datasets before, if the build would make the version before again.

    Raises:
      RequestError: the request does not match the input, or a job of another build may write to the output.
    """
    from beam_tfrecords.beam_pipelines.build_identity import build_folder, describe_facts
    from beam_tfrecords.beam_pipelines.planning import plan_build
    from beam_tfrecords.beam_pipelines.work import plan_work
    from beam_tfrecords.transforms.listing.listing import write_chunk_names

    earlier, containers = open_earlier(spec), source.containers()
    with contextlib.ExitStack() as stack:
        if containers is None:
            listed = _list_samples(spec, source, execution, earlier=earlier, output=output, stack=stack)
        else:
            execution.runner.check_listing_job()
            found = _list_containers(containers, spec, source, execution, earlier=earlier, output=output)
            if found is None:
                return earlier
            listed = found
        listing, class_names = listed.listing, listed.class_names
        facts = describe_facts(
            spec,
            input_fingerprint=listed.fingerprint,
            skipped=listed.skipped,
            notes=source.notes,
            read_with=listed.read_with,
        )
        work = plan_work(
            spec,
            class_names=class_names,
            listing=listing,
            versions=facts["versions"],
            earlier=earlier,
            last_member_wins=source.last_member_wins,
        )
        folder = build_folder(spec, work, listing.fingerprint)
        _refuse_other(output, folder)
        if not listing.unknown and _would_repeat(earlier, spec, {**facts, "class_names": class_names.names}):
            return earlier
        fence = _open_folder(folder, output, execution, keeps=listed.folder)
        if containers is None:
            _copy_chunks(listing, BuildFolder(folder).listing)
    write_chunk_names(listing, folder)
    version = choose_version(spec, folder) if spec.schedule.versioned else None
    return plan_build(
        spec, work, folder=folder, listing=listing, facts=facts, earlier=earlier, version=version, fence=fence
    )


@dataclasses.dataclass(frozen=True)
class _Listed:
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


def _list_samples(
    spec: BuildSpec,
    source: Source,
    execution: Execution,
    *,
    earlier: Earlier,
    output: Output,
    stack: contextlib.ExitStack,
) -> _Listed:
    """Lists an input here, or has workers do it; the chunk files are there until the stack is closed."""
    from beam_tfrecords.beam_pipelines.list_input import ManySamplesError, cut_input, infer_listing, list_samples

    most = execution.runner.most_listed_here(source.most_listed_here)
    here = stack.enter_context(tempfile.TemporaryDirectory(prefix="beam-tfrecords-"))
    listing: Listing | None = None
    # What began to list ends with the block.
    with contextlib.suppress(ManySamplesError):
        listing = list_samples(spec, source, here, most=most)
    parts, shared = cut_input(spec, source) if listing is None else (), None
    if parts:
        shared = stack.enter_context(_folder_of_parts(spec.output))
        listing, source.skipped = _index(parts, source, spec, execution, folder=shared)
        listing = infer_listing(listing, spec, source, source.skipped, BuildFolder(shared).listing)
    listing = listing or list_samples(spec, source, here)
    class_names = check_listing(spec, source, listing, source.skipped, earlier=earlier_classes(spec, earlier))
    return _Listed(listing.fingerprint, listing, source.skipped, class_names, shared)


def _copy_chunks(listing: Listing, folder: str) -> None:
    chunks = [storage.join(folder, storage.basename(chunk)) for chunk in listing.chunks]
    # One after the other, those of a billion images take an hour and a half to a bucket.
    with ThreadPoolExecutor(_UPLOADS) as pool:
        for _ in pool.map(_copy, listing.chunks, chunks):
            pass
    listing.chunks = chunks


@contextlib.contextmanager
def _folder_of_parts(output: str) -> Iterator[str]:
    """A folder that all workers reach, for a listing that no other launch takes over."""
    # A worker of a launch that was killed may still write to another.
    folder = Workspace(output).listing(uuid.uuid4().hex[:16]).path
    try:
        yield folder
    finally:
        # Who may not delete it leaves it to the next build.
        with contextlib.suppress(OSError):
            storage.delete_tree(folder)


def _list_containers(
    containers: Sequence[Container],
    spec: BuildSpec,
    source: Source,
    execution: Execution,
    *,
    earlier: Earlier,
    output: Output,
) -> _Listed | None:
    """Has the workers list the samples of containers; None if a build would make the version before again.

    What is in containers follows from their fingerprints and those of the files that they are read with, so unchanged
    ones are not read.
    """
    from beam_tfrecords.beam_pipelines.build_identity import identify_request, listing_folder
    from beam_tfrecords.beam_pipelines.list_input import infer_listing

    fingerprint = _fingerprint(containers, source.read_with)
    folder = listing_folder(spec, fingerprint)
    if output.job is not None and folder not in Workspace(spec.output).list_listings():
        # It is of another listing, so of another build.
        _refuse_other(output, folder)
    facts = identify_request(spec, fingerprint)
    if _would_repeat(earlier, spec, facts) and earlier.newest and _are_same(earlier.newest.manifest.get("read_with")):
        return None
    source.check_containers()
    _open_listing(folder, output)
    listing, skipped = _index(containers, source, spec, execution, folder=folder)
    read_with, beside = listing.read_with, source.read_with or {}
    if read_with is not None:
        # The others are in the fingerprint.
        read_with = {file: found for file, found in sorted(read_with.items()) if file not in beside}
    try:
        listing = infer_listing(listing, spec, source, skipped, BuildFolder(folder).listing)
        class_names = check_listing(spec, source, listing, skipped, earlier=earlier_classes(spec, earlier))
    except RequestError:
        delete_temporary(spec.output)
        raise
    if read_with is None or len(read_with) > MOST_NOTED:
        # Only the listing tells whether something has changed.
        read_with, fingerprint = None, f"{fingerprint}-{listing.fingerprint}"
    return _Listed(fingerprint, listing, skipped, class_names, folder, read_with)


def _are_same(read_with: Mapping[str, str] | None) -> bool:
    """Whether files have the fingerprints that a manifest says; if it says nothing, nobody knows."""
    return read_with is not None and all(storage.find_fingerprint(file) == was for file, was in read_with.items())


def _copy(source: str, target: str) -> None:
    storage.write_bytes(target, storage.read_bytes(source))


def _would_repeat(earlier: Earlier, spec: BuildSpec, facts: Mapping[str, Any]) -> bool:
    """Whether a build would make the version before again, failures included.

    Args:
      earlier: the datasets before.
      spec: the request.
      facts: what the manifest would say, as far as it is known.
    """
    version = earlier.newest
    return (
        version is not None
        and spec.source.fingerprint is Fingerprint.STAT
        and version.states(facts)
        and not version.find_missing()
        and TRIED_AGAIN.isdisjoint(version.manifest["failure_reasons"])
        and not version.manifest.get("damaged_containers")
    )


def _index(
    containers: Sequence[Container], source: Source, spec: BuildSpec, execution: Execution, *, folder: str
) -> tuple[Listing, Skipped]:
    """Lists containers or parts by a pipeline of its own: the build needs the number of samples, splits and labels."""
    from beam_tfrecords.beam_pipelines.list_input import plan_listing, unreadable_input
    from beam_tfrecords.transforms.listing.indexing import (
        IndexPlan,
        UnreadableError,
        read_index_markers,
        write_containers,
    )
    from beam_tfrecords.transforms.listing.stage import IndexContainers

    assert source.read_container is not None
    plan = IndexPlan(
        folder,
        source.read_container,
        plan_listing(spec, source),
        spec.max_file_size,
        launch=uuid.uuid4().hex,
        trusts_time=spec.source.fingerprint is Fingerprint.STAT,
    )
    stage = IndexContainers(plan, processes=execution.runner.processes)
    write_containers(containers, folder)
    execution.run(lambda root: root | "IndexContainers" >> stage)
    try:
        return read_index_markers(containers, folder)
    except UnreadableError as error:
        raise unreadable_input(OSError(*error.args), spec, source) from error


def _fingerprint(containers: Sequence[Container], read_with: Mapping[str, str] | None) -> str:
    """Changes with the containers, and with the files that were opened to find out how they are read."""
    # Without the version: on some mounts, another launch finds another inode, and resumes all the same.
    packed = [dataclasses.replace(container, version="").pack() for container in containers]
    # Of too many files nobody knows whether one has changed.
    beside = uuid.uuid4().hex if read_with is None else repr(sorted(read_with.items()))
    return hashlib.blake2b(b"".join([*packed, beside.encode(errors="surrogateescape")]), digest_size=16).hexdigest()


def _open_listing(folder: str, output: Output) -> None:
    """Makes the folder for a listing of containers, and removes those of other inputs, unless a job may read them.

    Raises:
      RequestError: the output cannot be written.
      BuildError: so far, by a service fault.
    """
    try:
        if output.job is None:
            with contextlib.suppress(storage.AccessDeniedError):
                for other in Workspace(output.path).list_listings():
                    if other != folder:
                        storage.delete_tree(other)
        storage.write_bytes(BuildFolder(folder).started, b"")
    except OSError as error:
        raise _not_writable(output.path, error) from error


def _open_folder(folder: str, output: Output, execution: Execution, *, keeps: str | None = None) -> Fence:
    """Makes the folder of this build, and removes what other builds and dead attempts have left.

    Args:
      folder: this build's folder for temporary files, whose finished blocks are kept.
      output: the output.
      execution: where pipelines run.
      keeps: another folder that this launch has made.

    Returns:
      The fence of this launch, or of the job that it follows.

    Raises:
      RequestError: the output cannot be written.
      BuildError: so far, by a service fault.
    """
    workspace, version, job = Workspace(output.path), read_version(folder), BuildFolder(folder).job
    if execution.find_running(folder) is not None:
        # The job that is followed has made it, and may be publishing.
        return dataclasses.replace(output.fence, job=job)
    try:
        fence = Fence.take_over(workspace.fence, output.lease) if output.job else output.fence
        fence.check()
        storage.abort_uploads(workspace.path)
        # Who may not delete them keeps them; they do no harm.
        with contextlib.suppress(storage.AccessDeniedError):
            delete_temporary(output.path, keeps=(folder, keeps or folder, workspace.claim, workspace.old_files))
        is_registered = version and storage.exists(workspace.version(version))
        if version and is_registered and not storage.exists(storage.join(output.path, version, SUCCESS)):
            # Its shards may be others than those that this attempt composes.
            delete = functools.partial(storage.delete_checked, staging=folder, check=fence.check)
            remove(output.path, version, delete=delete)
        claim_output(output.path, output.old_files)
        storage.write_bytes(BuildFolder(folder).started, b"")
    except OSError as error:
        raise _not_writable(output.path, error) from error
    return dataclasses.replace(fence, job=job)


def _not_writable(output: str, error: OSError) -> RequestError | BuildError:
    reason = error.strerror or str(error)
    if storage.is_service_fault(error) and not isinstance(error, storage.AccessDeniedError):
        return BuildError(f"{output} cannot be written: {reason}; the same command resumes once it can be")
    return RequestError(f"`output={output}`: cannot be written: {reason}")


def _refuse_other(output: Output, folder: str) -> None:
    """Refuses an output that a job of another build is writing to, or was when this launch began."""
    job = output.job
    if job is None or job.folder == folder:
        return
    shown = job.record.url or job.record.job_id
    if job.is_known:
        raise RequestError(
            f"`output={output.path}`: the job of another build is writing to it, {shown}; wait for its end, cancel it, "
            "or choose another folder"
        )
    raise RequestError(
        f"`output={output.path}`: the job of another build may still write to it, and its runner does not say whether "
        f"it does: {shown}; make sure that it has ended and delete {job.folder}, or choose another folder"
    )
