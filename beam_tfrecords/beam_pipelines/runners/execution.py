"""Runs pipelines on a runner, and resubmits jobs that lost their workers.

Imports Beam only before a pipeline runs, so that invalid requests fail without this delay.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import random
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.interrupts import Terminated, keep_interrupts
from beam_tfrecords.beam_pipelines.runners import beam_random
from beam_tfrecords.beam_pipelines.runners.find_runner import find_running
from beam_tfrecords.beam_pipelines.runners.jobs import Job, JobFailedError, JobRecord, describe_error, find_build_error
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
    """Where pipelines run.

    Attributes:
      runner: the runner.
      quiet: whether to hide progress.
      keeps_job: whether a submitted job continues on its cluster after SIGTERM.
    """

    runner: Runner
    quiet: bool = False
    keeps_job: bool = False

    @classmethod
    def prepare(cls, runner: Runner, *, quiet: bool = False, keeps_job: bool = False) -> Execution:
        """Checks Beam's arguments, and queries a cluster for missing values.

        Raises:
          RequestError: an argument or the runner is unknown to Beam, or a requirement of the runner is not installed.
        """
        runner.arguments.check_known()
        execution = cls(runner, quiet=quiet, keeps_job=keeps_job)
        if runner.needs_answers:
            _ = execution._of_beam
        return execution

    @functools.cached_property
    def _of_beam(self) -> tuple[PipelineRunner, PipelineOptions]:
        """Beam's runner and options, which are made when a pipeline runs, or earlier if a cluster must answer."""
        from apache_beam.options.pipeline_options import PipelineOptions

        completed = self.runner.complete()
        if self.runner.note and not self.quiet:
            show(*self.runner.note.splitlines(), file=sys.stderr)
        options = PipelineOptions(completed)
        return self.runner.create(options), options

    def run(
        self,
        add_stages: Callable[[beam.Pipeline], Any],
        folder: str | None = None,
        wait: bool = True,
        *,
        is_new: bool = False,
    ) -> JobRecord | None:
        """Runs a pipeline to its end, or follows the job of an earlier launcher that does the same work.

        If a submitted job fails for a reason outside the build, this method submits it again, provided that it has
        finished blocks. After the first failure without finished blocks, the next job converts in child processes, so
        that a crash ends a child instead of the worker. A followed job is not submitted again, because its launcher
        holds the output lock for it.

        Args:
          add_stages: adds the stages to a pipeline.
          folder: build folder, which records the job.
          wait: whether to wait for the end of the job; if False, returns when the cluster has the job.
          is_new: whether the folder contains nothing of an earlier launcher.

        Returns:
          The record of the job if `wait` is False.

        Raises:
          BuildError: a worker raised it, or the runner failed.
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
                # By default, Flink gives up after the first lost worker; Spark always does.
                if folder is None or not (read_block_counts(folder).blocks > blocks or _isolate_blocks(folder)):
                    raise
                show(f"the job failed: {error}; a new one resumes from the finished blocks", file=sys.stderr)

    def run_nothing(self) -> None:
        """Runs a job without work for a template, which the service considers failed if it produces no job."""
        if self.runner.lists_in_job:
            self.run(_add_nothing)

    def _run_once(
        self, add_stages: Callable[[beam.Pipeline], Any], folder: str | None, *, wait: bool
    ) -> JobRecord | None:
        beam_runner, options = self._of_beam
        try:
            with keep_interrupts(), asked_once(), with_own_random_numbers():
                import apache_beam as beam

                pipeline = beam.Pipeline(runner=beam_runner, options=options)
                add_stages(pipeline)
                job = self.runner.submit(pipeline, functools.partial(_remember, folder))
                return self._follow(job, wait=wait)
        except JobFailedError:
            raise
        except Exception as error:  # Each runner raises different exceptions.
            # The raised error has a one-line message.
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


def _add_nothing(root: beam.Pipeline) -> None:
    import apache_beam as beam

    root | "NothingHasChanged" >> beam.Create([])


def _remember(folder: str | None, record: JobRecord) -> None:
    if folder is not None:
        record.write(folder)
        _log.info("submitted job %s to %s", record.job_id or record.name, record.runner)


def _isolate_blocks(folder: str) -> bool:
    """Enables child processes for conversions if a block was started but not finished; returns whether it did."""
    build = BuildFolder(folder)
    if storage.exists(build.unfinished):
        return False
    if not (storage.has_scheme(folder) or storage.is_folder(build.blocks)):
        return False
    paths = {entry.path for entry in storage.list_files(build.blocks, literal=True)}
    stems = {storage.basename(path).partition(".")[0] for path in paths}
    if all(build.block(stem) in paths for stem in stems):
        return False
    storage.write_bytes(build.unfinished, b"")
    return True


@contextlib.contextmanager
def asked_once() -> Iterator[None]:
    """Caches values in Beam that do not change while a pipeline is built and run.

    For one of our pipelines, Beam parses all its flags 430 times and inspects each DoFn 7 times for state and timers,
    which none has. This takes two thirds of the time to build and start the pipeline. If IPython is installed, Beam
    also names stages after notebook cells, which fails without pandas.
    """
    from apache_beam import pipeline
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.transforms import userstate
    from apache_beam.utils import interactive_utils

    replaced: list[tuple[Any, str, Callable[..., Any]]] = [
        (PipelineOptions, "view_as", _once(PipelineOptions.view_as)),
        (userstate, "get_dofn_specs", lambda _: (set(), set())),
        (pipeline, "is_in_ipython", lambda: False),
        (interactive_utils, "is_in_ipython", lambda: False),
    ]
    with contextlib.ExitStack() as stack:
        for owner, name, function in replaced:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, function)
        yield


def _once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Caches a function by the identity of its first argument, and by its other arguments."""
    # Keeps the first argument too, so that no other object can get its id.
    known: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    def call(first: Any, *others: Any) -> Any:
        key = (id(first), *others)
        if key not in known:
            known[key] = first, function(first, *others)
        return known[key][1]

    return call


@contextlib.contextmanager
def with_own_random_numbers() -> Iterator[None]:
    """Makes Beam's modules use `beam_random` instead of `random`."""
    # Imports this module first, because modules imported later would still use `random`.
    import apache_beam.runners.portability.fn_api_runner  # noqa: F401

    modules = [module for name, module in list(sys.modules.items()) if name.startswith("apache_beam.")]
    with contextlib.ExitStack() as stack:
        for module in modules:
            if vars(module).get("random") is random:
                stack.callback(setattr, module, "random", random)
                setattr(module, "random", beam_random)  # noqa: B010
        yield
