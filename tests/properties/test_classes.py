"""Which class a label means, whatever the format that holds it."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest

from beam_tfrecords import build
from tests.published import Published, read_published
from tests.refusals import refuses
from tests.writers import MEANING, WRITERS, Meaning

NAMES = ("cat", "dog", "emu")
# Formats whose labels are texts, and formats whose labels are numbers.
TEXTS = ("csv_table", "jsonl_table", "parquet_table", "metadata_folder", "parquet_images", "webdataset", "tfrecord")
NUMBERS = ("npz", "npy", "idx", "pixel_table", "tfrecord_pixels")
# Formats that say the names of classes, of which one may be all.
NAMED = ("numbered_classes", "list_file", "own_dataset", "cifar", "deflated_npz", *NUMBERS)
LABELLED = [name for name, writer in WRITERS.items() if "label" in writer.holds and name not in NAMED]


def labelled(name: str, *labels: str) -> Meaning:
    """Returns the meaning with these labels in turn, in pictures of a format's size."""
    pairs = zip(MEANING.items, itertools.cycle(labels), strict=False)
    items = [dataclasses.replace(item, label=label) for item, label in pairs]
    return WRITERS[name].fit(dataclasses.replace(MEANING, items=items, classes=labels))


def numbered(name: str, folder: Path, *numbers: int) -> dict[str, Any]:
    """Writes a set with these labels in turn; returns the settings, with names of classes."""
    meaning = labelled(name, *map(str, numbers))
    classes = [str(number) for number in range(max(numbers) + 1)]
    settings = WRITERS[name].write(folder, dataclasses.replace(meaning, classes=classes))
    return {**settings, "class_names": [*NAMES]}


def build_into(output: Path, settings: dict[str, Any], **others: Any) -> Published:
    return read_published(build(output=str(output), quiet=True, **{**settings, **others}).path)


def lines_of(published: Published) -> list[str]:
    return sorted(f"{one.split}: {published.describe(one)}" for one in published.records)


@pytest.mark.parametrize("name", LABELLED)
def test_a_single_class_is_asked_about(name, tmp_path):
    writer, meaning = WRITERS[name], labelled(name, "cat")
    settings = writer.write(tmp_path, meaning)
    with refuses("single_class", "input", says=["cat "]) as refused:
        build(output=str(tmp_path / "out"), quiet=True, **settings)
    *_, named, unlabelled = refused.value.suggestions
    assert lines_of(build_into(tmp_path / "named", settings, **named.settings)) == meaning.lines(writer)
    without = dataclasses.replace(writer, holds=writer.holds - {"label", "columns"})
    assert lines_of(build_into(tmp_path / "all", settings, **unlabelled.settings)) == meaning.lines(without)
    assert lines_of(build_into(tmp_path / "chosen", settings, class_names="cat,dog")) == meaning.lines(writer)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("name", [*TEXTS, *NUMBERS])
def test_numbers_count_from_0_or_from_1(name, first, tmp_path):
    published = build_into(tmp_path / "out", numbered(name, tmp_path, first, first + 1, first + 2))
    assert lines_of(published) == labelled(name, *NAMES).lines(WRITERS[name])
    assert any("numbers from 1 to 3" in note for note in published.manifest["notes"]) == bool(first)


@pytest.mark.parametrize("name", [*TEXTS, *NUMBERS])
def test_numbers_that_may_count_from_0_or_from_1_are_asked_about(name, tmp_path):
    settings = numbered(name, tmp_path, 1, 2)
    with refuses("first_class_number", "class_names") as refused:
        build(output=str(tmp_path / "out"), quiet=True, **settings)
    for number, (reading, names) in enumerate(
        zip(refused.value.suggestions, [("cat", "dog"), ("dog", "emu")], strict=True)
    ):
        published = build_into(tmp_path / f"out{number}", settings, **reading.settings)
        assert lines_of(published) == labelled(name, *names).lines(WRITERS[name])


@pytest.mark.parametrize("name", [*TEXTS, *NUMBERS])
def test_classes_are_chosen_by_their_names(name, tmp_path):
    published = build_into(tmp_path / "out", numbered(name, tmp_path, 1, 2, 3), classes="cat,emu")
    assert published.manifest["class_names"] == [*NAMES]
    assert lines_of(published) == [line for line in labelled(name, *NAMES).lines(WRITERS[name]) if "dog" not in line]


@pytest.mark.parametrize("name", ["csv_table", "coco"])
def test_edited_class_names_of_a_dataset_are_refused(name, tmp_path):
    published = build_into(tmp_path / "out", WRITERS[name].write(tmp_path, WRITERS[name].fit(MEANING)))
    file = next(path for path in Path(published.path).iterdir() if path.name.endswith(("labels.txt", ".pbtxt")))
    file.write_text(file.read_text().replace("cat", "hound"))
    with refuses("edited_class_names", "input", "class_names", says=[file.name, "hound"]):
        build(input=published.path, output=str(tmp_path / "again"), quiet=True)
