"""What comes of the trees of TFRecord files of other programs: the right records, or commands that give them."""

from __future__ import annotations

from beam_tfrecords.beam_pipelines.settings.suggested_commands import explain
from beam_tfrecords.errors import RequestError
from tests.beam_pipelines.listed_records import commands_of
from tests.beam_pipelines.listed_records import read as list_records
from tests.beam_pipelines.record_layouts import RECORD_LAYOUTS
from tests.each import each
from tests.refusals import refuses

READ = [layout for layout in RECORD_LAYOUTS if layout.records is not None]
REFUSED = [layout for layout in RECORD_LAYOUTS if layout.records is None]


@each("layout", READ, ids=lambda layout: layout.name)
def test_a_tree_of_records_is_read_as_what_it_is(layout, tmp_path):
    words = [f"--input={layout.write(tmp_path / 'in')}", "--source=tfrecord", "--output=out", *layout.flags]
    records, notes = list_records(words, tmp_path / "listing")
    assert records == layout.records
    assert len(notes) == len(layout.notes), notes
    for part, note in zip(layout.notes, notes, strict=True):
        assert part in note


@each("layout", REFUSED, ids=lambda layout: layout.name)
def test_a_tree_of_several_datasets_is_refused_with_commands_that_are_right(layout, tmp_path):
    words = [f"--input={layout.write(tmp_path / 'in')}", "--source=tfrecord", "--output=out", *layout.flags]
    with refuses(layout.refused, "input") as refused:
        list_records(words, tmp_path / "listing")
    lines = explain(refused.value, "convert", words)
    found = [
        list_records(command, tmp_path / f"listing{number}")[0] for number, command in enumerate(commands_of(lines))
    ]
    assert found == list(layout.suggestions), "\n".join(lines)


@each("layout", READ, ids=lambda layout: layout.name)
def test_a_tree_of_records_is_recognised_without_its_source(layout, tmp_path):
    """One hint is enough: what the first command of the refusal says."""
    words = [f"--input={layout.write(tmp_path / 'in')}", "--output=out", *layout.flags]
    try:
        records, _ = list_records(words, tmp_path / "listing")
    except RequestError as error:
        command = commands_of(explain(error, "convert", words))[0]
        records, _ = list_records(command, tmp_path / "listing1")
    assert records == layout.records
