"""Finishes a build: updates LATEST, removes old versions, writes the report and deletes temporary files."""

from __future__ import annotations

import dataclasses
import logging
import shlex
import sys

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.output.lock import LockedOutput
from beam_tfrecords.beam_pipelines.build.output.previous import Previous, clean_versions, point_to_whole
from beam_tfrecords.beam_pipelines.messages.outcomes import Published, Unpublished
from beam_tfrecords.beam_pipelines.runners.jobs import JobRecord
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.errors import BuildError
from beam_tfrecords.output.files import REPORT
from beam_tfrecords.output.pointers import read_pinned
from beam_tfrecords.reading.dataset import Dataset
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.workspace.build_folder import Workspace
from beam_tfrecords.transforms.workspace.cleaning import delete_temporary

_log = logging.getLogger(__name__)


def finish(
    spec: BuildSpec,
    outcome: Published | Unpublished | JobRecord,
    previous: Previous,
    output: LockedOutput,
    *,
    report: bool,
) -> tuple[Published | Unpublished | JobRecord, str | None]:
    """Finishes a build while its output is locked.

    Args:
      spec: the request.
      outcome: outcome of the build.
      previous: the previous datasets.
      output: the locked output.
      report: writes `report.html`.

    Returns:
      The outcome, completed; and why temporary files remain, or None.

    Raises:
      BuildError: the pinned version is damaged, so LATEST cannot name it.
    """
    unchanged = outcome.path if isinstance(outcome, Published) and outcome.is_unchanged else None
    if isinstance(outcome, Published) and (overtaken := _find_overtaken(output)):
        show(f"note: {overtaken}; neither the report nor what is left over is touched", file=sys.stderr)
        return outcome, None
    if isinstance(outcome, Published):
        # A worker that failed to update LATEST reported nothing.
        point_to_whole(spec, outcome.path)
    if unchanged or not spec.schedule.versioned:
        # A new version has these notes in `changes.json`.
        for note in previous.notes:
            show(f"note: {note}", file=sys.stderr)
    if spec.schedule.versioned and not isinstance(outcome, Unpublished):
        # The version of a job that nobody waits for is unfinished; finished versions may be old enough to remove.
        removed = clean_versions(spec, unfinished=not isinstance(outcome, JobRecord))
        _log.info("removed %d old versions: %s", len(removed), ", ".join(removed))
        if isinstance(outcome, Published):
            outcome = dataclasses.replace(outcome, removed=removed, pinned=read_pinned(spec.output))
        else:
            for name in removed:
                show(f"removed: version {name}", file=sys.stderr)
    # A build that was killed after publishing a version has left the version without a report.
    if report and isinstance(outcome, Published) and not (outcome.is_unchanged and _has_report(outcome.path)):
        outcome = dataclasses.replace(outcome, report=_write_report(spec, outcome.dataset, check=output.lease.check))
    if isinstance(outcome, Published):
        # Writing the report has already checked the lease.
        overtaken = None if outcome.report else _find_overtaken(output)
        problem = overtaken or _remove_temporary(spec.output)
        if problem is None:
            output.is_cleaned.set()
        return outcome, problem
    return outcome, None


def note_left(output: str, problem: str | None) -> None:
    """Prints why temporary files remain, if any do."""
    if problem and storage.is_folder(Workspace(output).path):
        show(f"note: {problem}; the next build into this folder removes them", file=sys.stderr)


def _find_overtaken(output: LockedOutput) -> str | None:
    """Returns why the output may already belong to another build; None while this build holds the lease."""
    try:
        output.lease.check()
    except (OSError, BuildError) as error:
        return str(error)
    return None


def _has_report(path: str) -> bool:
    return storage.exists(storage.join(path, REPORT))


def _write_report(spec: BuildSpec, dataset: Dataset, *, check: storage.Check) -> str | None:
    """Writes the report of a published dataset. A failure is printed only: the dataset stays published."""
    try:
        from beam_tfrecords.beam_pipelines.report.page import write_report

        # The failed files belong to the input of this request, so they may be opened.
        return write_report(dataset, failed_images=True, staging=Workspace(spec.output).path, check=check)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        show(
            f"note: the report could not be written: {reason}; the dataset is whole, and "
            f"`beam-tfrecords report --dataset={shlex.quote(dataset.path)} --failed_images` tries again",
            file=sys.stderr,
        )
        return None


def _remove_temporary(output: str) -> str | None:
    """Removes the temporary files of a published dataset; returns the error message, or None."""
    try:
        delete_temporary(output)
    except storage.AccessDeniedError as error:
        return f"the files in {Workspace(output).path} stay: the credentials lack the permission {error.permission}"
    except OSError as error:
        return f"{error.filename or output} could not be removed: {error.strerror or error}"
    except BuildError as error:
        return f"the temporary files could not be removed: {error}"
    return None
