"""Runs the pipeline of a plan, and finds out what became of it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.execution.jobs import JobRecord
from beam_tfrecords.beam_pipelines.execution.runners import Execution
from beam_tfrecords.dataset import open_dataset
from beam_tfrecords.errors import BuildError
from beam_tfrecords.files import SUCCESS
from beam_tfrecords.transforms.publishing.lists import read_outcome
from beam_tfrecords.transforms.stats import DUPLICATE_COUNTS, Stats
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.counts import clear_stage_counts
from beam_tfrecords.transforms.workspace.output_folder import is_open

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
      filtered: samples left out.
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
    filtered: int = 0


def run_plan(
    plan: BuildPlan, execution: Execution, *, wait: bool, fails_unpublished: bool = False
) -> Published | Unpublished | JobRecord:
    """Runs the pipeline of a plan.

    Args:
      plan: of the build.
      execution: where pipelines run.
      wait: False returns when the cluster has the job.
      fails_unpublished: whether a job that nobody waits for fails if it publishes nothing.

    Returns:
      The job if it was submitted and not waited for.

    Raises:
      BuildError: the build failed.
    """
    from beam_tfrecords.beam_pipelines.execution.heartbeat import Heartbeat
    from beam_tfrecords.beam_pipelines.execution.progress import Progress
    from beam_tfrecords.beam_pipelines.pipeline import build_pipeline

    path = BuildFolder(plan.block_plan.folder).outcome
    # That of an earlier attempt at the same build does not count.
    listed, blocks = sum(plan.publication.listed.values()), sum(plan.blocks.values())
    heartbeat, *_ = storage.ask_at_once(
        path,
        functools.partial(Heartbeat, plan.block_plan.folder, listed=listed, blocks=blocks),
        functools.partial(_delete_if_there, path),
        functools.partial(clear_stage_counts, plan.block_plan.folder),
    )
    try:
        progress = Progress(plan.block_plan.folder, total=listed, blocks=blocks)
        with heartbeat, contextlib.nullcontext() if execution.quiet else progress:
            memory = execution.runner.least_memory(plan.spec.image.max_image_memory)
            stages = functools.partial(
                build_pipeline, plan=plan, processes=execution.runner.processes, least_memory=memory
            )
            left = functools.partial(stages, cleans=True, fails_unpublished=fails_unpublished)
            job = execution.run(stages if wait else left, plan.block_plan.folder, wait)
        if job is not None:
            return job
    except BuildError:
        # A runner may fail after the pipeline's last step, which wrote `_SUCCESS`; or another launch has written it.
        if not (_is_published(plan) and plan.publication.fence.is_held()):
            raise
        return _published(plan)
    outcome, is_published, published = storage.ask_at_once(
        plan.publication.output,
        functools.partial(read_outcome, plan.block_plan.folder),
        functools.partial(_is_published, plan),
        functools.partial(_published, plan),
    )
    if outcome is None:
        if is_published:
            return published
        raise BuildError(
            f"the pipeline ended without an error, but {plan.publication.output} holds no dataset of this build; "
            "the log of the runner may say why"
        )
    return _explain(plan, outcome)


def _delete_if_there(path: str) -> None:
    """Asks for the permission to delete only if it is needed."""
    if storage.exists(path):
        storage.delete_files([path])


def _explain(plan: BuildPlan, values: Mapping[str, Any]) -> Published | Unpublished:
    """What the pipeline has left that published nothing."""
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
        filtered=stats.total("filtered"),
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
    is_ours, is_finished = storage.ask_at_once(
        output, functools.partial(is_open, output), functools.partial(storage.exists, storage.join(output, SUCCESS))
    )
    if not (is_ours and is_finished):
        return False
    dataset = open_dataset(output)
    return dataset.states(plan.publication.facts) and dataset.is_whole
