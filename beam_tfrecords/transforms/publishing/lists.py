"""Writes and reads the lists of failures and duplicates, and the outcome of a build that publishes nothing."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from beam_tfrecords import storage
from beam_tfrecords.dataset.files import DUPLICATES, FAILURES
from beam_tfrecords.dataset.schema import count, fields, flag, listed, mapped, plain, read_json, text
from beam_tfrecords.dataset.versions import remove
from beam_tfrecords.errors import BuildError
from beam_tfrecords.escaping import json_file
from beam_tfrecords.transforms.publishing.changes import GuardResult
from beam_tfrecords.transforms.publishing.publication import Publication, WrittenFile
from beam_tfrecords.transforms.request.build_spec import Duplicates
from beam_tfrecords.transforms.stats import Stats, stats_row
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.state_files import read_if_there

# Key and detail of a failure.
Example: TypeAlias = "tuple[str, str]"
_MOST_LINES = 100_000
_OUTCOME = fields(
    {
        "listed": mapped(count),
        "stats": listed(stats_row),
        "folder": text,
        "causes": listed(text),
        "tripped": listed(text),
        "guards": listed(text),
        "is_unchanged": flag,
        "forbids_duplicates": flag,
        "remedy": mapped(plain),
    }
)


def write_lists(
    publication: Publication,
    stats: Stats,
    folder: str,
    *,
    failures: Iterable[str],
    duplicates: Iterable[str],
    check: storage.Check,
) -> dict[str, WrittenFile]:
    """Writes the lists of failures and duplicates; returns name -> written file.

    Args:
      publication: settings for publishing.
      stats: the counts of the build.
      folder: where the lists go.
      failures: files with rejected samples.
      duplicates: files with groups of identical images.
      check: as in `storage.open_new`.
    """
    expected = (
        (FAILURES, failures, stats.total("failed")),
        (DUPLICATES, duplicates, stats.total("duplicates", "groups") + stats.total("near", "groups")),
    )
    composed = storage.run_concurrently(
        folder,
        *(
            functools.partial(
                _compose_lines, sorted(files), storage.join(folder, name), publication=publication, check=check
            )
            for name, files, _ in expected
        ),
    )
    lists = {}
    for (name, _, counted), (lists[name], lines) in zip(expected, composed, strict=True):
        if lines != counted:
            raise BuildError(f"{name} has {lines} lines, but {counted} were counted")
    return lists


def _compose_lines(
    files: Iterable[str], path: str, *, publication: Publication, check: storage.Check
) -> tuple[WrittenFile, int]:
    """Concatenates lists; returns the written file and its number of lines."""
    digest = hashlib.sha256()
    lines = size = 0
    is_temporary = storage.dirname(path) == publication.folder
    opened = (
        storage.open_write(path) if is_temporary else storage.open_new(path, staging=publication.folder, check=check)
    )
    try:
        with opened as target:
            for file in files:
                with storage.open_read(file) as source:
                    for chunk in storage.read_chunks(source):
                        target.write(chunk)
                        digest.update(chunk)
                        size += len(chunk)
                        lines += bytes(chunk).count(b"\n")
    except FileExistsError as error:
        publication.fence.check()
        if storage.sha256(path) != digest.hexdigest():
            raise storage.written_by_another(path) from error
    return WrittenFile(digest.hexdigest(), size), lines


def find_examples(path: str, reasons: Mapping[str, int]) -> dict[str, Example]:
    """Returns the first failure of each reason in a list of failures; reads at most 100,000 lines."""
    found: dict[str, Example] = {}
    if not reasons:
        return found
    with storage.open_read(path) as file:
        for line in itertools.islice(file, _MOST_LINES):
            failure = json.loads(line)
            found.setdefault(failure["reason"], (failure["key"], failure["detail"]))
            if len(found) == len(reasons):
                break
    return found


def write_outcome(
    publication: Publication,
    stats: Stats,
    *,
    folder: str,
    causes: Iterable[str] = (),
    violated: Iterable[GuardResult] = (),
    is_unchanged: bool = False,
) -> None:
    """Writes for the launcher why nothing is published, and removes the files of the unpublished version."""
    if publication.history:
        remove(publication.root, publication.history.version, delete=publication.delete)
    guards = sorted({result.guard.value for result in violated})
    outcome = {
        "listed": dict(publication.listed),
        "stats": stats.to_json(),
        "folder": folder,
        "causes": list(causes),
        "tripped": [str(result) for result in violated],
        "guards": guards,
        "is_unchanged": is_unchanged,
        "forbids_duplicates": publication.duplicates is Duplicates.FAIL,
        "remedy": {"accept": ",".join(guards)} if guards else publication.find_remedy(stats),
    }
    storage.write_bytes(BuildFolder(publication.folder).outcome, json_file(outcome))


def read_outcome(folder: str) -> dict[str, Any] | None:
    """Reads the file of `write_outcome` in a build's folder; returns None if it is missing or damaged."""
    content = read_if_there(BuildFolder(folder).outcome)
    with contextlib.suppress(ValueError):
        return None if content is None else read_json(content, _OUTCOME)
    return None
