"""Finishes a build: updates LATEST, removes old versions, writes the report and deletes temporary files."""

from __future__ import annotations

import dataclasses
import logging
import shlex
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.output.lock import LockedOutput
from beam_tfrecords.beam_pipelines.build.output.previous import Previous, clean_versions, point_to_whole, remove_version
from beam_tfrecords.beam_pipelines.messages.outcomes import Published, Unpublished
from beam_tfrecords.beam_pipelines.runners.jobs import JobRecord
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.dataset.dataset import StoredDataset, open_published
from beam_tfrecords.dataset.files import REPORT, UNCHANGED
from beam_tfrecords.dataset.pointers import read_pinned
from beam_tfrecords.errors import BuildError, describe_exception
from beam_tfrecords.escaping import json_file
from beam_tfrecords.transforms.publishing.lists import read_outcome
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.workspace.build_folder import Workspace
from beam_tfrecords.transforms.workspace.cleaning import delete_temporary
from beam_tfrecords.transforms.workspace.output_folder import is_open

if TYPE_CHECKING:
    from beam_tfrecords.transforms.publishing.publication import Publication

_log = logging.getLogger(__name__)


def finish(
    spec: BuildSpec,
    outcome: Published | Unpublished | JobRecord,
    previous: Previous,
    output: LockedOutput,
    *,
    report: bool,
    began: float,
) -> tuple[Published | Unpublished | JobRecord, str | None]:
    """Finishes a build while its output is locked.

    Args:
      spec: the request.
      outcome: outcome of the build.
      previous: the previous datasets.
      output: the locked output.
      report: writes `report.html`.
      began: start of the run, in seconds since the epoch.

    Returns:
      The outcome, completed; and why temporary files remain, or None.

    Raises:
      BuildError: the pinned version is damaged, so LATEST cannot name it.
    """
    unchanged = outcome.path if isinstance(outcome, Published) and outcome.is_unchanged else None
    if isinstance(outcome, Published) and (overtaken := _find_overtaken(output)):
        show(f"note: {overtaken}; the report and leftover files stay as they are", file=sys.stderr)
        return outcome, None
    if isinstance(outcome, Published):
        # A worker that failed to update LATEST reported nothing.
        point_to_whole(spec, outcome.path)
    if unchanged or not spec.versioned:
        # A new version has these notes in `changes.json`.
        for note in previous.notes:
            show(f"note: {note}", file=sys.stderr)
    if unchanged and spec.versioned:
        run = {"version": storage.basename(unchanged), "began": began, "ended": time.time()}
        storage.write_bytes(storage.join(spec.output, UNCHANGED), json_file(run))
    if spec.versioned and not isinstance(outcome, Unpublished):
        removed = clean_versions(spec)
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


def finish_in_pipeline(_: Any, *, spec: BuildSpec, publication: Publication, report: bool) -> Iterator[str]:
    """Finishes a build whose launcher does not wait: updates LATEST, removes old versions and writes the report.

    Args:
      spec: the request.
      publication: settings for publishing.
      report: writes `report.html`.

    Yields:
      The folder of the dataset, or of the newest version if the build would repeat it; nothing if a limit or guard
      prevented publishing.
    """
    outcome, dataset, history = read_outcome(publication.folder), find_published(publication), publication.history
    repeated = history if dataset is None and outcome is not None and outcome["is_unchanged"] else None
    if repeated is not None and repeated.newest is not None:
        dataset = repeated.newest.open()
    if dataset is None:
        return
    # A retry of this step finds no fence if the temporary files are already removed.
    if publication.fence.is_held():
        if repeated is not None:
            remove_version(spec.output, repeated.version)
        point_to_whole(spec, dataset.path)
        if spec.versioned:
            removed = clean_versions(spec)
            _log.info("removed %d old versions: %s", len(removed), ", ".join(removed))
        if report and not _has_report(dataset.path):
            _write_report(spec, dataset, check=publication.fence.check)
    yield dataset.path


def find_published(publication: Publication) -> StoredDataset | None:
    """Returns the published dataset if its manifest comes from this build."""
    output = publication.output
    if not (publication.is_new or is_open(output)):
        return None
    dataset, _ = open_published(output)
    return dataset if dataset is not None and dataset.states(publication.metadata) else None


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


def _write_report(spec: BuildSpec, dataset: StoredDataset, *, check: storage.Check) -> str | None:
    """Writes the report of a published dataset. A failure is printed only: the dataset stays published."""
    try:
        from beam_tfrecords.beam_pipelines.report.page import write_report

        return write_report(dataset, staging=Workspace(spec.output).path, check=check)
    except Exception as error:
        show(
            f"note: the report could not be written: {describe_exception(error)}; the dataset is whole, and "
            f"`{shlex.join(['beam-tfrecords', 'report', f'--dataset={dataset.path}'])}` tries again",
            file=sys.stderr,
        )
        return None


def _remove_temporary(output: str) -> str | None:
    """Removes the temporary files of a published dataset; returns the error message, or None."""
    try:
        delete_temporary(output)
    except storage.AccessDeniedError as error:
        return f"the files in {Workspace(output).path} stay: {error.reason}"
    except (OSError, BuildError) as error:
        path = getattr(error, "filename", None) or output
        return f"{path} could not be removed: {getattr(error, 'strerror', None) or error}"
    return None
