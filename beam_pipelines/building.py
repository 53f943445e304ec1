"""One build, from the request to `_SUCCESS`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import logging
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.checking import open_spec_source
from beam_tfrecords.beam_pipelines.execution.jobs import JobRecord
from beam_tfrecords.beam_pipelines.execution.runners import Execution, find_runner
from beam_tfrecords.beam_pipelines.holding import Output, hold_output
from beam_tfrecords.beam_pipelines.limits import check_limits
from beam_tfrecords.beam_pipelines.preparing import prepare_build
from beam_tfrecords.beam_pipelines.settings.definitions import read_build_spec
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.beam_pipelines.versioning import Earlier, clean_versions, point_to_whole
from beam_tfrecords.dataset import Dataset, open_dataset
from beam_tfrecords.errors import BuildError
from beam_tfrecords.files import REPORT, SUCCESS
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.stats import DUPLICATE_COUNTS, Stats
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder, Workspace
from beam_tfrecords.transforms.workspace.cleaning import delete_temporary
from beam_tfrecords.transforms.workspace.output_folder import is_open
from beam_tfrecords.versions import read_pinned

if TYPE_CHECKING:
    from beam_tfrecords.beam_pipelines.planning import BuildPlan


@dataclasses.dataclass(frozen=True)
class Published:
    """A finished dataset.

    Attributes:
      path: its folder.
      is_unchanged: whether it is the version before, because nothing has changed.
      traffic: what the workers have asked object stores for.
      report: path of `report.html`, or None if it was not written.
      removed: names of the versions that were removed after it was published.
      pinned: the version that LATEST stays at, or None.
    """

    path: str
    is_unchanged: bool = False
    traffic: Mapping[str, int] = dataclasses.field(default_factory=dict)
    report: str | None = None
    removed: tuple[str, ...] = ()
    pinned: str | None = None


@dataclasses.dataclass(frozen=True)
class Unpublished:
    """A build that published nothing: too many samples failed, there are duplicates and may be none, or guards tripped.

    Attributes:
      listed: samples listed.
      failed: samples rejected.
      reasons: reason -> samples.
      duplicates: what is counted of identical images -> count.
      folder: where the lists of failures, duplicates and changes are.
      tripped: what guards found, one line each.
      guards: names of the guards that tripped.
    """

    listed: int
    failed: int
    reasons: Mapping[str, int]
    duplicates: Mapping[str, int]
    folder: str
    tripped: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()


@overload
def build(
    *,
    beam_arguments: Sequence[str] = ...,
    verbose: bool = ...,
    quiet: bool = ...,
    report: bool = ...,
    dry_run: Literal[False] = False,
    **settings: Any,
) -> Dataset: ...
@overload
def build(
    *,
    beam_arguments: Sequence[str] = ...,
    verbose: bool = ...,
    quiet: bool = ...,
    report: bool = ...,
    dry_run: Literal[True],
    **settings: Any,
) -> str: ...
def build(
    *,
    beam_arguments: Sequence[str] = (),
    verbose: bool = False,
    quiet: bool = False,
    report: bool = True,
    dry_run: bool = False,
    **settings: Any,
) -> Dataset | str:
    """Builds a dataset, as `beam-tfrecords convert` does.

        build(input="photos/", output="out/", image_size=256)

    Args:
      beam_arguments: arguments for Beam, such as `--runner=FlinkRunner`.
      verbose: whether Beam's own log is shown.
      quiet: whether no progress is shown.
      report: whether `report.html` is written.
      dry_run: lists the input and builds nothing.
      settings: under the names of the flags, with values as in a spec file.

    Returns:
      The dataset; with `dry_run`, what would be built, for people.

    Raises:
      RequestError: the request is wrong; nothing has been started.
      BuildError: the build failed, or published nothing because of failures or duplicates.
    """
    root = logging.getLogger()
    level = root.level
    # Beam warns on import about extras that are not installed.
    root.setLevel(logging.CRITICAL)
    try:
        find_runner(beam_arguments).arguments.check_known()
        spec = read_build_spec({name: _as_plain(value) for name, value in settings.items()})
        if dry_run:
            from beam_tfrecords.beam_pipelines.dry_run import describe_build

            return "\n".join(describe_build(spec).lines)
        with storage.using(storage.StorageOptions(beam_arguments=tuple(beam_arguments))):
            outcome = build_dataset(spec, beam_arguments, verbose=verbose, quiet=quiet, report=report)
    finally:
        # The caller's own log is not ours to silence.
        root.setLevel(level)
    assert not isinstance(outcome, JobRecord)
    if isinstance(outcome, Published):
        return open_dataset(outcome.path)
    if outcome.tripped:
        raise BuildError(f"nothing was published: {'; '.join(outcome.tripped)}")
    raise BuildError(
        f"nothing was published: {outcome.failed:,} of {outcome.listed:,} samples failed, and "
        f"{outcome.duplicates['groups']:,} images occur more than once; the lists are in {outcome.folder}"
    )


def _as_plain(value: Any) -> Any:
    """A value as a spec file can have it: sizes may be tuples, and paths `pathlib.Path`s."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return [_as_plain(one) for one in value] if isinstance(value, list | tuple) else value


