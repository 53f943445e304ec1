"""One build, from the request to `_SUCCESS`."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, overload

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.finish import finish, note_left
from beam_tfrecords.beam_pipelines.build.listing.source_opening import open_spec_source
from beam_tfrecords.beam_pipelines.build.output.lock import hold_output
from beam_tfrecords.beam_pipelines.build.output.previous import Previous
from beam_tfrecords.beam_pipelines.build.prepare import prepare_build
from beam_tfrecords.beam_pipelines.build.run import run_plan
from beam_tfrecords.beam_pipelines.build.user_functions import find_functions
from beam_tfrecords.beam_pipelines.limits import check_limits
from beam_tfrecords.beam_pipelines.messages.outcomes import Published, Unpublished
from beam_tfrecords.beam_pipelines.runners.jobs import JobRecord
from beam_tfrecords.beam_pipelines.runners.runner import Runner
from beam_tfrecords.beam_pipelines.runners.runners import Execution, find_runner
from beam_tfrecords.beam_pipelines.settings.inherited_settings import read_request
from beam_tfrecords.beam_pipelines.settings.typed_settings import settings_by_group
from beam_tfrecords.errors import BuildError, RequestError, naming_end
from beam_tfrecords.escaping import escape
from beam_tfrecords.quiet_beam import beam_logs_from
from beam_tfrecords.reading.dataset import Dataset
from beam_tfrecords.transforms.request.build_spec import BuildSpec, Duplicates

_log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from beam_tfrecords.beam_pipelines.settings.build_settings import BuildSettings


@overload
def build(
    *,
    beam_arguments: Sequence[str] = ...,
    verbose: bool = ...,
    quiet: bool = ...,
    report: bool = ...,
    dry_run: Literal[False] = False,
    **settings: Unpack[BuildSettings],
) -> Dataset: ...
@overload
def build(
    *,
    beam_arguments: Sequence[str] = ...,
    verbose: bool = ...,
    quiet: bool = ...,
    report: bool = ...,
    dry_run: Literal[True],
    **settings: Unpack[BuildSettings],
) -> str: ...
def build(
    *,
    beam_arguments: Sequence[str] = (),
    verbose: bool = False,
    quiet: bool = False,
    report: bool = True,
    dry_run: bool = False,
    **settings: Unpack[BuildSettings],
) -> Dataset | str:
    """Builds a dataset, as `beam-tfrecords convert` does.

        build(input="photos/", output="out/", image_size=256)

    Args:
      beam_arguments: arguments for Beam, such as `--runner=FlinkRunner`.
      verbose: whether Beam logs too, at the level INFO.
      quiet: whether no progress is shown.
      report: whether `report.html` is written.
      dry_run: lists the input and builds nothing.
      settings: under the names of the flags, with values as in a spec file; docs/settings.md says what they do.

    Returns:
      The dataset; with `dry_run`, what would be built, for people.

    Raises:
      RequestError: the request is wrong; nothing has been started.
      BuildError: the build failed, or published nothing because of failures or duplicates.
    """
    with beam_logs_from(logging.INFO if verbose else logging.CRITICAL):
        find_runner(beam_arguments).arguments.check_known()
        spec = read_request({name: _as_plain(value) for name, value in settings.items()})
        if dry_run:
            from beam_tfrecords.beam_pipelines.build.dry_run import describe_build

            return "\n".join(map(escape, describe_build(spec).lines))
        with storage.using(storage.StorageOptions(beam_arguments=tuple(beam_arguments))):
            outcome = build_dataset(spec, beam_arguments, quiet=quiet, report=report)
    assert not isinstance(outcome, JobRecord)
    if isinstance(outcome, Published):
        return outcome.dataset
    has_lists = outcome.causes and (outcome.failed or spec.duplicates is Duplicates.FAIL)
    lists = [f"the lists are in {outcome.folder}"] if has_lists else []
    raise BuildError(f"nothing was published: {'; '.join([*outcome.causes, *outcome.violated, *lists])}")


def _as_plain(value: Any) -> Any:
    """A value as a spec file can have it: sizes may be tuples, and paths `pathlib.Path`s."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return [_as_plain(one) for one in value] if isinstance(value, list | tuple) else value


