"""One build, from the request to `_SUCCESS`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.finish import find_published, finish, note_left
from beam_tfrecords.beam_pipelines.build.listing.source_opening import open_spec_source
from beam_tfrecords.beam_pipelines.build.output.lock import lock_output
from beam_tfrecords.beam_pipelines.build.output.previous import Previous, open_previous
from beam_tfrecords.beam_pipelines.build.user_functions import find_functions
from beam_tfrecords.beam_pipelines.dataset import Dataset
from beam_tfrecords.beam_pipelines.limits import prepare_process
from beam_tfrecords.beam_pipelines.messages.outcomes import Published, Unpublished
from beam_tfrecords.beam_pipelines.runners.execution import Execution
from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner
from beam_tfrecords.beam_pipelines.runners.jobs import JobRecord, Run
from beam_tfrecords.beam_pipelines.runners.runner import Runner
from beam_tfrecords.beam_pipelines.settings.definitions import read_call, settings_by_group
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.errors import BuildError, LimitError, RequestError, naming_end
from beam_tfrecords.quiet_beam import beam_logs_from
from beam_tfrecords.transforms.publishing.lists import read_outcome
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder, Workspace
from beam_tfrecords.transforms.workspace.counts import clear_stage_counts, read_block_counts
from beam_tfrecords.transforms.workspace.state_files import write_state

_log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from beam_tfrecords.beam_pipelines.build.resolve import ResolvedBuild
    from beam_tfrecords.beam_pipelines.settings.build_settings import BuildSettings, Path, Words


def build(
    input: Words | Callable[..., Any] | None = None,
    output: Path | None = None,
    /,
    *,
    beam_arguments: Sequence[str] = (),
    verbose: bool = False,
    quiet: bool = False,
    report: bool = True,
    **settings: Unpack[BuildSettings],
) -> Dataset:
    """Builds a dataset, as `beam-tfrecords convert` does.

        >>> dataset = build("photos/", "built/", image_size=16, quiet=True)
        >>> dataset.num_records
        12

    Args:
      input: the setting `input`; it may also be given by name.
      output: the setting `output`; it may also be given by name.
      beam_arguments: arguments for Beam, such as `--runner=FlinkRunner`.
      verbose: shows Beam's log messages of level INFO and above.
      quiet: hides progress.
      report: writes `report.html`.
      settings: named as the flags, with values as in a spec file; see docs/settings.md.

    Returns:
      The dataset.

    Raises:
      RequestError: the request is wrong; nothing has been started.
      OutputLockedError: another build holds the output; nothing has been started.
      LimitError: nothing was published, because of failures, duplicates or guards.
      BuildError: the build failed.
    """
    with beam_logs_from(logging.INFO if verbose else logging.CRITICAL):
        find_runner(beam_arguments).arguments.check_known()
        spec = read_call(input, output, settings)
        with storage.using(storage.StorageOptions(beam_arguments=tuple(beam_arguments))):
            outcome = build_dataset(spec, beam_arguments, quiet=quiet, report=report)
    assert not isinstance(outcome, JobRecord)
    if isinstance(outcome, Published):
        return Dataset.of(outcome.dataset)
    has_lists = outcome.causes and (outcome.failed or outcome.duplicates)
    more = [f"`{name}={value!r}` publishes the others" for name, value in outcome.remedy.items() if outcome.causes]
    more += [f"`accept={outcome.remedy['accept']!r}` if that is right"] if outcome.violated else []
    more += [f"the lists are in {outcome.folder}"] if has_lists else []
    raise LimitError(
        f"nothing was published: {'; '.join([*outcome.causes, *outcome.violated, *more])}",
        code=next(iter(outcome.remedy), ""),
        failures=outcome.reasons,
        folder=outcome.folder,
    )


# Adds the settings to `help(build)`.
build.__doc__ = f"{build.__doc__}\n    Settings:\n" + "".join(
    f"      {group}: {', '.join(setting.name for setting in members)}.\n" for group, members in settings_by_group()
)


def build_dataset(
    spec: BuildSpec,
    beam_arguments: Sequence[str],
    *,
    quiet: bool,
    wait: bool = True,
    keeps_job: bool = False,
    fails_job: bool = False,
    report: bool,
) -> Published | Unpublished | JobRecord:
    """Runs a build to its end.

    Args:
      spec: the request.
      beam_arguments: arguments for Beam.
      quiet: hides progress.
      wait: waits for the end of the build; otherwise returns when the cluster has accepted the job.
      keeps_job: lets the job continue when this process receives SIGTERM.
      fails_job: fails a job that this process does not wait for if the job publishes nothing.
      report: writes `report.html`.

    Returns:
      The outcome; without `wait`, the submitted job.

    Raises:
      RequestError: the request is wrong; nothing has been started.
      OutputLockedError: another build holds the output; nothing has been started.
      BuildError: the build failed.
    """
    with storage.using(spec.storage_options()), naming_end():
        prepare_process()
        runner = find_runner(beam_arguments)
        for name, is_given in (("no_wait", not wait), ("keep_job", keeps_job)):
            if is_given:
                runner.check_detached(name)
        if fails_job and wait:
            raise RequestError(
                "`fail_job`: says how a job ends that this process does not wait for; add `no_wait`",
                code="needs_setting",
            )
        prepare = functools.partial(Execution.prepare, runner, quiet=quiet, keeps_job=keeps_job)
        return _build(spec, runner, prepare, wait=wait, fails_job=fails_job, report=report)


def _build(
    spec: BuildSpec, runner: Runner, prepare: Callable[[], Execution], *, wait: bool, fails_job: bool, report: bool
) -> Published | Unpublished | JobRecord:
    began = time.time()
    spec = given = find_functions(spec)
    runner.arguments.check_known()
    with lock_output(spec, runner) as output:
        # Workers import their modules while this process opens the input.
        _log.info("building %s with %s and %d worker processes", spec.output, type(runner).__name__, runner.processes)
        runner.start_workers(*storage.modules_for([spec.output, *spec.input]))
        with _expanding(spec.output), _trying_suggestions(spec):
            spec, source = open_spec_source(spec)
        if spec.save_mapping and source.description.draft:
            storage.write_bytes(spec.save_mapping, source.description.draft.encode())
        runner.dataset, runner.has_job = spec.name, output.job is not None
        execution = prepare()
        previous = open_previous(spec)
        if previous.warning:
            show(
                f"warning: {spec.output}: {previous.warning}; readers fail until a new build replaces it",
                file=sys.stderr,
            )
        # These import NumPy, which a refused command does not need.
        from beam_tfrecords.beam_pipelines.build.listing.list_for_build import list_for_build
        from beam_tfrecords.beam_pipelines.build.listing.list_input import ListedInput
        from beam_tfrecords.beam_pipelines.build.prepare import prepare_build
        from beam_tfrecords.transforms.listing.indexing import IndexPlan

        build: ResolvedBuild | None = None
        trying = _trying_suggestions(given)
        with _expanding(spec.output), trying, list_for_build(spec, source, execution, output, previous) as listed:
            if isinstance(listed, ListedInput):
                build = prepare_build(spec, listed, output=output, previous=previous)
        outcome: Published | Unpublished | JobRecord
        if isinstance(listed, IndexPlan):
            from beam_tfrecords.beam_pipelines.build.job_listing import submit_unlisted

            outcome = submit_unlisted(
                given, spec, source, listed, execution, output, fails_unpublished=fails_job, report=report
            )
        elif build is None:
            assert previous.newest
            _log.info("nothing has changed since %s", previous.newest.path)
            execution.run_nothing()
            outcome = Published(previous.newest, is_unchanged=True)
        else:
            outcome = _run(build, previous, execution, wait=wait, fails_unpublished=fails_job, report=report)
        _log.info("the build ended: %s", _describe(outcome))
        outcome, problem = finish(spec, outcome, previous, output, report=report, began=began)
    note_left(spec.output, problem)
    return outcome


@contextlib.contextmanager
def _expanding(output: str) -> Iterator[None]:
    """Expands compressed archives into the output's folder for temporary files; a refused request leaves none there."""
    folder = Workspace(output).expanded
    try:
        with storage.expanding_into(folder):
            yield
    except RequestError:
        with contextlib.suppress(OSError):
            storage.delete_tree(folder)
        raise


