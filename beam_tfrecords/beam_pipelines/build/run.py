"""Runs the pipeline of a build, and determines its outcome."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.finish import find_published
from beam_tfrecords.beam_pipelines.messages.outcomes import Published, Unpublished
from beam_tfrecords.beam_pipelines.runners.execution import Execution
from beam_tfrecords.beam_pipelines.runners.jobs import JobRecord
from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms.publishing.lists import read_outcome
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.counts import clear_stage_counts, read_block_counts

if TYPE_CHECKING:
    from beam_tfrecords.beam_pipelines.build.resolve import ResolvedBuild
    from beam_tfrecords.transforms.publishing.publication import Publication


_log = logging.getLogger(__name__)


def run_build(
    build: ResolvedBuild,
    publication: Publication,
    execution: Execution,
    *,
    wait: bool,
    fails_unpublished: bool = False,
    report: bool = True,
) -> Published | Unpublished | JobRecord:
    """Runs the pipeline of a build.

    Args:
      build: the build.
      publication: the right to publish it.
      execution: where pipelines run.
      wait: waits for the end; otherwise returns when the cluster has accepted the job.
      fails_unpublished: fails a job that nobody waits for if the job publishes nothing.
      report: lets such a job write `report.html`.

    Returns:
      The outcome; without `wait`, the submitted job.

    Raises:
      BuildError: the build failed.
    """
    from beam_tfrecords.beam_pipelines.build.heartbeat import Heartbeat
    from beam_tfrecords.beam_pipelines.build.pipeline import Slices, build_pipeline
    from beam_tfrecords.beam_pipelines.messages.progress import Progress

    path = BuildFolder(build.folder).outcome
    # The outcome of an earlier attempt at this build does not count.
    listed, blocks = sum(build.listed.values()), sum(build.blocks.values())
    done_before, is_new = 0, build.block_plan.is_new
    if not is_new:
        done_before, *_ = storage.run_concurrently(
            path,
            lambda: read_block_counts(build.folder).done,
            functools.partial(_delete_if_there, path),
            functools.partial(clear_stage_counts, build.folder),
        )
    _log.info("converting %d samples in %d blocks; %d samples are done", listed, blocks, done_before)
    heartbeat = Heartbeat(build.folder, listed=listed, blocks=blocks, done_before=done_before)
    try:
        progress = Progress(build.folder, total=listed, blocks=blocks, done_before=done_before)
        with heartbeat, contextlib.nullcontext() if execution.quiet else progress:
            memory = execution.runner.least_memory(build.spec.image.max_image_memory)
            stages = functools.partial(
                build_pipeline,
                spec=build.spec,
                slices=Slices.of(build, publication),
                processes=execution.runner.processes,
                least_memory=memory,
            )
            left = functools.partial(stages, cleans=True, fails_unpublished=fails_unpublished, report=report)
            job = execution.run(stages if wait else left, build.folder, wait, is_new=is_new)
        if job is not None:
            heartbeat.end()
            return job
    except BuildError:
        # The runner may have failed after the last step wrote `_SUCCESS`, or another run may have written it.
        dataset = find_published(publication)
        if dataset is None or not publication.fence.is_held():
            raise
        return Published(dataset, request_metrics=_read_request_metrics(build.folder))
    outcome, dataset, request_metrics = storage.run_concurrently(
        publication.output,
        # Only this build can have published to a new output.
        lambda: None if is_new else read_outcome(build.folder),
        functools.partial(find_published, publication),
        # Worker processes on this machine report their requests directly.
        lambda: {} if execution.runner.processes else _read_request_metrics(build.folder),
    )
    if dataset is None and outcome is None:
        outcome = read_outcome(build.folder)
    if outcome is None:
        if dataset is not None:
            return Published(dataset, request_metrics=request_metrics)
        raise BuildError(
            f"the pipeline ended without an error, but {publication.output} holds no dataset of this build; "
            "the log of the runner may say why"
        )
    heartbeat.end()
    return _explain(build, outcome)


def _delete_if_there(path: str) -> None:
    """Deletes a file if it exists, so that the delete permission is needed only then."""
    if storage.exists(path):
        storage.delete_files([path])


def _explain(build: ResolvedBuild, values: Mapping[str, Any]) -> Published | Unpublished:
    """Reads the outcome that a pipeline leaves when it publishes nothing."""
    if values["is_unchanged"] and build.previous.newest:
        return Published(build.previous.newest, is_unchanged=True)
    return Unpublished.of(values)


def _read_request_metrics(folder: str) -> Mapping[str, int]:
    """Returns the requests that workers sent to object stores; empty if unreadable, since the dataset is published."""
    try:
        return read_block_counts(folder).request_metrics
    except (OSError, BuildError):
        return {}
