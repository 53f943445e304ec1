"""The records that a command line lists, and the commands that a refusal offers."""

from __future__ import annotations

import io
import shlex
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from PIL import Image

from beam_tfrecords.beam_pipelines.build.checks.listing import check_listing
from beam_tfrecords.beam_pipelines.build.listing.list_input import list_input
from beam_tfrecords.beam_pipelines.build.listing.source_opening import open_spec_source
from beam_tfrecords.beam_pipelines.build.listing.trial import trying_suggestions
from beam_tfrecords.beam_pipelines.settings.command_line import parse_arguments
from beam_tfrecords.beam_pipelines.settings.definitions import read_request
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.labels import UNLABELLED
from beam_tfrecords.transforms.listing.listing import read_refs

# split -> label -> samples; the label of an image without one is "".
Records: TypeAlias = Mapping[str, Mapping[str, int]]


def _picture() -> bytes:
    file = io.BytesIO()
    # Grey and exact, so that it may be a mask.
    Image.new("RGB", (8, 8), "grey").save(file, "PNG")
    return file.getvalue()


PICTURE = _picture()


def read(argv: list[str], folder: Path) -> tuple[Records, list[str]]:
    """The records that a command line lists, as a build does before it starts, and the notes.

    Args:
      argv: the command line.
      folder: of the files of the listing.
    """
    spec = read_request(parse_arguments(argv).raw_values)
    with trying_suggestions(spec):
        spec, source = open_spec_source(spec)
        folder.mkdir(exist_ok=True)
        listed = list_input(spec, source, str(folder), max_file_size=-1)
        check_listing(spec, listed.source, listed.listing, listed.tally)
    records: dict[str, Counter[str]] = {}
    for ref in read_refs(listed.listing):
        assert not ref.failure, ref
        label = ref.label if Content.LABEL in spec.layout.required else ""
        assert label is not None, ref
        records.setdefault(ref.split, Counter())["" if label == UNLABELLED else str(label)] += 1
    return records, listed.tally.notes


def commands_of(lines: list[str]) -> list[list[str]]:
    """The arguments of the commands in a refusal, as a shell reads them."""
    commands = [shlex.split(line) for line in lines if line.startswith("    beam-tfrecords ")]
    assert all(command[:2] == ["beam-tfrecords", "convert"] for command in commands)
    return [command[2:] for command in commands]
