"""`beam-tfrecords export`: writes a dataset as ordinary files."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence

from beam_tfrecords.beam_pipelines.commands.opening import open_dataset_or_files
from beam_tfrecords.beam_pipelines.messages.exit_codes import DONE
from beam_tfrecords.beam_pipelines.messages.progress import ReadProgress
from beam_tfrecords.beam_pipelines.settings.command_line import Parser
from beam_tfrecords.beam_pipelines.terminal import counted, show
from beam_tfrecords.dataset.dataset import StoredDataset
from beam_tfrecords.errors import BuildError, RequestError


def export(argv: Sequence[str]) -> int:
    """Runs the command."""
    arguments = make_parser().read_all(argv)
    dataset = open_dataset_or_files(arguments.dataset)
    if not isinstance(dataset, StoredDataset):
        raise _refuse_files(arguments.dataset, arguments.to)
    from beam_tfrecords.beam_pipelines.export.export import export_dataset

    total = dataset.splits.get(arguments.split, dataset.num_records)
    with ReadProgress(total, then="writing the table") as progress:
        records, files = export_dataset(
            dataset, arguments.to, split=arguments.split, where=arguments.where, progress=progress
        )
    to = arguments.to.rstrip("/") or "/"
    show(f"{to}: {counted(records, 'record')}, {counted(files, 'file')} and a table")
    return DONE


def _refuse_files(path: str, to: str) -> RequestError:
    """Returns the error for record files of another program; offers a conversion that was tried."""
    from beam_tfrecords.beam_pipelines.build.listing.trial import try_reading
    from beam_tfrecords.beam_pipelines.settings.definitions import read_request

    message = f"{path} has TFRecord files of another program; expected the `output` of a build"
    request = {"source": "tfrecord", "input": path, "image_encoding": "keep", "output": f"{to.rstrip('/')}-tfrecords"}
    command = f"beam-tfrecords convert {shlex.join(f'--{name}={value}' for name, value in request.items())}"
    advice = f"; `{command}` says what it needs"
    with contextlib.suppress(RequestError, BuildError):
        if try_reading(read_request(request)) is not None:
            advice = f": run `{command}`, then export {request['output']}"
    return RequestError(message + advice, code="records_of_others")


def make_parser() -> Parser:
    """Returns the parser of this command."""
    parser = Parser(
        prog="beam-tfrecords export",
        description="Writes images in folders, a table of everything else, and boxes as COCO.",
        allow_abbrev=False,
    )
    parser.add_folder("dataset", "the --output of a build")
    parser.add_argument("--to", metavar="FOLDER", required=True, help="a new or empty folder; local, gs:// or s3://")
    parser.add_argument("--split", metavar="NAME", help="export this split only")
    parser.add_argument(
        "--where", metavar="CONDITION", help="only records such as \"label = 'cat' and sharpness < 20\""
    )
    return parser
