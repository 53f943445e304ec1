"""Runs pipelines on a runner, and submits the jobs again that lost their workers.

Beam is imported when a pipeline is about to run: a request that is refused does not wait for it.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.interrupts import Terminated, keep_interrupts
from beam_tfrecords.beam_pipelines.runners.beam_calls import asked_once, with_own_random_numbers
from beam_tfrecords.beam_pipelines.runners.earlier_jobs import find_running
from beam_tfrecords.beam_pipelines.runners.failures import JobFailedError, describe_error, find_build_error
from beam_tfrecords.beam_pipelines.runners.jobs import Job, JobRecord
from beam_tfrecords.beam_pipelines.runners.runner import Runner
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.counts import read_block_counts

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineRunner

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Execution:
    """Where a pipeline runs.

    Attributes:
      beam_runner: None until a pipeline runs, if nothing has to be asked before.
      options: likewise.
      quiet: whether no progress is shown.
      keeps_job: whether SIGTERM leaves a job that was submitted to its cluster.
    """

    runner: Runner
    beam_runner: PipelineRunner | None = None
    options: PipelineOptions | None = None
    quiet: bool = False
    keeps_job: bool = False

    @classmethod
    def prepare(cls, runner: Runner, *, quiet: bool = False, keeps_job: bool = False) -> Execution:
        """Checks Beam's arguments, and asks a cluster for what they leave open.

        Raises:
          RequestError: Beam does not know an argument, or not the runner, or what it needs is not installed.
        """
        runner.arguments.check_known()
        execution = cls(runner, quiet=quiet, keeps_job=keeps_job)
        return execution._with_beam() if runner.needs_answers else execution

    def _with_beam(self) -> Execution:
        """The same with Beam's runner and options."""
        if self.options is not None:
            return self
        from apache_beam.options.pipeline_options import PipelineOptions

        completed = self.runner.complete()
        if self.runner.note and not self.quiet:
            show(*self.runner.note.splitlines(), file=sys.stderr)
        options = PipelineOptions(completed)
        return dataclasses.replace(self, beam_runner=self.runner.create(options), options=options)

    def run(
        self,
        add_stages: Callable[[beam.Pipeline], Any],
        folder: str | None = None,
        wait: bool = True,
        *,
        is_new: bool = False,
    ) -> JobRecord | None:
        """Runs a pipeline to its end, or follows the job of an earlier launcher that does the same work.

        A job that this launcher has submitted, and that failed for a reason that is not the build's, is submitted again
        if it has finished blocks. The first time that one has not, the next has child processes for the conversions:
        what ended a worker ends one of them. A job that is followed is not: its launcher has claimed the output for it.

        Args:
          folder: the build's folder for temporary files, which remembers the job.
          wait: False returns when the cluster has the job.
          is_new: whether no earlier launcher has left anything in the folder.

        Returns:
          The job, if it was not waited for.

        Raises:
          BuildError: a worker raised one, or the runner failed.
        """
        earlier = find_running(folder) if folder is not None and not is_new else None
        if earlier is not None:
            _log.info("following job %s of an earlier launcher", earlier.record.job_id)
            show(f"the job of this build runs already: {earlier.record.url}", file=sys.stderr)
            return self._follow(earlier, wait=wait)
        while True:
            blocks = read_block_counts(folder).blocks if folder is not None and not is_new else 0
            is_new = False
            try:
                return self._run_once(add_stages, folder, wait=wait)
            except JobFailedError as error:
                # Flink's default is to give up at the first lost worker; Spark has no other way.
                if folder is None or not (read_block_counts(folder).blocks > blocks or _isolate_blocks(folder)):
                    raise
                show(f"the job failed: {error}; a new one resumes from the finished blocks", file=sys.stderr)

    def run_nothing(self) -> None:
        """Runs what a build leaves on its runner that has nothing to do."""
        if (add_stages := self.runner.add_nothing()) is not None:
            self.run(add_stages)

    def _run_once(
        self, add_stages: Callable[[beam.Pipeline], Any], folder: str | None, *, wait: bool
    ) -> JobRecord | None:
        ready = self._with_beam()
        assert ready.options is not None
        try:
            with keep_interrupts(), asked_once(), with_own_random_numbers():
                import apache_beam as beam

                pipeline = beam.Pipeline(runner=ready.beam_runner, options=ready.options)
                add_stages(pipeline)
                job = self.runner.submit(pipeline, functools.partial(_remember, folder))
                return self._follow(job, wait=wait)
        except JobFailedError:
            raise
        except Exception as error:  # each runner raises errors of its own
            # What is raised says it in one line.
            _log.info("the pipeline failed", exc_info=error)
            why = describe_error(error)
            is_the_builds = isinstance(error, BuildError) or bool(find_build_error(str(error)))
            may_be_lost = self.runner.resubmits and not is_the_builds
            raise (JobFailedError if may_be_lost else BuildError)(why) from error

    def _follow(self, job: Job, *, wait: bool) -> JobRecord | None:
        if not wait:
            return job.record
        try:
            job.wait()
        except KeyboardInterrupt as error:
            if not (self.keeps_job and isinstance(error, Terminated)):
                job.cancel()
            raise
        return None


def _remember(folder: str | None, record: JobRecord) -> None:
    if folder is not None:
        record.write(folder)
        _log.info("submitted job %s to %s", record.job_id or record.name, record.runner)


def _isolate_blocks(folder: str) -> bool:
    """Has all blocks converted in child processes if one was begun and not finished; False if they are already."""
    build = BuildFolder(folder)
    if storage.exists(build.unfinished):
        return False
    paths = {entry.path for entry in storage.list_files(build.blocks, literal=True)}
    stems = {storage.basename(path).partition(".")[0] for path in paths}
    if all(build.block(stem) in paths for stem in stems):
        return False
    storage.write_bytes(build.unfinished, b"")
    return True