# For `help(build)`.
build.__doc__ = f"{build.__doc__}\n    Settings:\n" + "".join(
    f"      {group}: {', '.join(setting.name for setting in members)}.\n" for group, members in settings_by_group()
)


def build_dataset(
    spec: BuildSpec,
    beam_arguments: Sequence[str],
    *,
    quiet: bool = False,
    wait: bool = True,
    keeps_job: bool = False,
    fails_job: bool = False,
    report: bool = True,
) -> Published | Unpublished | JobRecord:
    """Runs a build to its end.

    Args:
      spec: the request.
      beam_arguments: arguments for Beam.
      quiet: whether no progress is shown.
      wait: False returns when the cluster has the job.
      keeps_job: whether SIGTERM leaves the job to the cluster.
      fails_job: whether a job that is not waited for fails if it publishes nothing.
      report: whether `report.html` is written.

    Returns:
      The job if it was submitted and not waited for.

    Raises:
      RequestError: the request is wrong; nothing has been started.
      BuildError: the build failed.
    """
    with storage.using(spec.source.storage_options()), naming_end():
        check_limits()
        runner = find_runner(beam_arguments)
        for name, is_given in (("no_wait", not wait), ("keep_job", keeps_job)):
            if is_given:
                runner.check_detached(name)
        if fails_job and wait:
            raise RequestError("`fail_job`: says how a job ends that this process does not wait for; add `no_wait`")
        prepare = functools.partial(Execution.prepare, runner, quiet=quiet, keeps_job=keeps_job)
        return _build(spec, runner, prepare, wait=wait, fails_job=fails_job, report=report)


def _build(
    spec: BuildSpec, runner: Runner, prepare: Callable[[], Execution], *, wait: bool, fails_job: bool, report: bool
) -> Published | Unpublished | JobRecord:
    spec = find_functions(spec)
    runner.arguments.check_known()
    with hold_output(spec, runner) as output:
        # They import what they need while this process does.
        _log.info("building %s with %s and %d worker processes", spec.output, type(runner).__name__, runner.processes)
        runner.start_workers(*storage.modules_for([spec.output, *spec.source.input]))
        spec, source = open_spec_source(spec)
        runner.dataset, runner.has_job = spec.name, output.job is not None
        execution = prepare()
        plan = prepare_build(spec, source, execution, output=output)
        earlier = plan if isinstance(plan, Previous) else plan.earlier
        outcome: Published | Unpublished | JobRecord
        if isinstance(plan, Previous):
            assert plan.newest
            _log.info("nothing has changed since %s", plan.newest.path)
            execution.run_nothing()
            outcome = Published(plan.newest, is_unchanged=True)
        else:
            with _sharing_buckets(runner):
                outcome = run_plan(plan, execution, wait=wait, fails_unpublished=fails_job)
        _log.info("the build ended: %s", _describe(outcome))
        outcome, problem = finish(spec, outcome, earlier, output, report=report)
    note_left(spec.output, problem)
    return outcome


def _describe(outcome: Published | Unpublished | JobRecord) -> str:
    if isinstance(outcome, Published):
        return f"{outcome.path} is published"
    if isinstance(outcome, Unpublished):
        return f"nothing is published: {outcome.failed} of {outcome.listed} samples failed, guards: {outcome.guards}"
    return f"job {outcome.job_id} goes on"


def _sharing_buckets(runner: Runner) -> AbstractContextManager[None]:
    """Within it, workers are told how many they are, so that they send no more requests than a bucket takes."""
    workers = runner.processes or runner.workers
    return storage.using(dataclasses.replace(storage.current_options(), workers=workers, began=time.time()))
