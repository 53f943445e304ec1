"""What comes of the layouts of public datasets: the right records, or a refusal whose commands give them."""

from __future__ import annotations

import io
import shlex
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from beam_pipelines.checking import check_listing, open_spec_source
from beam_pipelines.list_input import list_samples
from beam_pipelines.settings.command_line import parse_arguments
from beam_pipelines.settings.definitions import read_build_spec
from beam_pipelines.settings.hints import explain
from beam_tfrecords.errors import RequestError
from tests.beam_pipelines.public_layouts import LAYOUTS, Layout, Records
from transforms.listing.listing import read_chunk
from transforms.refs import SampleRef


def _picture() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(file, "JPEG")
    return file.getvalue()


PICTURE = _picture()


@pytest.fixture
def make(tmp_path):
    """Makes the tree of a layout; returns the input."""

    def write(layout: Layout) -> Path:
        root = tmp_path / (layout.root or "input")
        for name in layout.paths():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(PICTURE)
        for name, text in layout.tables.items():
            (root / name).write_text(text)
        return root

    return write


def read(argv: list[str], folder: Path) -> tuple[Records, list[str]]:
    """The records that a command line lists, as a build does before it starts, and the notes."""
    spec, source = open_spec_source(read_build_spec(parse_arguments(argv).words))
    folder.mkdir(exist_ok=True)
    listing = list_samples(spec, source, str(folder))
    check_listing(spec, source, listing, source.skipped)
    records: dict[str, Counter[str]] = {}
    for chunk in listing.chunks:
        for ref in map(SampleRef.unpack, read_chunk(chunk)):
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


READ = [layout for layout in LAYOUTS if layout.records is not None]
REFUSED = [layout for layout in LAYOUTS if layout.records is None]


def test_there_are_many_layouts():
    assert len(LAYOUTS) >= 60
    assert len(REFUSED) >= 30


@pytest.mark.parametrize("layout", READ, ids=lambda layout: layout.name)
def test_a_layout_is_read_as_what_it_is(layout, make, tmp_path):
    root = make(layout)
    records, notes = read([f"--input={root}", "--output=out"], tmp_path / "listing")
    assert records == layout.records
    assert layout.notes in "\n".join(notes)
    if not layout.notes:
        assert notes == []


@pytest.mark.parametrize("layout", REFUSED, ids=lambda layout: layout.name)
def test_a_layout_that_is_unclear_is_refused_with_commands_that_are_right(layout, make, tmp_path):
    root = make(layout)
    argv = [f"--input={root}", "--output", str(tmp_path / "out dir")]
    with pytest.raises(RequestError) as refused:
        read(argv, tmp_path / "listing")
    lines = explain(refused.value, "convert", argv)
    assert layout.refused in lines[0]
    commands = commands_of(lines)
    given = [read(command, tmp_path / f"listing{number}")[0] for number, command in enumerate(commands)]
    assert given == list(layout.choices), "\n".join(lines)
    assert 1 <= len(commands) <= 3


def test_what_is_excluded_does_not_count(make, tmp_path):
    root = make(Layout("splits beside another folder", "{train,test}/cat/1.jpg extra/3.jpg"))
    records, _ = read([f"--input={root}", "--output=out", "--exclude=extra"], tmp_path / "listing")
    assert records == {"train": {"cat": 1}, "test": {"cat": 1}}
