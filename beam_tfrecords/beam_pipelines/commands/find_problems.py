"""Runs the checks of a dataset, on any runner."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import sys
import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.messages.progress import ReadProgress
from beam_tfrecords.beam_pipelines.runners.execution import Execution
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.errors import BuildError
from beam_tfrecords.output.files import SUCCESS
from beam_tfrecords.output.missing import explain_missing
from beam_tfrecords.reading.dataset import Dataset

if TYPE_CHECKING:
    import apache_beam as beam

    from beam_tfrecords.transforms.verifying.checks import Finding, ShardCheck
    from beam_tfrecords.transforms.verifying.choosing import ChosenShards


def find_problems(
    dataset: Dataset, execution: Execution, *, shards: ChosenShards | None = None, shows_progress: bool = False
) -> list[Finding]:
    """Returns the problems of a dataset.

    Args:
      dataset: the dataset.
      execution: where the checks run.
      shards: the shards to check; None for all.
      shows_progress: shows how many records have been read.

    Raises:
      BuildError: the dataset was removed in the meantime.
    """
    try:
        found = list(_find_all(dataset, execution, shards, shows_progress=shows_progress))
    except (OSError, BuildError) as error:
        if storage.exists(storage.join(dataset.path, SUCCESS)):
            raise
        raise explain_missing(dataset.path, SUCCESS) from error
    if found and not storage.exists(storage.join(dataset.path, SUCCESS)):
        raise explain_missing(dataset.path, SUCCESS)
    return found


def _find_all(
    dataset: Dataset, execution: Execution, shards: ChosenShards | None, *, shows_progress: bool
) -> Iterator[Finding]:
    from beam_tfrecords.transforms.verifying.checks import Finding, ShardCheck, verify_files
    from beam_tfrecords.transforms.verifying.choosing import choose_shards

    yield from verify_files(dataset)
    if dataset.find_shard_damage():
        return
    shards = shards or choose_shards(dataset)
    with execution.runner.shared_folder() as location:
        # A name unique to this run, because several runs may share a location.
        folder = storage.join(location, f"verify-{uuid.uuid4().hex}")
        written = storage.join(folder, "findings")
        check = ShardCheck.of(dataset)
        progress = ReadProgress(shards.records, then="finishing", folder=folder)
        stages = functools.partial(
            _add_stages,
            dataset=dataset,
            shards=shards,
            check=dataclasses.replace(check, counts=folder) if shows_progress and progress.rewrites else check,
            folder=written,
            processes=execution.runner.processes,
        )
        try:
            with progress if shows_progress else contextlib.nullcontext():
                execution.run(stages)
            found = storage.list_files(written, literal=True) if storage.is_folder(written) else ()
            lines = [line for entry in found for line in storage.read_bytes(entry.path).decode().splitlines()]
        finally:
            _remove(folder)
    findings = [Finding(*json.loads(line)) for line in lines]
    yield from sorted(findings, key=lambda finding: (finding.file, finding.record is None, finding.record or 0))


def _remove(folder: str) -> None:
    try:
        storage.delete_tree(folder)
    except (OSError, BuildError) as error:
        show(f"note: {folder} could not be removed: {error}", file=sys.stderr)


def _add_stages(
    root: beam.Pipeline, *, dataset: Dataset, shards: ChosenShards, check: ShardCheck, folder: str, processes: int
) -> None:
    import apache_beam as beam

    from beam_tfrecords.transforms.verifying.choosing import read_shards
    from beam_tfrecords.transforms.verifying.classes import count_classes
    from beam_tfrecords.transforms.verifying.stage import VerifyShards

    # Workers read the shards, because a list of them would make the description of the job too large.
    _ = (
        root
        | "ChooseShards" >> beam.Create(shards.groups())
        | "SpreadGroups" >> beam.Reshuffle()
        | "ReadShards" >> beam.FlatMap(storage.with_storage_options(read_shards), shards.ref)
        | "VerifyShards"
        >> VerifyShards(check, classes=count_classes(dataset) if shards.are_all else None, processes=processes)
        | "ByFile" >> beam.Map(lambda finding: (finding.file, json.dumps(dataclasses.astuple(finding))))
        | "GroupByFile" >> beam.GroupByKey()
        | "WriteFindings" >> beam.Map(storage.with_storage_options(_write_findings), folder)
    )


def _write_findings(of_file: tuple[str, Iterable[str]], folder: str) -> None:
    """Writes the findings of one file. Beam's own sink would need space in /dev/shm."""
    name, lines = of_file
    stem = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    storage.write_bytes(storage.join(folder, f"{stem}.jsonl"), "".join(f"{line}\n" for line in lines).encode())