def build_dataset(
    spec: BuildSpec,
    beam_arguments: Sequence[str],
    *,
    verbose: bool = False,
    quiet: bool = False,
    wait: bool = True,
    report: bool = True,
) -> Published | Unpublished | JobRecord:
    """Runs a build to its end.

    Args:
      spec: the request.
      beam_arguments: arguments for Beam.
      verbose: whether Beam's own log is shown.
      quiet: whether no progress is shown.
      wait: False returns when the cluster has the job.
      report: whether `report.html` is written.

    Returns:
      The job if it was submitted and not waited for.

    Raises:
      RequestError: the request is wrong; nothing has been started.
      BuildError: the build failed.
    """
    with storage.using(spec.source.storage_options()):
        return _build(spec, beam_arguments, verbose=verbose, quiet=quiet, wait=wait, report=report)


def _build(
    spec: BuildSpec, beam_arguments: Sequence[str], *, verbose: bool, quiet: bool, wait: bool, report: bool
) -> Published | Unpublished | JobRecord:
    check_limits()
    runner = find_runner(beam_arguments)
    if not wait:
        runner.check_detached()
    runner.arguments.check_known()
    with hold_output(spec, runner) as output:
        # They import what they need while this process does.
        runner.start_workers(*storage.modules_for([spec.output, *spec.source.input]))
        spec, source = open_spec_source(spec)
        execution = Execution.prepare(runner, verbose=verbose, quiet=quiet)
        plan = prepare_build(spec, source, execution, output=output)
        earlier = plan if isinstance(plan, Earlier) else plan.earlier
        outcome: Published | Unpublished | JobRecord
        if isinstance(plan, Earlier):
            assert plan.newest
            execution.run_nothing()
            outcome = Published(plan.newest.path, is_unchanged=True)
        else:
            outcome = _run(plan, execution, quiet=quiet, wait=wait)
        problem, unchanged = None, outcome.path if isinstance(outcome, Published) and outcome.is_unchanged else None
        if isinstance(outcome, Published) and (overtaken := _find_overtaken(output)):
            show(f"note: {overtaken}; neither the report nor what is left over is touched", file=sys.stderr)
            return outcome
        if unchanged:
            point_to_whole(spec, unchanged)
        if unchanged or not spec.schedule.versioned:
            # Otherwise the new version's changes have them.
            for note in earlier.notes:
                show(f"note: {note}", file=sys.stderr)
        if spec.schedule.versioned and not isinstance(outcome, Unpublished):
            # Nobody waits for a job's new version; of those that are finished now, not all are needed.
            removed = clean_versions(spec, unfinished=not isinstance(outcome, JobRecord))
            if isinstance(outcome, Published):
                outcome = dataclasses.replace(outcome, removed=removed, pinned=read_pinned(spec.output))
            else:
                for name in removed:
                    show(f"removed: version {name}", file=sys.stderr)
        # A build that was killed after it had published a version has left it without one.
        if report and isinstance(outcome, Published) and not (outcome.is_unchanged and _has_report(outcome.path)):
            outcome = dataclasses.replace(outcome, report=_write_report(spec, outcome.path, check=output.lease.check))
        if isinstance(outcome, Published):
            problem = _find_overtaken(output) or _remove_temporary(spec.output)
    if problem and storage.is_folder(Workspace(spec.output).path):
        show(f"note: {problem}; the next build into this folder removes them", file=sys.stderr)
    return outcome


