"""Runs the pipeline of a plan, and finds out what became of it."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.messages.outcomes import Published, Unpublished
from beam_tfrecords.beam_pipelines.runners.jobs import JobRecord
from beam_tfrecords.beam_pipelines.runners.runners import Execution
from beam_tfrecords.errors import BuildError
from beam_tfrecords.reading.dataset import Dataset, open_published
from beam_tfrecords.transforms.publishing.lists import read_outcome
from beam_tfrecords.transforms.stats import DUPLICATE_COUNTS, Stats
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.counts import clear_stage_counts, read_block_counts
from beam_tfrecords.transforms.workspace.output_folder import is_open

if TYPE_CHECKING:
    from beam_tfrecords.beam_pipelines.build.planning import BuildPlan


_log = logging.getLogger(__name__)


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
    from beam_tfrecords.beam_pipelines.build.pipeline import build_pipeline
    from beam_tfrecords.beam_pipelines.runners.heartbeat import Heartbeat
    from beam_tfrecords.beam_pipelines.runners.progress import Progress

    path = BuildFolder(plan.block_plan.folder).outcome
    # That of an earlier attempt at the same build does not count.
    listed, blocks = sum(plan.publication.listed.values()), sum(plan.blocks.values())
    done_before, is_new = 0, plan.block_plan.is_new
    if not is_new:
        done_before, *_ = storage.run_concurrently(
            path,
            lambda: read_block_counts(plan.block_plan.folder).done,
            functools.partial(_delete_if_there, path),
            functools.partial(clear_stage_counts, plan.block_plan.folder),
        )
    _log.info("converting %d samples in %d blocks; %d samples are done", listed, blocks, done_before)
    heartbeat = Heartbeat(plan.block_plan.folder, listed=listed, blocks=blocks, done_before=done_before)
    try:
        progress = Progress(plan.block_plan.folder, total=listed, blocks=blocks, done_before=done_before)
        with heartbeat, contextlib.nullcontext() if execution.quiet else progress:
            memory = execution.runner.least_memory(plan.spec.image.max_image_memory)
            stages = functools.partial(
                build_pipeline, plan=plan, processes=execution.runner.processes, least_memory=memory
            )
            left = functools.partial(stages, cleans=True, fails_unpublished=fails_unpublished)
            job = execution.run(stages if wait else left, plan.block_plan.folder, wait, is_new=is_new)
        if job is not None:
            heartbeat.end()
            return job
    except BuildError:
        # A runner may fail after the pipeline's last step, which wrote `_SUCCESS`; or another launch has written it.
        dataset = _find_published(plan)
        if dataset is None or not plan.publication.fence.is_held():
            raise
        return Published(dataset, traffic=_read_traffic(plan))
    outcome, dataset, traffic = storage.run_concurrently(
        plan.publication.output,
        # Nothing but this build can have published into a new output.
        lambda: None if is_new else read_outcome(plan.block_plan.folder),
        functools.partial(_find_published, plan),
        # Processes of this machine tell what they have asked for.
        lambda: {} if execution.runner.processes else _read_traffic(plan),
    )
    if dataset is None and outcome is None:
        outcome = read_outcome(plan.block_plan.folder)
    if outcome is None:
        if dataset is not None:
            return Published(dataset, traffic=traffic)
        raise BuildError(
            f"the pipeline ended without an error, but {plan.publication.output} holds no dataset of this build; "
            "the log of the runner may say why"
        )
    heartbeat.end()
    return _explain(plan, outcome)


def _delete_if_there(path: str) -> None:
    """Asks for the permission to delete only if it is needed."""
    if storage.exists(path):
        storage.delete_files([path])


def _explain(plan: BuildPlan, values: Mapping[str, Any]) -> Published | Unpublished:
    """What the pipeline has left that published nothing."""
    if values["is_unchanged"] and plan.earlier.newest:
        return Published(plan.earlier.newest, is_unchanged=True)
    stats = Stats.from_json(values["stats"])
    return Unpublished(
        listed=sum(values["listed"].values()),
        failed=stats.total("failed"),
        reasons=stats.failure_reasons(),
        duplicates={what: stats.total("duplicates", what) for what in DUPLICATE_COUNTS},
        folder=values["folder"],
        causes=tuple(values["causes"]),
        violated=tuple(values["tripped"]),
        guards=tuple(values["guards"]),
    )


def _read_traffic(plan: BuildPlan) -> Mapping[str, int]:
    """What the workers have asked object stores for; nothing if that cannot be read: what is published is published."""
    try:
        return read_block_counts(plan.block_plan.folder).traffic
    except (OSError, BuildError):
        return {}


def _find_published(plan: BuildPlan) -> Dataset | None:
    """The dataset, if `_SUCCESS` is there, and with a manifest of this build."""
    output = plan.publication.output
    if plan.publication.claimed.replaces and not is_open(output):
        return None
    dataset, _ = open_published(output)
    return dataset if dataset is not None and dataset.states(plan.publication.facts) else None
