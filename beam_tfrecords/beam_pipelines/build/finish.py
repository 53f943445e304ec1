"""What follows a build: LATEST, old versions, the report, and the end of its temporary files."""

from __future__ import annotations

import dataclasses
import logging
import shlex
import sys

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.output.lock import Output
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
    spec: BuildSpec, outcome: Published | Unpublished | JobRecord, earlier: Previous, output: Output, *, report: bool
) -> tuple[Published | Unpublished | JobRecord, str | None]:
    """Does what follows a build while its output is held.

    Args:
      spec: the request.
      outcome: of the build.
      earlier: the datasets before.
      output: the output, held.
      report: whether `report.html` is written.

    Returns:
      The outcome, with what was done; and why temporary files are left, or None.

    Raises:
      BuildError: a version that was pinned is damaged, so that LATEST cannot name it.
    """
    unchanged = outcome.path if isinstance(outcome, Published) and outcome.is_unchanged else None
    if isinstance(outcome, Published) and (overtaken := _find_overtaken(output)):
        show(f"note: {overtaken}; neither the report nor what is left over is touched", file=sys.stderr)
        return outcome, None
    if isinstance(outcome, Published):
        # Where a worker could not do it, nobody was told.
        point_to_whole(spec, outcome.path)
    if unchanged or not spec.schedule.versioned:
        # Otherwise the new version's changes have them.
        for note in earlier.notes:
            show(f"note: {note}", file=sys.stderr)
    if spec.schedule.versioned and not isinstance(outcome, Unpublished):
        # Nobody waits for a job's new version; of those that are finished now, not all are needed.
        removed = clean_versions(spec, unfinished=not isinstance(outcome, JobRecord))
        _log.info("removed %d old versions: %s", len(removed), ", ".join(removed))
        if isinstance(outcome, Published):
            outcome = dataclasses.replace(outcome, removed=removed, pinned=read_pinned(spec.output))
        else:
            for name in removed:
                show(f"removed: version {name}", file=sys.stderr)
    # A build that was killed after it had published a version has left it without one.
    if report and isinstance(outcome, Published) and not (outcome.is_unchanged and _has_report(outcome.path)):
        outcome = dataclasses.replace(outcome, report=_write_report(spec, outcome.dataset, check=output.lease.check))
    if isinstance(outcome, Published):
        # Writing the report has asked for the lease.
        overtaken = None if outcome.report else _find_overtaken(output)
        problem = overtaken or _remove_temporary(spec.output)
        if problem is None:
            output.is_cleaned.set()
        return outcome, problem
    return outcome, None


def note_left(output: str, problem: str | None) -> None:
    """Says why temporary files are left, if some are."""
    if problem and storage.is_folder(Workspace(output).path):
        show(f"note: {problem}; the next build into this folder removes them", file=sys.stderr)


def _find_overtaken(output: Output) -> str | None:
    """Why the output may be another build's by now, after a dataset was published; None if it is not."""
    try:
        output.lease.check()
    except (OSError, BuildError) as error:
        return str(error)
    return None


def _has_report(path: str) -> bool:
    return storage.exists(storage.join(path, REPORT))


def _write_report(spec: BuildSpec, dataset: Dataset, *, check: storage.Check) -> str | None:
    """Writes the report of a published dataset, which stays published whatever goes wrong."""
    try:
        from beam_tfrecords.beam_pipelines.report.page import write_report

        # Its failures are files of the input that this request names.
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
    """Removes the temporary files of a published dataset; returns what went wrong, if anything did."""
    try:
        delete_temporary(output)
    except storage.AccessDeniedError as error:
        return f"the files in {Workspace(output).path} stay: the credentials lack the permission {error.permission}"
    except OSError as error:
        return f"{error.filename or output} could not be removed: {error.strerror or error}"
    except BuildError as error:
        return f"the temporary files could not be removed: {error}"
    return None
