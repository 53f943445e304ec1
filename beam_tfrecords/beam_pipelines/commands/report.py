"""`beam-tfrecords report`: writes `report.html` into a finished dataset."""

from __future__ import annotations

from collections.abc import Sequence

from beam_tfrecords.beam_pipelines.messages.exit_codes import DONE
from beam_tfrecords.beam_pipelines.messages.progress import ReadProgress
from beam_tfrecords.beam_pipelines.settings.command_line import Parser
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.dataset.pointers import open_latest
from beam_tfrecords.errors import BuildError


def report(argv: Sequence[str]) -> int:
    """Runs the command.

    Raises:
      BuildError: a file of the dataset cannot be read, or the page cannot be written.
    """
    arguments = make_parser().read_all(argv)
    dataset = open_latest(arguments.dataset)
    from beam_tfrecords.beam_pipelines.report.index_scan import MOST_ROWS
    from beam_tfrecords.beam_pipelines.report.page import write_report

    try:
        with ReadProgress(min(dataset.num_records, MOST_ROWS), then="reading pictures") as progress:
            path = write_report(dataset, progress=progress)
    except (OSError, ValueError, LookupError, TypeError, NotImplementedError) as error:
        raise BuildError(
            f"{dataset.path} cannot be reported: {error}; `beam-tfrecords verify` names what is damaged"
        ) from error
    show(f"report: {path}")
    return DONE


def make_parser() -> Parser:
    """Returns the parser of this command."""
    parser = Parser(
        prog="beam-tfrecords report",
        description="Writes report.html into a dataset: one page that shows what is in it.",
        allow_abbrev=False,
    )
    parser.add_folder("dataset", "the --output of a build")
    return parser
