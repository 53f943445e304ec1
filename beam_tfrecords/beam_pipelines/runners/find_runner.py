"""Finds the runner of a request, or of the job of an earlier launcher, without importing Beam or other runners."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

from beam_tfrecords.beam_pipelines.runners.arguments import BeamArguments
from beam_tfrecords.beam_pipelines.runners.jobs import (
    FollowedJob,
    JobRecord,
    JobState,
    Phase,
    UnreachableError,
    is_advancing,
    read_job,
)
from beam_tfrecords.beam_pipelines.runners.runner import Runner
from beam_tfrecords.transforms.workspace.build_folder import Workspace
from beam_tfrecords.transforms.workspace.counts import read_last_block_time


def find_runner(words: Sequence[str]) -> Runner:
    """Returns the runner that Beam's arguments select.

    Raises:
      RequestError: an argument of the runner is invalid, or would have no effect.
    """
    arguments = BeamArguments.parse(words)
    name = str(arguments.given["runner"] or "")
    runner = _find_class(name.rpartition(".")[2].lower())(arguments)
    arguments.check_used(runner.idle_flags)
    return runner


def _find_class(name: str) -> type[Runner]:
    match name:
        case "" | "direct" | "directrunner" | "localrunner" | "fnapirunner" | "switchingdirectrunner":
            from beam_tfrecords.beam_pipelines.runners.local_runner import LocalRunner

            return LocalRunner
        case "dataflowrunner":
            from beam_tfrecords.beam_pipelines.runners.dataflow_runner import DataflowRunner

            return DataflowRunner
        case "flinkrunner":
            from beam_tfrecords.beam_pipelines.runners.flink_runner import FlinkRunner

            return FlinkRunner
        case _:
            from beam_tfrecords.beam_pipelines.runners.portable_runner import PortableRunner

            return PortableRunner


def find_state(record: JobRecord, last_block: float | None) -> JobState:
    """Returns the state of a job, as far as it is known.

    Args:
      record: record of the job.
      last_block: time of its last finished block, in seconds since the epoch.
    """
    runner = _runner_of(record)
    try:
        job = runner.open_job(record)
        if job is not None:
            return job.state()
    except UnreachableError as error:
        return JobState(Phase.UNKNOWN, str(error))
    if not runner.is_detached:  # The job has ended with its launcher.
        return JobState(Phase.STOPPED)
    return JobState(Phase.RUNNING if is_advancing(last_block) else Phase.UNKNOWN)


def find_running(folder: str) -> FollowedJob | None:
    """Returns the job of a build if its runner reports that it still runs, so that it can be followed; else None.

    Args:
      folder: build folder.
    """
    record = read_job(folder)
    if record is None:
        return None
    with contextlib.suppress(UnreachableError):
        job = _runner_of(record).open_job(record)
        if job is not None and job.state().is_running:
            return job
    return None


@dataclasses.dataclass(frozen=True)
class WritingJob:
    """A job that may still write to an output.

    Attributes:
      record: record of the job.
      folder: folder of the build, or of the listing that the job makes.
      is_known: whether the runner reports that the job runs; False if this is unknown.
    """

    record: JobRecord
    folder: str
    is_known: bool


def find_writing(output: str) -> WritingJob | None:
    """Finds the job of an earlier launcher that may still write to an output; returns None if there is none.

    Args:
      output: output folder of `convert`.
    """
    for folder in Workspace(output).list_folders():
        record = read_job(folder)
        if record is None:
            continue
        state = find_state(record, read_last_block_time(folder))
        if state.may_run:
            return WritingJob(record, folder, is_known=state.is_running)
    return None


def _runner_of(record: JobRecord) -> Runner:
    """Returns the runner that a job was submitted to."""
    return find_runner([f"--runner={record.runner}"])
