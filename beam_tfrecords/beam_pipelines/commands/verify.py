"""`beam-tfrecords verify`: checks every CRC, count, feature and image of a dataset."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from beam_tfrecords.beam_pipelines.commands.opening import open_dataset_or_files
from beam_tfrecords.beam_pipelines.limits import prepare_process
from beam_tfrecords.beam_pipelines.messages.exit_codes import DONE, FAILED
from beam_tfrecords.beam_pipelines.settings.command_line import Parser, argument
from beam_tfrecords.beam_pipelines.terminal import counted, show
from beam_tfrecords.beam_pipelines.verify import find_problems, prepare
from beam_tfrecords.dataset.dataset import StoredDataset
from beam_tfrecords.errors import RequestError
from beam_tfrecords.escaping import write_json
from beam_tfrecords.transforms.settings import whole_number

if TYPE_CHECKING:
    from beam_tfrecords.transforms.verifying.checks import Finding


def verify(argv: Sequence[str]) -> int:
    """Runs the command.

    Returns:
      0 if the dataset is undamaged, 1 otherwise.
    """
    arguments, beam_arguments = make_parser().read_arguments(argv)
    prepare_process()
    dataset = open_dataset_or_files(arguments.dataset)
    if not isinstance(dataset, StoredDataset):
        raise RequestError(
            f"{arguments.dataset} has TFRecord files of another program; expected the `output` of a build; "
            "`beam-tfrecords inspect` shows these files",
            code="records_of_others",
        )
    found = find_problems(dataset, prepare(beam_arguments, dataset), shows_progress=True)
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


def _as_json(dataset: StoredDataset, found: Sequence[Finding], *, most: int) -> dict[str, Any]:
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
