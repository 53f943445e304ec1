"""`beam-tfrecords verify`: checks every CRC, count, feature and image of a dataset."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.commands.find_problems import find_problems
from beam_tfrecords.beam_pipelines.commands.opening import open_dataset_or_files
from beam_tfrecords.beam_pipelines.limits import check_limits
from beam_tfrecords.beam_pipelines.messages.exit_codes import DONE, FAILED
from beam_tfrecords.beam_pipelines.runners.execution import Execution
from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner
from beam_tfrecords.beam_pipelines.settings.command_line import Parser, argument
from beam_tfrecords.beam_pipelines.terminal import counted, show
from beam_tfrecords.quiet_beam import beam_logs_from
from beam_tfrecords.reading.opening import open_dataset
from beam_tfrecords.transforms.settings import whole_number


def verify(argv: Sequence[str]) -> int:
    """Runs the command.

    Returns:
      0 if the dataset is undamaged, 1 otherwise.
    """
    arguments, beam_arguments = make_parser().read_arguments(argv)
    check_limits()
    dataset = open_dataset_or_files(arguments.dataset)
    if isinstance(dataset, list):
        from beam_tfrecords.beam_pipelines.commands.record_files import verify_files

        return verify_files(dataset, findings=arguments.findings)
    execution = _prepare(beam_arguments)
    findings = notes = 0
    for number, finding in enumerate(find_problems(dataset, execution, shows_progress=True)):
        if number < arguments.findings:
            show(str(finding))
        findings += not finding.is_note
        notes += finding.is_note
    records, shards = counted(dataset.manifest["records"], "record"), counted(len(dataset.shards), "shard")
    where = f"{records} in {shards} of {dataset.path}"
    if findings:
        show(f"{counted(findings, 'finding')} in {where}", file=sys.stderr)
        return FAILED
    show(f"OK: {where} verified" + (f"; {counted(notes, 'note')}" if notes else ""))
    return DONE


def make_parser() -> Parser:
    """Returns the parser of this command."""
    parser = Parser(
        prog="beam-tfrecords verify",
        description="Checks every CRC, count, feature and image; exit code 0 only if all are right.",
        epilog="Every other flag goes to Beam; a cluster needs --temp_location for the findings.",
        allow_abbrev=False,
    )
    parser.add_folder("dataset", "the --output of a build; or TFRecord files: one, a glob or a folder")
    count = argument(whole_number(0))
    parser.add_argument("--findings", metavar="N", type=count, default=100, help="print at most N findings (100)")
    # The flag's earlier name; in `convert`, it limits the input samples.
    parser.add_argument("--limit", dest="findings", type=count, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    parser.add_argument("--verbose", action="store_true", help="show the log of the program and of Beam")
    return parser


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
        found = find_problems(open_dataset(path), _prepare(beam_arguments))
        return [str(finding) for finding in found if not finding.is_note]


def _prepare(beam_arguments: Sequence[str]) -> Execution:
    runner = find_runner(beam_arguments)
    runner.start_workers()
    return Execution.prepare(runner)
