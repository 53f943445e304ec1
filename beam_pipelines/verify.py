"""`beam-tfrecords verify`: every CRC, count, feature and image of a dataset."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.execution.progress import ReadProgress
from beam_tfrecords.beam_pipelines.execution.runners import Execution, find_runner
from beam_tfrecords.beam_pipelines.exit_codes import DONE, FAILED
from beam_tfrecords.beam_pipelines.limits import check_limits
from beam_tfrecords.beam_pipelines.opening import open_dataset_or_files
from beam_tfrecords.beam_pipelines.settings.command_line import Parser, argument
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.dataset import Dataset, open_dataset
from beam_tfrecords.errors import BuildError
from beam_tfrecords.files import SUCCESS
from beam_tfrecords.missing import explain_missing
from beam_tfrecords.transforms.settings import whole_number

if TYPE_CHECKING:
    import apache_beam as beam

    from beam_tfrecords.transforms.verifying.checks import Finding, ShardCheck


def verify(argv: Sequence[str]) -> int:
    """Runs the command.

    Returns:
      0 if everything is right, 1 if anything is not.
    """
    arguments, beam_arguments = make_parser().read_words(argv)
    check_limits()
    dataset = open_dataset_or_files(arguments.dataset)
    if isinstance(dataset, list):
        from beam_tfrecords.beam_pipelines.record_files import verify_files

        return verify_files(dataset, findings=arguments.findings)
    execution = _prepare(beam_arguments, verbose=arguments.verbose)
    findings = notes = 0
    for number, finding in enumerate(_find(dataset, execution, shows_progress=True)):
        if number < arguments.findings:
            show(str(finding))
        findings += not finding.is_note
        notes += finding.is_note
    where = f"{dataset.manifest['records']:,} records in {len(dataset.shards):,} shards of {dataset.path}"
    if findings:
        show(f"{findings:,} finding{'s' if findings > 1 else ''} in {where}", file=sys.stderr)
        return FAILED
    show(f"OK: {where} verified" + (f"; {notes:,} notes" if notes else ""))
    return DONE


def make_parser() -> Parser:
    """The parser of this command."""
    parser = Parser(
        prog="beam-tfrecords verify",
        description="Checks every CRC, count, feature and image; exit code 0 only if all are right.",
        epilog="Every other flag goes to Beam; a cluster needs --temp_location for the findings.",
        allow_abbrev=False,
    )
    parser.add_folder("dataset", "the --output of a build; or TFRecord files: one, a glob or a folder")
    count = argument(whole_number(0))
    parser.add_argument("--findings", metavar="N", type=count, default=100, help="print at most N findings (100)")
    # Its earlier name, which means samples to build from in `convert`.
    parser.add_argument("--limit", dest="findings", type=count, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    parser.add_argument("--verbose", action="store_true", help="show Beam's own log")
    return parser


def verify_dataset(path: str | os.PathLike[str], *, beam_arguments: Sequence[str] = ()) -> list[str]:
    """Checks every CRC, count, feature and image of a dataset.

    Args:
      path: the dataset's folder.
      beam_arguments: arguments for Beam, such as `--runner=FlinkRunner`.

    Returns:
      What is wrong, one line each; empty if the dataset is whole.

    Raises:
      RequestError: there is no dataset.
    """
    with storage.using(storage.StorageOptions(beam_arguments=tuple(beam_arguments))):
        found = _find(open_dataset(path), _prepare(beam_arguments))
        return [str(finding) for finding in found if not finding.is_note]


def _prepare(beam_arguments: Sequence[str], *, verbose: bool = False) -> Execution:
    runner = find_runner(beam_arguments)
    runner.start_workers()
    return Execution.prepare(runner, verbose=verbose)


def _find(dataset: Dataset, execution: Execution, *, shows_progress: bool = False) -> list[Finding]:
    """What is wrong with a dataset.

    Raises:
      BuildError: it was removed meanwhile.
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


def _find_all(dataset: Dataset, execution: Execution, *, shows_progress: bool) -> Iterator[Finding]:
    from beam_tfrecords.transforms.verifying.checks import Finding, ShardCheck, verify_files

    yield from verify_files(dataset)
    with execution.runner.shared_folder() as location:
        # Of this run alone: several may share a location.
        folder = storage.join(location, f"verify-{uuid.uuid4().hex}")
        written = storage.join(folder, "findings")
        check = ShardCheck.of(dataset)
        progress = ReadProgress(sum(shard.records for shard in dataset.shards), then="finishing", folder=folder)
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


def _add_stages(root: beam.Pipeline, *, dataset: Dataset, check: ShardCheck, folder: str, processes: int) -> None:
    import apache_beam as beam

    from beam_tfrecords.transforms.verifying.classes import count_classes
    from beam_tfrecords.transforms.verifying.stage import VerifyShards

    _ = (
        root
        | "ListShards" >> beam.Create(dataset.shards)
        | "VerifyShards" >> VerifyShards(check, classes=count_classes(dataset), processes=processes)
        | "ByFile" >> beam.Map(lambda finding: (finding.file, json.dumps(dataclasses.astuple(finding))))
        | "GroupByFile" >> beam.GroupByKey()
        | "WriteFindings" >> beam.Map(storage.bound(_write_findings), folder)
    )


def _write_findings(of_file: tuple[str, Iterable[str]], folder: str) -> None:
    """Writes the findings of one file. Beam's own sink needs room in /dev/shm."""
    name, lines = of_file
    stem = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    storage.write_bytes(storage.join(folder, f"{stem}.jsonl"), "".join(f"{line}\n" for line in lines).encode())