@contextlib.contextmanager
def _trying_suggestions(spec: BuildSpec) -> Iterator[None]:
    try:
        yield
    except RequestError:
        # Only refused requests need this module.
        from beam_tfrecords.beam_pipelines.build.listing.trial import trying_suggestions

        with trying_suggestions(spec):
            raise


def _describe(outcome: Published | Unpublished | JobRecord) -> str:
    if isinstance(outcome, Published):
        return f"{outcome.path} is published"
    if isinstance(outcome, Unpublished):
        return f"nothing is published: {outcome.failed} of {outcome.listed} samples failed, guards: {outcome.guards}"
    return f"job {outcome.job_id} goes on"


def _run(
    build: ResolvedBuild,
    previous: Previous,
    execution: Execution,
    *,
    wait: bool,
    fails_unpublished: bool,
    report: bool,
) -> Published | Unpublished | JobRecord:
    """Runs the pipeline of a build.

    Args:
      build: the build.
      previous: the previous datasets.
      execution: where pipelines run.
      wait: waits for the end; otherwise returns when the cluster has accepted the job.
      fails_unpublished: fails a job that nobody waits for if the job publishes nothing.
      report: lets such a job write `report.html`.

    Returns:
      The outcome; without `wait`, the submitted job.

    Raises:
      BuildError: the build failed.
    """
    from beam_tfrecords.beam_pipelines.build.pipeline import build_pipeline
    from beam_tfrecords.beam_pipelines.messages.progress import Progress

    path, publication = BuildFolder(build.folder).outcome, build.publication
    # The outcome of an earlier attempt at this build does not count.
    listed, blocks = sum(build.listed.values()), sum(build.block_plan.blocks.values())
    done_before, is_new = 0, build.block_plan.is_new
    if not is_new:
        done_before, *_ = storage.run_concurrently(
            path,
            lambda: read_block_counts(build.folder).done,
            functools.partial(_delete_if_there, path),
            functools.partial(clear_stage_counts, build.folder),
        )
    _log.info("converting %d samples in %d blocks; %d samples are done", listed, blocks, done_before)
    run = dataclasses.replace(Run.of_this_process(), listed=listed, blocks=blocks, done_before=done_before)
    # Some credentials can create files, but not replace those of an earlier run.
    with contextlib.suppress(storage.AccessDeniedError):
        write_state(BuildFolder(build.folder).run, run)
    try:
        progress = Progress(build.folder, total=listed, blocks=blocks, done_before=done_before)
        with contextlib.nullcontext() if execution.quiet else progress:
            memory = execution.runner.least_memory(build.spec.max_image_memory)
            stages = functools.partial(
                build_pipeline,
                spec=build.spec,
                build=build,
                processes=execution.runner.processes,
                least_memory=memory,
            )
            left = functools.partial(stages, cleans=True, fails_unpublished=fails_unpublished, report=report)
            job = execution.run(stages if wait else left, build.folder, wait, is_new=is_new)
        if job is not None:
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
    if outcome["is_unchanged"] and previous.newest:
        return Published(previous.newest, is_unchanged=True)
    return Unpublished.of(outcome)


def _delete_if_there(path: str) -> None:
    """Deletes a file if it exists, so that the delete permission is needed only then."""
    if storage.exists(path):
        storage.delete_files([path])


def _read_request_metrics(folder: str) -> Mapping[str, int]:
    """Returns the requests that workers sent to object stores; empty if unreadable, since the dataset is published."""
    try:
        return read_block_counts(folder).request_metrics
    except (OSError, BuildError):
        return {}