def _run(plan: BuildPlan, execution: Execution, *, quiet: bool, wait: bool) -> Published | Unpublished | JobRecord:
    from beam_tfrecords.beam_pipelines.execution.heartbeat import Heartbeat
    from beam_tfrecords.beam_pipelines.execution.progress import Progress
    from beam_tfrecords.beam_pipelines.pipeline import build_pipeline

    outcome = BuildFolder(plan.block_plan.folder).outcome
    # That of an earlier attempt at the same build does not count.
    if storage.exists(outcome):
        storage.delete_files([outcome])
    try:
        listed, blocks = sum(plan.publication.listed.values()), sum(plan.blocks.values())
        progress = Progress(plan.block_plan.folder, total=listed)
        heartbeat = Heartbeat(plan.block_plan.folder, listed=listed, blocks=blocks)
        with heartbeat, contextlib.nullcontext() if quiet else progress:
            stages = functools.partial(build_pipeline, plan=plan, processes=execution.runner.processes, cleans=not wait)
            job = execution.run(stages, plan.block_plan.folder, wait)
        if job is not None:
            return job
    except BuildError:
        # A runner may fail after the pipeline's last step, which wrote `_SUCCESS`; or another launch has written it.
        if not (_is_published(plan) and plan.publication.fence.is_held()):
            raise
        return _published(plan)
    if not storage.exists(outcome):
        if _is_published(plan):
            return _published(plan)
        raise BuildError(
            f"the pipeline ended without an error, but {plan.publication.output} holds no dataset of this build; "
            "the log of the runner may say why"
        )
    values = json.loads(storage.read_bytes(outcome))
    if values["is_unchanged"] and plan.earlier.newest:
        return Published(plan.earlier.newest.path, is_unchanged=True)
    stats = Stats.from_json(values["stats"])
    return Unpublished(
        listed=sum(values["listed"].values()),
        failed=stats.total("failed"),
        reasons=stats.failure_reasons(),
        duplicates={what: stats.total("duplicates", what) for what in DUPLICATE_COUNTS},
        folder=values["folder"],
        tripped=tuple(values["tripped"]),
        guards=tuple(values["guards"]),
    )


def _published(plan: BuildPlan) -> Published:
    from beam_tfrecords.transforms.workspace.counts import read_block_counts

    try:
        traffic: Mapping[str, int] = read_block_counts(plan.block_plan.folder).traffic
    except (OSError, BuildError):  # what is published is published
        traffic = {}
    return Published(plan.publication.output, traffic=traffic)


def _is_published(plan: BuildPlan) -> bool:
    """Whether `_SUCCESS` is there, and with a manifest of this build."""
    output = plan.publication.output
    if not (is_open(output) and storage.exists(storage.join(output, SUCCESS))):
        return False
    dataset = open_dataset(output)
    return dataset.states(plan.publication.facts) and dataset.is_whole


def _find_overtaken(output: Output) -> str | None:
    """Why the output may be another build's by now, after a dataset was published; None if it is not."""
    try:
        output.lease.check()
    except (OSError, BuildError) as error:
        return str(error)
    return None


def _has_report(path: str) -> bool:
    return storage.exists(storage.join(path, REPORT))


def _write_report(spec: BuildSpec, path: str, *, check: storage.Check) -> str | None:
    """Writes the report of a published dataset, which stays published whatever goes wrong."""
    try:
        from beam_tfrecords.beam_pipelines.report.page import write_report

        # Its failures are files of the input that this request names.
        return write_report(open_dataset(path), failed_images=True, staging=Workspace(spec.output).path, check=check)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        show(
            f"note: the report could not be written: {reason}; the dataset is whole, and "
            f"`beam-tfrecords report --dataset={shlex.quote(path)} --failed_images` tries again",
            file=sys.stderr,
        )
        return None


def _remove_temporary(output: str) -> str | None:
    """Removes the temporary files of a published dataset; returns what went wrong, if anything did."""
    try:
        delete_temporary(output)
    except storage.AccessDeniedError as error:
        return f"the files in {Workspace(output).path} stay: the credentials lack the permission {error.permission}"
    except OSError as error:
        return f"{error.filename or output} could not be removed: {error.strerror or error}"
    except BuildError as error:
        return f"the temporary files could not be removed: {error}"
    return None
