"""The records that a command line lists, and the commands that a refusal offers."""

from __future__ import annotations

import io
import shlex
from collections import Counter
from pathlib import Path

from PIL import Image

from beam_tfrecords.beam_pipelines.build.checks.listing import check_listing
from beam_tfrecords.beam_pipelines.build.listing.executors import LocalExecutor
from beam_tfrecords.beam_pipelines.build.listing.list_input import list_input
from beam_tfrecords.beam_pipelines.build.listing.source_opening import open_spec_source
from beam_tfrecords.beam_pipelines.build.listing.trial import trying_suggestions
from beam_tfrecords.beam_pipelines.settings.command_line import parse_arguments
from beam_tfrecords.beam_pipelines.settings.inherited_settings import read_request
from beam_tfrecords.transforms.listing.listing import read_refs
from tests.beam_pipelines.public_layouts import Layout, Records


def _picture() -> bytes:
    file = io.BytesIO()
    # Grey and exact, so that it may be a mask.
    Image.new("RGB", (8, 8), "grey").save(file, "PNG")
    return file.getvalue()


PICTURE = _picture()


def write_layout(layout: Layout, folder: Path) -> Path:
    """Makes the tree of a layout in a folder; returns the input."""
    root = folder / (layout.root or "input")
    for name in layout.paths():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(PICTURE)
    for name, text in layout.tables.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    return root


def read(argv: list[str], folder: Path) -> tuple[Records, list[str]]:
    """The records that a command line lists, as a build does before it starts, and the notes."""
    spec = read_request(parse_arguments(argv).raw_values)
    with trying_suggestions(spec):
        spec, source = open_spec_source(spec)
        folder.mkdir(exist_ok=True)
        listed = list_input(spec, source, LocalExecutor(str(folder), copies=False))
        assert listed is not None
        check_listing(spec, source, listed.listing, listed.skipped)
    records: dict[str, Counter[str]] = {}
    for ref in read_refs(listed.listing):
        assert ref.failure is None, ref
        label = ref.label if spec.layout.needs_label else ""
        assert label is not None, ref
        records.setdefault(ref.split, Counter())[str(label)] += 1
    return records, source.notes


def commands_of(lines: list[str]) -> list[list[str]]:
    """The arguments of the commands in a refusal, as a shell reads them."""
    commands = [shlex.split(line) for line in lines if line.startswith("    beam-tfrecords ")]
    assert all(command[:2] == ["beam-tfrecords", "convert"] for command in commands)
    return [command[2:] for command in commands]
