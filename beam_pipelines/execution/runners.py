"""Beam's options and runners, and whether the work is done by processes of this machine.

Beam is imported when a pipeline is about to run: a request that is refused does not wait for it.
"""

from __future__ import annotations

import dataclasses
import logging
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from beam_pipelines.execution.clusters import complete_arguments
from beam_pipelines.execution.dataflow import describe_dataflow_job
from beam_pipelines.execution.failures import JobFailedError, describe_error, find_build_error
from beam_pipelines.execution.flink import FlinkCluster, FlinkJob
from beam_pipelines.execution.jobs import JobRecord, find_running_job
from beam_pipelines.interrupts import keep_interrupts
from beam_pipelines.settings.beam_flags import add_beam_flags, flag_names
from beam_pipelines.settings.command_line import Parser, refuse_unknown
from beam_tfrecords.errors import BuildError, RequestError
from transforms.processes.pool import usable_cores
from transforms.settings import whole_number

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineResult, PipelineRunner

# Names of the runner that runs in this process.
_LOCAL = frozenset({"", "direct", "directrunner", "localrunner", "fnapirunner", "switchingdirectrunner"})

# Runners whose jobs need neither this process nor one that it starts.
_DETACHED = frozenset({"flinkrunner", "dataflowrunner"})
# Seconds until a job that was handed over is in its cluster's list.
_SUBMISSION_TIMEOUT = 120.0


@dataclasses.dataclass(frozen=True)
class LocalWork:
    """How much of the work this machine does.

    Attributes:
      is_local: whether the pipeline runs in this process.
      processes: number of worker processes of `MapInProcesses`; 0 leaves the work to the runner.
    """

    is_local: bool
    processes: int


@dataclasses.dataclass(frozen=True)
class Execution:
    """Where a pipeline runs.

    Attributes:
      runner: Beam's runner.
      options: Beam's options.
      local: how much of the work this machine does.
      temp_location: the folder for temporary files that the user gave to the cluster, or None.
      name: of the runner.
      flink: the Flink cluster that does the work, if one does.
      job_name: by which that cluster finds the job.
    """

    runner: PipelineRunner
    options: PipelineOptions
    local: LocalWork
    temp_location: str | None
    name: str = ""
    flink: FlinkCluster | None = None
    job_name: str = ""

    def run(
        self, add_stages: Callable[[beam.Pipeline], Any], folder: str | None = None, wait: bool = True
    ) -> JobRecord | None:
        """Runs a pipeline to its end; a job that a cluster gives up is submitted again while it gets on.

        Args:
          add_stages: adds the stages to the pipeline.
          folder: the build's folder for temporary files, which remembers the job. A job of an earlier launcher that
            still runs is followed; a second one would do the same work again.
          wait: False returns when the cluster has the job.

        Returns:
          The job, if it was not waited for.

        Raises:
          BuildError: a worker raised one, or the runner failed.
        """
        from transforms.workspace.counts import read_block_counts

        earlier = find_running_job(folder) if folder is not None else None
        if earlier is not None:
            print(f"the job of this build runs already: {earlier.page}", file=sys.stderr)
            return self._follow(earlier, wait=wait)
        while True:
            blocks = read_block_counts(folder).blocks if folder is not None else 0
            try:
                return self._run_once(add_stages, folder, wait=wait)
            except JobFailedError as error:
                # Flink's default is to give up at the first lost worker.
                if folder is None or read_block_counts(folder).blocks == blocks:
                    raise
                print(f"the job failed: {error}; a new one resumes from the finished blocks", file=sys.stderr)

    def _run_once(
        self, add_stages: Callable[[beam.Pipeline], Any], folder: str | None, *, wait: bool
    ) -> JobRecord | None:
        try:
            with keep_interrupts():
                # A build of archives has two jobs, one after the other, of the same name.
                before = self.flink.find_job(self.job_name) if self.flink is not None else None
                result = self._start(add_stages)
                job = self._find_flink_job(result, before)
                record = (
                    JobRecord(self.name, job.id, job.page) if job else _describe_result(self.name, result, self.options)
                )
                if record is not None and folder is not None:
                    record.write(folder)
                if job is not None:
                    return self._follow(job, wait=wait)
                if not wait:
                    return record
                result.wait_until_finish()
                return None
        except JobFailedError:
            raise
        except Exception as error:  # each runner raises errors of its own
            # Shown with `verbose` alone.
            logging.getLogger(__name__).error("the pipeline failed", exc_info=error)
            why = describe_error(error)
            may_be_lost = not (self.local.is_local or isinstance(error, BuildError) or find_build_error(str(error)))
            raise (JobFailedError if may_be_lost else BuildError)(why) from error

    def _start(self, add_stages: Callable[[beam.Pipeline], Any]) -> PipelineResult:
        import apache_beam as beam

        pipeline = beam.Pipeline(runner=self.runner, options=self.options)
        add_stages(pipeline)
        return pipeline.run()

    def _follow(self, job: FlinkJob, *, wait: bool) -> JobRecord | None:
        if not wait:
            return JobRecord(self.name, job.id, job.page)
        try:
            job.wait()
        except KeyboardInterrupt:
            job.cancel()
            raise
        return None

    def _find_flink_job(self, result: PipelineResult, before: FlinkJob | None) -> FlinkJob | None:
        """The job that the cluster has made of a pipeline, once it is in its list."""
        if self.flink is None:
            return None
        _remove_submitted(result)
        deadline = time.monotonic() + _SUBMISSION_TIMEOUT
        while time.monotonic() < deadline:
            job = self.flink.find_job(self.job_name)
            if job is not None and job != before:
                return job
            time.sleep(0.5)
        return None


