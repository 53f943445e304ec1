"""Lists and checks the input of a build, and keeps other builds away from its output."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import socket
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from beam_pipelines.checking import check_listing, check_output
from beam_pipelines.execution.dataflow import refuse_template
from beam_pipelines.execution.runners import Execution, find_other_job
from beam_pipelines.versioning import Earlier, choose_version, open_earlier
from beam_tfrecords import storage
from beam_tfrecords.errors import TRIED_AGAIN, RequestError
from beam_tfrecords.storage.lease import Lease
from transforms.labels import ClassNames
from transforms.request.build_spec import BuildSpec
from transforms.sources.containers import Container
from transforms.sources.source import Source
from transforms.sources.source_spec import Fingerprint, Skipped
from transforms.workspace.build_folder import BuildFolder, Workspace
from transforms.workspace.cleaning import delete_temporary
from transforms.workspace.output_folder import claim_output, find_old_files

if TYPE_CHECKING:
    from beam_pipelines.planning import BuildPlan
    from transforms.listing.listing import Listing

_UPLOADS = 16


def prepare_build(spec: BuildSpec, source: Source, execution: Execution, *, held: contextlib.ExitStack) -> BuildPlan:
    """Lists the input, checks the request against it, and puts the listing where all workers find it.

    Args:
      spec: the request.
      source: the opened source.
      execution: where pipelines run.
      held: gets what keeps other builds away from the output: a lock, or a lease in an object store.

    Raises:
      RequestError: the request does not match the input, or another build is writing to the output.
    """
    lease = held.enter_context(_take_lease(spec.output)) if storage.has_scheme(spec.output) else None
    plan = _list_and_plan(spec, source, execution, held=held)
    if lease is None:
        return plan
    return dataclasses.replace(plan, publication=dataclasses.replace(plan.publication, lease=lease.id))


def _list_and_plan(spec: BuildSpec, source: Source, execution: Execution, *, held: contextlib.ExitStack) -> BuildPlan:
    from beam_pipelines.list_input import list_samples, settle_listing
    from beam_pipelines.planning import build_folder

    earlier = open_earlier(spec)
    containers = source.containers()
    if containers is not None:
        refuse_template(execution.runner.arguments.given["template_location"])
        folder = build_folder(spec, _fingerprint(containers), earlier)
        held.enter_context(_writing(spec, folder))
        listing, skipped = _index(containers, source, spec, execution, folder=folder)
        listing = settle_listing(listing, spec, BuildFolder(folder).listing)
        _forget_other_blocks(folder, listing.fingerprint)
        try:
            class_names = check_listing(spec, source, listing, skipped)
        except RequestError:
            delete_temporary(spec.output)
            raise
        return _plan(
            spec, source, folder=folder, class_names=class_names, listing=listing, skipped=skipped, earlier=earlier
        )
    with tempfile.TemporaryDirectory(prefix="beam-tfrecords-") as spool:
        listing = list_samples(spec, source, spool)
        class_names = check_listing(spec, source, listing, source.skipped)
        folder = build_folder(spec, listing.fingerprint, earlier)
        held.enter_context(_writing(spec, folder))
        chunks = [storage.join(BuildFolder(folder).listing, storage.basename(chunk)) for chunk in listing.chunks]
        # One after the other, those of a billion images take an hour and a half to a bucket.
        with ThreadPoolExecutor(_UPLOADS) as pool:
            for _ in pool.map(_copy, listing.chunks, chunks):
                pass
        listing.chunks = chunks
    return _plan(
        spec, source, folder=folder, class_names=class_names, listing=listing, skipped=source.skipped, earlier=earlier
    )


def _copy(source: str, target: str) -> None:
    storage.write_bytes(target, storage.read_bytes(source))


def _plan(
    spec: BuildSpec,
    source: Source,
    *,
    folder: str,
    class_names: ClassNames,
    listing: Listing,
    skipped: Skipped,
    earlier: Earlier,
) -> BuildPlan:
    from beam_pipelines.planning import describe_facts, plan_build
    from transforms.listing.listing import write_chunk_names

    write_chunk_names(listing, folder)
    facts = describe_facts(spec, input_fingerprint=listing.fingerprint, skipped=skipped, notes=source.notes)
    knows_files = spec.source.fingerprint is Fingerprint.STAT and not listing.unknown
    expected = {**facts, "class_names": class_names.names}
    # A build of this request would make the version before again, failures included.
    is_unchanged = (
        earlier.version is not None
        and knows_files
        and earlier.version.states(expected)
        and not earlier.version.find_missing()
        and TRIED_AGAIN.isdisjoint(earlier.version.manifest["failure_reasons"])
    )
    version = choose_version(spec, folder) if spec.schedule.versioned else None
    return plan_build(
        spec,
        folder=folder,
        class_names=class_names,
        listing=listing,
        facts=facts,
        earlier=earlier,
        version=version,
        is_unchanged=is_unchanged,
    )


def _index(
    containers: Sequence[Container], source: Source, spec: BuildSpec, execution: Execution, *, folder: str
) -> tuple[Listing, Skipped]:
    """Lists the samples of containers by a pipeline of its own: the build needs their number, splits and labels."""
    from beam_pipelines.list_input import plan_listing
    from transforms.listing.indexing import IndexPlan, read_index_markers, write_containers
    from transforms.listing.stage import IndexContainers

    assert source.read_container is not None
    plan = IndexPlan(folder, source.read_container, plan_listing(spec), spec.max_file_size, launch=uuid.uuid4().hex)
    stage = IndexContainers(plan, processes=execution.runner.processes)
    write_containers(containers, folder)
    execution.run(lambda root: root | "IndexContainers" >> stage)
    return read_index_markers(containers, folder)


def _forget_other_blocks(folder: str, listing_fingerprint: str) -> None:
    """Removes the markers of blocks of another listing: archives that no launch could read before are tried again.

    The listing of containers is made in the folder of the build, so it cannot be a part of the folder's name.
    """
    listed, fingerprint = BuildFolder(folder).listed, listing_fingerprint.encode()
    if storage.exists(listed) and storage.read_bytes(listed) == fingerprint:
        return
    storage.delete_tree(BuildFolder(folder).blocks)
    storage.write_bytes(listed, fingerprint)


def _fingerprint(containers: Sequence[Container]) -> str:
    # Without the version: on some mounts, another launch finds another inode, and resumes all the same.
    packed = (dataclasses.replace(container, version="").pack() for container in containers)
    return hashlib.blake2b(b"".join(packed), digest_size=16).hexdigest()


@contextlib.contextmanager
def _writing(spec: BuildSpec, folder: str) -> Iterator[None]:
    """Keeps other builds away from a local output, and removes what builds of other inputs or specs left there.

    Args:
      spec: the request.
      folder: this build's folder for temporary files, whose finished blocks are kept.

    Raises:
      RequestError: another build is writing to the output, or has published a dataset there, or it cannot be
        written.
    """
    workspace = Workspace(spec.output)
    temporary, lock, claim = workspace.path, workspace.lock, workspace.claim
    try:
        with contextlib.ExitStack() as held:
            try:
                if not held.enter_context(storage.lock(lock)):
                    raise RequestError(
                        f"`output={spec.output}`: another build is writing to it; wait for its end, or choose another "
                        "folder"
                    )
                _refuse_other(spec.output, folder)
                _check_again(spec, lock)
                kept = (folder.rstrip("/") + "/", lock, claim, workspace.lease)
                entries = storage.list_files(temporary, literal=True)
                storage.delete_files(entry.path for entry in entries if not entry.path.startswith(kept))
                claim_output(spec.output)
                storage.write_bytes(BuildFolder(folder).started, b"")
            except OSError as error:
                raise RequestError(f"`output={spec.output}`: cannot be written: {error.strerror or error}") from error
            yield
    finally:
        # On network disks an open file cannot be deleted, and until now the lock was open.
        storage.delete_if_empty(temporary)


def _take_lease(output: str) -> Lease:
    """Takes the right to write to an output in an object store, before anything is listed.

    Raises:
      RequestError: another build has it, or the output cannot be written.
    """
    try:
        taken = Lease.take(Workspace(output).lease, f"process {os.getpid()} on {socket.gethostname()}")
    except OSError as error:
        raise RequestError(f"`output={output}`: cannot be written: {error.strerror or error}") from error
    if isinstance(taken, str):
        raise RequestError(
            f"`output={output}`: another build is writing to it, {taken}; wait for its end, or choose another folder"
        )
    return taken


def _refuse_other(output: str, folder: str) -> None:
    """Refuses an output that another build is writing to: a cluster's job, which holds no lock, or one in a bucket."""
    found = find_other_job(output, folder)
    if found is not None:
        job, build, is_known = found
        shown = job.url or job.job_id
        if is_known:
            raise RequestError(
                f"`output={output}`: the job of another build is writing to it, {shown}; wait for its end, cancel it, "
                "or choose another folder"
            )
        raise RequestError(
            f"`output={output}`: the job of another build may still write to it, and its runner does not say whether "
            f"it does: {shown}; make sure that it has ended and delete {build}, or choose another folder"
        )


def _check_again(spec: BuildSpec, lock: str) -> None:
    """Repeats the checks of the output under its lock: another build may have published there meanwhile."""
    try:
        check_output(spec)
        find_old_files(spec.output)
    except RequestError:
        storage.delete_files([lock])
        raise
