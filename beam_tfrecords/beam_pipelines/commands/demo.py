"""`beam-tfrecords demo`: writes sample photos, three of them damaged, and builds a first dataset from them."""

from __future__ import annotations

import importlib.resources
import shlex
from collections.abc import Sequence

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.commands.convert import convert
from beam_tfrecords.beam_pipelines.messages.exit_codes import DONE
from beam_tfrecords.beam_pipelines.settings.command_line import Parser
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.dataset.files import REPORT
from beam_tfrecords.errors import RequestError

_FLAGS = ("--image_size=224", "--splits=train=0.8,validation=0.2", "--stratify", "--max_failures=0.1")
# Length in bytes at which a download was interrupted.
_CUT = 9000


def demo(argv: Sequence[str]) -> int:
    """Runs the command.

    Raises:
      RequestError: the folder exists.
    """
    folder = make_parser().parse_args(argv).folder
    photos, dataset = storage.join(folder, "photos"), storage.join(folder, "dataset")
    if storage.exists(storage.absolute(folder)):
        raise RequestError(f"{folder} exists; name another folder: beam-tfrecords demo FOLDER", code="output_not_empty")
    _write_photos(storage.absolute(photos))
    command = [f"--input={photos}", f"--output={dataset}", *_FLAGS]
    show(
        f"wrote {photos}: 42 photos in 7 classes, a photo whose download was interrupted,",
        "an error page that was saved as a photo, and an empty file",
        f"$ {shlex.join(['beam-tfrecords', 'convert', *command])}",
    )
    if code := convert(command):
        return code
    show("", f"next: open {storage.join(dataset, REPORT)} in a browser, and run beam-tfrecords inspect {dataset}")
    return DONE


def make_parser() -> Parser:
    """Returns the parser of the command."""
    parser = Parser(
        prog="beam-tfrecords demo",
        description="Writes sample photos, three of them damaged, and builds a first dataset from them.",
    )
    parser.add_argument("folder", nargs="?", default="demo", metavar="FOLDER", help="new folder (default: demo)")
    return parser


def _write_photos(folder: str) -> None:
    """Writes the sample photos below a folder, and three bad files among them."""
    source = importlib.resources.files("beam_tfrecords.beam_pipelines") / "demo" / "photos"
    files = {
        f"{label.name}/{photo.name}": photo.read_bytes() for label in source.iterdir() for photo in label.iterdir()
    }
    files["cat/cut.jpg"] = files["cat/cat_01.jpg"][:_CUT]
    files["coffee/page.jpg"] = b"<html><title>404 Not Found</title></html>"
    files["flower/empty.jpg"] = b""
    for name, content in files.items():
        storage.write_bytes(storage.join(folder, name), content)
