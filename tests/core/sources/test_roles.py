"""Roles of fields: cells decide before names, and what cannot be a class is never read as one."""

from __future__ import annotations

import json

import pytest

from beam_tfrecords.transforms.sources.detect.roles import NO_LABELS, Role, role_of
from beam_tfrecords.transforms.sources.meaning.ledger import describe_ledger, find_unused
from tests.core.opened_sources import open_source
from tests.each import each
from tests.refusals import refuses

STUDIO = {"x": 1, "y": 2, "rectanglelabels": ["cat"]}
BOXED = {"bbox": [1, 2, 3, 4], "category": "cat"}
# Role -> a name, and cells of it.
CELLS = {
    "images": (Role.IMAGE, "right", ["a/1.jpg", "a/2.PNG", None]),
    "URLs": (Role.IMAGE, "link", ["https://x.org/1.jpg?w=2", "http://x.org/a/2.webp"]),
    "lists of images": (Role.IMAGE, "views", [["1.jpg", "2.jpg"], ["3.jpg"]]),
    "masks": (Role.MASK, "seg_path", ["1.png", "2.png"]),
    "an object": (Role.ANNOTATION, "label", [STUDIO, STUDIO]),
    "objects beside another value": (Role.ANNOTATION, "label", [True, STUDIO, STUDIO]),
    "the text of an object": (Role.ANNOTATION, "label", [json.dumps(STUDIO)] * 2),
    "an object as Python prints it": (Role.ANNOTATION, "label", [str(STUDIO)] * 2),
    "a list of objects": (Role.ANNOTATION, "label", [[STUDIO], []]),
    "objects with boxes": (Role.OBJECTS, "label", [[BOXED], [BOXED, BOXED]]),
    "the text of objects with boxes": (Role.OBJECTS, "x", [json.dumps([BOXED])] * 2),
    "lists of boxes": (Role.BOXES, "label", [[[1, 2, 3, 4]], [[1, 2, 3, 4], [5, 6, 7, 8]]]),
    "a box": (Role.BOX, "bbox", [[1, 2, 3, 4], [1, 1, 2, 2]]),
    "votes": (Role.VECTOR, "labels", [[0, 12, 3], [7, 0, 8]]),
    "probabilities": (Role.VECTOR, "label", [[0.2, 0.8], [1.0, 0.0]]),
    "a text of numbers": (Role.VECTOR, "label", ["[0.2, 0.8]", "[0.5, 0.5]"]),
    "integers beyond the range of floats": (Role.VECTOR, "label", ["[1, %s]" % ("9" * 400)] * 2),
    "repeats": (Role.VECTOR, "label", [[5, 5], [1, 2]]),
    "zeros and ones": (Role.CLASSES, "label", [[0, 1, 1], [1, 0, 0]]),
    "classes": (Role.CLASSES, "label", [[0, 4], [2], []]),
    "names": (Role.CLASSES, "label", [["cat", "dog"], ["dog"]]),
    "one class": (Role.LABEL, "label", ["cat", "dog"]),
    "braces": (Role.LABEL, "label", ["{cat}", "[dog]"]),
    "captions": (Role.TEXT, "caption", ["A cat.", "A dog."]),
    "splits": (Role.SPLIT, "split", ["train", "test"]),
    "nothing": (Role.NOTHING, "label", ["", None, float("nan")]),
}


@pytest.fixture
def csv_file(tmp_path):
    def write(*lines: str):
        (tmp_path / "m.csv").write_text("\n".join(lines) + "\n")
        return tmp_path / "m.csv"

    return write


@each("case", CELLS)
def test_cells_decide_the_role(case):
    role, name, cells = CELLS[case]
    assert role_of(name, cells) is role


@each("case", [name for name, (role, _, _) in CELLS.items() if role in NO_LABELS])
def test_cells_that_are_no_classes_are_no_labels(case, tmp_path):
    _, _, cells = CELLS[case]
    path = tmp_path / "m.jsonl"
    path.write_text("".join(json.dumps({"image": f"{i}.jpg", "label": cell}) + "\n" for i, cell in enumerate(cells)))
    for settings in ({}, {"label_column": "label"}):
        with refuses("column_without_labels", "input", "label_column", says=["'label'"]):
            open_source(path, **settings)


def test_vectors_are_offered_as_numbers(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text('{"image": "a.jpg", "label": [0.5, 0.5]}\n')
    with refuses("column_without_labels", "input", "label_column") as refusal:
        open_source(path)
    assert {"label_column": "label", "label_type": "float"} in [one.settings for one in refusal.value.suggestions]


def test_what_is_recognised_and_not_used_is_named(csv_file):
    path = csv_file("image,label,right,segmentation_file,caption,width", "a.jpg,cat,b.jpg,a.png,A cat.,3")
    source = open_source(path)
    (note,) = describe_ledger(find_unused(source.description.table, source.description.used))
    assert "right (names of images), segmentation_file (names of masks), caption (texts), width;" in note
    assert "image_column" in note
    assert "layout=segmentation" in note


@each("header", ["left,right,label", "filename,other_file,label"])
def test_several_images_are_a_question(csv_file, header):
    path = csv_file(header, "a.jpg,b.jpg,cat", "c.jpg,d.jpg,dog")
    first, second, _ = header.split(",")
    with refuses("several_image_columns", "input", "image_column") as refusal:
        open_source(path)
    found = [one.settings["image_column"] for one in refusal.value.suggestions]
    assert found == [f"{first},{second}", first, second]


def test_images_beside_an_image_are_named(csv_file):
    source = open_source(csv_file("image,right,label", "a.jpg,b.jpg,cat"))
    assert source.description.images == {"image": False}
    assert (
        "right (names of images)" in describe_ledger(find_unused(source.description.table, source.description.used))[0]
    )