def _remove_submitted(result: PipelineResult) -> None:
    """Removes what Beam leaves behind a submission, and nobody needs: Flink has made a copy of the uploaded jar."""
    service = getattr(result, "_job_service", None)
    for job in getattr(service, "_jobs", {}).values():
        job.delete_jar()
    folder = getattr(service, "_temp_dir", None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _describe_result(runner: str, result: PipelineResult, options: PipelineOptions) -> JobRecord | None:
    """The job of a runner that returns its name."""
    if hasattr(result, "has_job"):
        return describe_dataflow_job(runner, result, options)
    job_id = getattr(result, "job_id", None)
    return JobRecord(runner, str(job_id()), "") if callable(job_id) else None


def decide_local_work(arguments: Sequence[str]) -> LocalWork:
    """Decides, from Beam's arguments alone, whether processes of this machine do the work.

    They do for the local runner, unless the user asks for another of its modes: then Beam's own workers do.

    Raises:
      RequestError: the number of workers is not one.
    """
    parser = Parser(prog="beam-tfrecords convert", add_help=False, allow_abbrev=False)
    for name in ("runner", "direct_running_mode", "direct_num_workers"):
        parser.add_argument(f"--{name}", default="")
    given, _ = parser.parse_known_args(list(arguments))
    if given.runner.lower() not in _LOCAL:
        return LocalWork(is_local=False, processes=0)
    try:
        processes = whole_number(0)(given.direct_num_workers or 0) or usable_cores()
    except ValueError as error:
        raise RequestError(f"--direct_num_workers={given.direct_num_workers}: {error}") from error
    return LocalWork(is_local=True, processes=0 if given.direct_running_mode else processes)


def choose_execution(arguments: Sequence[str], *, verbose: bool, quiet: bool = False) -> Execution:
    """Reads Beam's arguments, and asks a cluster for what they leave open.

    Args:
      arguments: for Beam.
      verbose: whether Beam's own log is shown.
      quiet: whether the user is not told what was filled in.

    Raises:
      RequestError: Beam does not know an argument, or not the runner, or what it needs is not installed.
    """
    local = decide_local_work(arguments)
    from apache_beam.options.pipeline_options import DirectOptions, GoogleCloudOptions, PipelineOptions, StandardOptions
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    from apache_beam.runners.runner import create_runner

    check_known(arguments)
    logging.getLogger().setLevel(logging.INFO if verbose else logging.CRITICAL)
    completed = complete_arguments(arguments)
    if completed.note and not quiet:
        print(completed.note, file=sys.stderr)
    options = PipelineOptions(completed.arguments)
    name = options.view_as(StandardOptions).runner or ""
    if local.is_local:
        runner = FnApiRunner()
        if local.processes:
            direct = options.view_as(DirectOptions)
            direct.direct_running_mode, direct.direct_num_workers = "in_memory", 1
    else:
        try:
            runner = create_runner(name)
        except (ValueError, ImportError, AttributeError) as error:
            raise RequestError(f"--runner={name}: {error}") from error
    temp_location = options.view_as(GoogleCloudOptions).temp_location
    return Execution(runner, options, local, temp_location, name, completed.flink, completed.job_name)


def check_detached(arguments: Sequence[str]) -> None:
    """Checks that a job ends without the process that submitted it.

    Raises:
      RequestError: the runner's does not.
    """
    parser = Parser(prog="beam-tfrecords convert", add_help=False, allow_abbrev=False)
    parser.add_argument("--runner", default="")
    runner = parser.parse_known_args(list(arguments))[0].runner
    if runner.rpartition(".")[2].lower() not in _DETACHED:
        raise RequestError(
            f"`no_wait`: with `runner={runner or 'DirectRunner'}` the job needs this process until it ends; leave it "
            "out, or use FlinkRunner or DataflowRunner"
        )


def check_known(arguments: Sequence[str]) -> None:
    """Checks that Beam knows all arguments.

    Raises:
      RequestError: it does not.
    """
    parser = add_beam_flags(Parser(prog="beam-tfrecords convert", add_help=False, allow_abbrev=False))
    _, unknown = parser.parse_known_args(list(arguments))
    if unknown:
        refuse_unknown(unknown, flag_names(parser))
