"""One build, from the request to `_SUCCESS`."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beam_pipelines.checking import check_listing, check_output, open_spec_source
from beam_pipelines.execution.runners import Execution, choose_execution, decide_local_work
from beam_pipelines.settings.definitions import read_build_spec
from transforms import storage
from transforms.build_spec import BuildSpec
from transforms.dataset import BUILD_FOLDER, SUCCESS, Dataset, open_dataset
from transforms.errors import BuildError, RequestError
from transforms.output_folder import CLAIM, claim_output, find_old_files, is_open
from transforms.processes.worker import start_fork_server
from transforms.sources.containers import Container
from transforms.sources.source import Source
from transforms.stats import DUPLICATE_COUNTS, Stats

if TYPE_CHECKING:
    from beam_pipelines.planning import BuildPlan
    from transforms.listing import Listing, ListPlan
    from transforms.sources.source_spec import Skipped

# In the folder for temporary files.
_LOCK = "lock"


@dataclasses.dataclass(frozen=True)
class Unpublished:
    """A build that published nothing: too many samples failed, or there are duplicates and may be none.

    Attributes:
      listed: samples listed.
      failed: samples rejected.
      reasons: reason -> samples.
      duplicates: what is counted of identical images -> count.
      folder: where the lists of failures and duplicates are.
    """

    listed: int
    failed: int
    reasons: Mapping[str, int]
    duplicates: Mapping[str, int]
    folder: str


def build(*, beam_arguments: Sequence[str] = (), **settings: Any) -> Dataset:
    """Builds a dataset, as `beam-tfrecords convert` does.

        build(input="photos/", output="out/", image_size=256)

    Args:
      beam_arguments: arguments for Beam, such as `--runner=FlinkRunner`.
      settings: under the names of the flags, with values as in a spec file.

    Raises:
      RequestError: the request is wrong; nothing has been started.
      BuildError: the build failed, or published nothing because of failures or duplicates.
    """
    spec = read_build_spec(settings)
    outcome = build_dataset(spec, beam_arguments)
    if outcome is not None:
        raise BuildError(
            f"nothing was published: {outcome.failed:,} of {outcome.listed:,} samples failed, and "
            f"{outcome.duplicates['groups']:,} images occur more than once; the lists are in {outcome.folder}"
        )
    return open_dataset(spec.output)


def build_dataset(
    spec: BuildSpec, beam_arguments: Sequence[str], *, verbose: bool = False, quiet: bool = False
) -> Unpublished | None:
    """Runs a build to its end.

    Args:
      spec: the request.
      beam_arguments: arguments for Beam.
      verbose: whether Beam's own log is shown.
      quiet: whether no progress is shown.

    Returns:
      None if the dataset is published.

    Raises:
      RequestError: the request is wrong; nothing has been started.
      BuildError: the build failed.
    """
    check_output(spec)
    find_old_files(spec.output)
    if decide_local_work(beam_arguments).processes:
        # It imports what the workers need while this process does.
        start_fork_server()
    spec, source = open_spec_source(spec)
    execution = choose_execution(beam_arguments, verbose=verbose)
    with contextlib.ExitStack() as held:
        plan = prepare_build(spec, source, execution, held=held)
        outcome = _run(plan, execution, quiet=quiet)
        problem = _remove_temporary(spec.output) if outcome is None else None
    if problem and storage.is_folder(storage.join(spec.output, BUILD_FOLDER)):
        print(f"note: {problem}; the next build into this folder removes it", file=sys.stderr)
    return outcome


def prepare_build(spec: BuildSpec, source: Source, execution: Execution, *, held: contextlib.ExitStack) -> BuildPlan:
    """Lists the input, checks the request against it, and puts the listing where all workers find it.

    Args:
      spec: the request.
      source: the opened source.
      execution: where pipelines run.
      held: gets the lock that keeps other builds away from a local output.

    Raises:
      RequestError: the request does not match the input, or another build is writing to the output.
    """
    from beam_pipelines.list_input import list_samples, plan_listing, settle_listing
    from beam_pipelines.planning import build_folder, plan_build

    containers = source.containers()
    if containers is not None:
        folder = build_folder(spec, _fingerprint(containers))
        held.enter_context(_writing(spec, folder))
        listing, skipped = _index(containers, source, execution, folder=folder, list_plan=plan_listing(spec))
        listing = settle_listing(listing, spec, storage.join(folder, "listing"))
        try:
            class_names = check_listing(spec, source, listing, skipped)
        except RequestError:
            storage.delete_tree(storage.join(spec.output, BUILD_FOLDER))
            raise
        return plan_build(
            spec, folder=folder, class_names=class_names, listing=listing, skipped=skipped, notes=source.notes
        )
    with tempfile.TemporaryDirectory(prefix="beam-tfrecords-") as spool:
        listing = list_samples(spec, source, spool)
        class_names = check_listing(spec, source, listing, source.skipped)
        folder = build_folder(spec, listing.fingerprint)
        held.enter_context(_writing(spec, folder))
        chunks = [storage.join(folder, "listing", storage.basename(chunk)) for chunk in listing.chunks]
        for local, final in zip(listing.chunks, chunks, strict=True):
            storage.write_bytes(final, storage.read_bytes(local))
        listing.chunks = chunks
    return plan_build(
        spec, folder=folder, class_names=class_names, listing=listing, skipped=source.skipped, notes=source.notes
    )


def _run(plan: BuildPlan, execution: Execution, *, quiet: bool) -> Unpublished | None:
    from beam_pipelines.execution.progress import Progress
    from beam_pipelines.pipeline import build_pipeline
    from transforms.publishing import OUTCOME

    outcome = storage.join(plan.block_plan.folder, OUTCOME)
    # That of an earlier attempt at the same build does not count.
    storage.delete_files([outcome])
    try:
        progress = Progress(plan.block_plan.folder, total=sum(plan.publication.listed.values()))
        with contextlib.nullcontext() if quiet else progress:
            execution.run(lambda root: build_pipeline(root, plan, processes=execution.local.processes))
    except BuildError:
        # A runner may fail after the pipeline's last step, which wrote `_SUCCESS`.
        if not _is_published(plan):
            raise
        return None
    if not storage.exists(outcome):
        if _is_published(plan):
            return None
        raise BuildError(
            f"the pipeline ended without an error, but {plan.publication.output} holds no dataset of this build; "
            "the log of the runner may say why"
        )
    values = json.loads(storage.read_bytes(outcome))
    stats = Stats.from_json(values["stats"])
    return Unpublished(
        listed=sum(values["listed"].values()),
        failed=stats.total("failed"),
        reasons=stats.failure_reasons(),
        duplicates={what: stats.total("duplicates", what) for what in DUPLICATE_COUNTS},
        folder=values["folder"],
    )


def _is_published(plan: BuildPlan) -> bool:
    """Whether `_SUCCESS` is there, and with a manifest of this build."""
    output = plan.publication.output
    if not (is_open(output) and storage.exists(storage.join(output, SUCCESS))):
        return False
    dataset = open_dataset(output)
    facts = json.loads(json.dumps(plan.publication.facts))
    is_ours = all(dataset.manifest.get(name) == fact for name, fact in facts.items())
    return is_ours and dataset.manifest_sha256 == dataset.published_sha256


def _remove_temporary(output: str) -> str | None:
    """Removes the temporary files of a published dataset; returns what went wrong, if anything did."""
    try:
        storage.delete_tree(storage.join(output, BUILD_FOLDER))
    except OSError as error:
        return f"{error.filename or output} could not be removed: {error.strerror or error}"
    except BuildError as error:
        return f"the temporary files could not be removed: {error}"
    return None


def _index(
    containers: Sequence[Container], source: Source, execution: Execution, *, folder: str, list_plan: ListPlan
) -> tuple[Listing, Skipped]:
    """Lists the samples of containers by a pipeline of its own: the build needs their number, splits and labels."""
    from transforms.listing import IndexContainers, IndexPlan, read_index_markers

    assert source.read_container is not None
    plan = IndexPlan(folder, source.read_container, list_plan)
    stage = IndexContainers(containers, plan, processes=execution.local.processes)
    execution.run(lambda root: root | "IndexContainers" >> stage)
    return read_index_markers(containers, folder)


def _fingerprint(containers: Sequence[Container]) -> str:
    return hashlib.blake2b(b"".join(container.pack() for container in containers), digest_size=16).hexdigest()


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
    temporary = storage.join(spec.output, BUILD_FOLDER)
    lock, claim = (storage.join(temporary, name) for name in (_LOCK, CLAIM))
    try:
        with contextlib.ExitStack() as held:
            try:
                if not held.enter_context(storage.lock(lock)):
                    raise RequestError(
                        f"`output={spec.output}`: another build is writing to it; wait for its end, or choose another "
                        "folder"
                    )
                _check_again(spec, lock)
                kept = (folder.rstrip("/") + "/", lock, claim)
                entries = storage.list_files(temporary)
                storage.delete_files(entry.path for entry in entries if not entry.path.startswith(kept))
                claim_output(spec.output)
                storage.write_bytes(storage.join(folder, "started"), b"")
            except OSError as error:
                raise RequestError(f"`output={spec.output}`: cannot be written: {error.strerror or error}") from error
            yield
    finally:
        # On network disks an open file cannot be deleted, and until now the lock was open.
        storage.delete_if_empty(temporary)


def _check_again(spec: BuildSpec, lock: str) -> None:
    """Repeats the checks of the output under its lock: another build may have published there meanwhile."""
    try:
        check_output(spec)
        find_old_files(spec.output)
    except RequestError:
        storage.delete_files([lock])
        raise
