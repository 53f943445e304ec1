"""`beam-tfrecords verify`: checks every CRC, count, feature and image of a dataset."""

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
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.commands.opening import open_dataset_or_files
from beam_tfrecords.beam_pipelines.limits import prepare_process
from beam_tfrecords.beam_pipelines.messages.exit_codes import DONE, FAILED
from beam_tfrecords.beam_pipelines.messages.progress import ReadProgress
from beam_tfrecords.beam_pipelines.runners.execution import Execution
from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner
from beam_tfrecords.beam_pipelines.settings.command_line import Parser, argument
from beam_tfrecords.beam_pipelines.terminal import counted, show
from beam_tfrecords.dataset.dataset import Dataset
from beam_tfrecords.dataset.files import SUCCESS
from beam_tfrecords.dataset.opening import open_dataset
from beam_tfrecords.dataset.published import explain_missing
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.escaping import write_json
from beam_tfrecords.quiet_beam import beam_logs_from
from beam_tfrecords.transforms.settings import whole_number

if TYPE_CHECKING:
    import apache_beam as beam

    from beam_tfrecords.transforms.verifying.checks import Finding, ShardCheck


def verify(argv: Sequence[str]) -> int:
    """Runs the command.

    Returns:
      0 if the dataset is undamaged, 1 otherwise.
    """
    arguments, beam_arguments = make_parser().read_arguments(argv)
    prepare_process()
    dataset = open_dataset_or_files(arguments.dataset)
    if not isinstance(dataset, Dataset):
        raise RequestError(
            f"{arguments.dataset} has TFRecord files of another program; expected the `output` of a build; "
            "`beam-tfrecords inspect` shows these files",
            code="records_of_others",
        )
    found = find_problems(dataset, _prepare(beam_arguments, dataset), shows_progress=True)
    if arguments.json:
        show(*write_json(_as_json(dataset, found, most=arguments.findings), indent=2).splitlines())
        return FAILED if found else DONE
    for finding in found[: arguments.findings]:
        show(str(finding))
    where = f"{counted(dataset.num_records, 'record')} in {counted(dataset.num_shards, 'shard')} of {dataset.path}"
    if found:
        show(f"{counted(len(found), 'finding')} in {where}", file=sys.stderr)
        return FAILED
    show(f"OK: {where} verified")
    return DONE


def _as_json(dataset: Dataset, found: Sequence[Finding], *, most: int) -> dict[str, Any]:
    """Returns the result as one document; docs/output.md describes it."""
    return {
        "dataset": dataset.path,
        "ok": not found,
        "records": dataset.num_records,
        "shards": dataset.num_shards,
        "num_findings": len(found),
        "findings": [dataclasses.asdict(finding) for finding in found[:most]],
    }


def make_parser() -> Parser:
    """Returns the parser of this command."""
    parser = Parser(
        prog="beam-tfrecords verify",
        description="Checks every CRC, count, feature and image; exit code 0 only if all are right.",
        epilog="Every other flag goes to Beam, such as --runner; a cluster needs --temp_location for the findings.",
        allow_abbrev=False,
    )
    parser.add_folder("dataset", "the --output of a build")
    count = argument(whole_number(0))
    parser.add_argument("--findings", metavar="N", type=count, default=100, help="print at most N findings (100)")
    parser.add_argument("--json", action="store_true", help="print the result as one document of JSON")
    parser.add_argument("--verbose", action="store_true", help="show the log of the program and of Beam")
    return parser


def find_problems(dataset: Dataset, execution: Execution, *, shows_progress: bool = False) -> list[Finding]:
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


def _find_all(dataset: Dataset, execution: Execution, *, shows_progress: bool) -> Iterator[Finding]:
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


def _add_stages(root: beam.Pipeline, *, dataset: Dataset, check: ShardCheck, folder: str, processes: int) -> None:
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
        dataset = open_dataset(path)
        return [str(finding) for finding in find_problems(dataset, _prepare(beam_arguments, dataset))]


def _prepare(beam_arguments: Sequence[str], dataset: Dataset) -> Execution:
    runner = find_runner(beam_arguments)
    runner.dataset = f"verify-{dataset.name}"
    runner.start_workers(*storage.modules_for([dataset.path]))
    return Execution.prepare(runner)
