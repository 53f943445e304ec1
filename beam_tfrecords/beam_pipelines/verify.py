"""Checks every CRC, count, feature and image of a dataset, on a runner of Beam."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import logging
import os
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.messages.progress import ReadProgress
from beam_tfrecords.beam_pipelines.runners.execution import Execution
from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.dataset.dataset import StoredDataset
from beam_tfrecords.dataset.files import SUCCESS
from beam_tfrecords.dataset.pointers import open_latest
from beam_tfrecords.dataset.published import explain_missing
from beam_tfrecords.errors import BuildError
from beam_tfrecords.quiet_beam import beam_logs_from

if TYPE_CHECKING:
    import apache_beam as beam

    from beam_tfrecords.transforms.verifying.checks import Finding, ShardCheck


def find_problems(dataset: StoredDataset, execution: Execution, *, shows_progress: bool = False) -> list[Finding]:
    """Returns the problems of a dataset.

    Args:
      dataset: the dataset.
      execution: where the checks run.
      shows_progress: shows how many records have been read.

    Raises:
      BuildError: the dataset was removed in the meantime.
    """
    try:
        found = list(_find_all(dataset, execution, shows_progress=shows_progress))
    except (OSError, BuildError) as error:
        if storage.exists(storage.join(dataset.path, SUCCESS)):
            raise
        raise explain_missing(dataset.path, SUCCESS) from error
    if found and not storage.exists(storage.join(dataset.path, SUCCESS)):
        raise explain_missing(dataset.path, SUCCESS)
    return found


def _find_all(dataset: StoredDataset, execution: Execution, *, shows_progress: bool) -> Iterator[Finding]:
    from beam_tfrecords.transforms.verifying.checks import Finding, ShardCheck, verify_files

    yield from verify_files(dataset)
    with execution.runner.shared_folder() as location:
        # A name unique to this run, because several runs may share a location.
        folder = storage.join(location, f"verify-{uuid.uuid4().hex}")
        written = storage.join(folder, "findings")
        check = ShardCheck.of(dataset)
        progress = ReadProgress(dataset.num_records, then="finishing", folder=folder)
        stages = functools.partial(
            _add_stages,
            dataset=dataset,
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


def _add_stages(root: beam.Pipeline, *, dataset: StoredDataset, check: ShardCheck, folder: str, processes: int) -> None:
    import apache_beam as beam

    from beam_tfrecords.transforms.verifying.checks import number_groups, read_shards
    from beam_tfrecords.transforms.verifying.stage import VerifyShards

    # Workers read the shards, because a list of them would make the description of the job too large.
    _ = (
        root
        | "NumberShards" >> beam.Create(number_groups(dataset.num_shards))
        | "SpreadGroups" >> beam.Reshuffle()
        | "ReadShards" >> beam.FlatMap(storage.with_storage_options(read_shards), dataset.ref)
        | "VerifyShards" >> VerifyShards(check, processes=processes)
        | "ByFile" >> beam.Map(lambda finding: (finding.file, json.dumps(dataclasses.astuple(finding))))
        | "GroupByFile" >> beam.GroupByKey()
        | "WriteFindings" >> beam.Map(storage.with_storage_options(_write_findings), folder)
    )


def _write_findings(of_file: tuple[str, Iterable[str]], folder: str) -> None:
    """Writes the findings of one file. Beam's own sink would need space in /dev/shm."""
    name, lines = of_file
    stem = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    storage.write_bytes(storage.join(folder, f"{stem}.jsonl"), "".join(f"{line}\n" for line in lines).encode())


def verify_dataset(path: str | os.PathLike[str], *, beam_arguments: Sequence[str] = ()) -> list[str]:
    """Checks every CRC, count, feature and image of a dataset.

        >>> from beam_tfrecords import verify
        >>> verify("out/")
        []

    Args:
      path: folder of the dataset.
      beam_arguments: arguments for Beam, such as `--runner=FlinkRunner`.

    Returns:
      The problems found, one line each; empty if the dataset is undamaged.

    Raises:
      RequestError: the dataset does not exist.
    """
    options = storage.StorageOptions(beam_arguments=tuple(beam_arguments))
    with beam_logs_from(logging.CRITICAL), storage.using(options):
        dataset = open_latest(path)
        return [str(finding) for finding in find_problems(dataset, prepare(beam_arguments, dataset))]


def prepare(beam_arguments: Sequence[str], dataset: StoredDataset) -> Execution:
    """Starts the workers that check a dataset."""
    runner = find_runner(beam_arguments)
    runner.dataset = f"verify-{dataset.name}"
    runner.start_workers(*storage.modules_for([dataset.path]))
    return Execution.prepare(runner)
