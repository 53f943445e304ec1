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
from beam_tfrecords.transforms.settings import share, whole_number

if TYPE_CHECKING:
    import apache_beam as beam

    from beam_tfrecords.transforms.verifying.checks import Finding, ShardCheck
    from beam_tfrecords.transforms.verifying.choosing import ChosenShards


def verify(argv: Sequence[str]) -> int:
    """Runs the command.

    Returns:
      0 if the dataset is undamaged, 1 otherwise.
    """
    arguments, beam_arguments = make_parser().read_arguments(argv)
    prepare_process()
    dataset = open_dataset_or_files(arguments.dataset)
    if not isinstance(dataset, Dataset):
        from beam_tfrecords.beam_pipelines.commands.record_files import describe_files, verify_files

        if arguments.sample is not None:
            raise RequestError(
                f"`sample={arguments.sample:g}`: takes a share of a dataset's shards, which a manifest lists; "
                f"{arguments.dataset} has TFRecord files without a manifest: name fewer of them, or leave `sample` out",
                code="setting_not_applicable",
            )
        files = [*dataset.files.values()]
        code = verify_files(files, findings=arguments.findings, as_json=arguments.json)
        if not arguments.json:
            show(*describe_files(dataset, arguments.dataset))
        return code
    from beam_tfrecords.transforms.verifying.choosing import choose_shards

    execution = _prepare(beam_arguments, dataset)
    shards = choose_shards(dataset, 1.0 if arguments.sample is None else arguments.sample)
    findings = 0
    found = find_problems(dataset, execution, shards=shards, shows_progress=True)
    if arguments.json:
        show(*write_json(_as_json(dataset, shards, found, most=arguments.findings), indent=2).splitlines())
        return FAILED if found else DONE
    for number, finding in enumerate(found):
        if number < arguments.findings:
            show(str(finding))
        findings += 1
    where = _describe(dataset, shards)
    if findings:
        show(f"{counted(findings, 'finding')} in {where}", *_describe_rest(dataset, shards), file=sys.stderr)
        return FAILED
    show(f"OK: {where} verified", *_describe_rest(dataset, shards))
    return DONE


def _as_json(dataset: Dataset, shards: ChosenShards, found: Sequence[Finding], *, most: int) -> dict[str, Any]:
    """Returns the result as one document; docs/output.md describes it."""
    return {
        "dataset": dataset.path,
        "ok": not found,
        "records": dataset.num_records,
        "shards": dataset.num_shards,
        "checked_records": dataset.num_records if shards.are_all else shards.records,
        "checked_shards": len(shards.numbers),
        "num_findings": len(found),
        "findings": [dataclasses.asdict(finding) for finding in found[:most]],
    }


def _describe(dataset: Dataset, shards: ChosenShards) -> str:
    """Says how much of a dataset was checked, and where it is."""
    if shards.are_all:
        checked = f"{counted(dataset.num_records, 'record')} in {counted(dataset.num_shards, 'shard')}"
    else:
        of_all = f"{len(shards.numbers):,} of {counted(dataset.num_shards, 'shard')}"
        checked = f"{counted(shards.records, 'record')} in {of_all}"
    return f"{checked} of {dataset.path}"


def _describe_rest(dataset: Dataset, shards: ChosenShards) -> Iterator[str]:
    """Says what was not checked."""
    if not shards.are_all:
        others = dataset.num_records - shards.records, dataset.num_shards - len(shards.numbers)
        yield f"not checked: {counted(others[0], 'record')} in {counted(others[1], 'shard')}"


def make_parser() -> Parser:
    """Returns the parser of this command."""
    parser = Parser(
        prog="beam-tfrecords verify",
        description="Checks every CRC, count, feature and image; exit code 0 only if all are right.",
        epilog="Every other flag goes to Beam, such as --runner; a cluster needs --temp_location for the findings.",
        allow_abbrev=False,
    )
    parser.add_folder("dataset", "the --output of a build; or TFRecord files: one, a glob or a folder")
    parser.add_argument(
        "--sample",
        metavar="SHARE",
        type=argument(_read_share),
        help="check only this share of the shards, such as 0.01, always the same ones; all other files are checked",
    )
    count = argument(whole_number(0))
    parser.add_argument("--findings", metavar="N", type=count, default=100, help="print at most N findings (100)")
    parser.add_argument("--json", action="store_true", help="print the result as one document of JSON")
    parser.add_argument("--verbose", action="store_true", help="show the log of the program and of Beam")
    return parser


def find_problems(
    dataset: Dataset, execution: Execution, *, shards: ChosenShards, shows_progress: bool = False
) -> list[Finding]:
    """Returns the problems of a dataset.

    Args:
      dataset: the dataset.
      execution: where the checks run.
      shards: the shards to check.
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
    dataset: Dataset, execution: Execution, shards: ChosenShards, *, shows_progress: bool
) -> Iterator[Finding]:
    from beam_tfrecords.transforms.verifying.checks import Finding, ShardCheck, verify_files

    yield from verify_files(dataset)
    with execution.runner.shared_folder() as location:
        # A name unique to this run, because several runs may share a location.
        folder = storage.join(location, f"verify-{uuid.uuid4().hex}")
        written = storage.join(folder, "findings")
        check = ShardCheck.of(dataset)
        progress = ReadProgress(shards.records, then="finishing", folder=folder)
        stages = functools.partial(
            _add_stages,
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


def _add_stages(root: beam.Pipeline, *, shards: ChosenShards, check: ShardCheck, folder: str, processes: int) -> None:
    import apache_beam as beam

    from beam_tfrecords.transforms.verifying.choosing import read_shards
    from beam_tfrecords.transforms.verifying.stage import VerifyShards

    # Workers read the shards, because a list of them would make the description of the job too large.
    _ = (
        root
        | "ChooseShards" >> beam.Create(shards.groups())
        | "SpreadGroups" >> beam.Reshuffle()
        | "ReadShards" >> beam.FlatMap(storage.with_storage_options(read_shards), shards.ref)
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


def _read_share(word: str) -> float:
    found = share(word)
    if not found:
        raise ValueError("expected a share of more than 0, up to 1, such as 0.01")
    return found


def verify_dataset(
    path: str | os.PathLike[str], *, sample: float | None = None, beam_arguments: Sequence[str] = ()
) -> list[str]:
    """Checks every CRC, count, feature and image of a dataset.

        >>> from beam_tfrecords import verify
        >>> verify("out/")
        []

    Args:
      path: folder of the dataset.
      sample: checks only this share of the shards, more than 0 and up to 1, always the same ones; None checks all.
      beam_arguments: arguments for Beam, such as `--runner=FlinkRunner`.

    Returns:
      The problems found, one line each; empty if the dataset is undamaged.

    Raises:
      RequestError: the dataset does not exist.
      ValueError: the share is invalid.
    """
    chosen_share = 1.0 if sample is None else _read_share(str(sample))
    options = storage.StorageOptions(beam_arguments=tuple(beam_arguments))
    with beam_logs_from(logging.CRITICAL), storage.using(options):
        from beam_tfrecords.transforms.verifying.choosing import choose_shards

        dataset = open_dataset(path)
        found = find_problems(dataset, _prepare(beam_arguments, dataset), shards=choose_shards(dataset, chosen_share))
        return [str(finding) for finding in found]


def _prepare(beam_arguments: Sequence[str], dataset: Dataset) -> Execution:
    runner = find_runner(beam_arguments)
    runner.dataset = f"verify-{dataset.name}"
    runner.start_workers(*storage.modules_for([dataset.path]))
    return Execution.prepare(runner)
