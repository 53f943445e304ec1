"""Lists of images without a header, as the archives of public datasets have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_tfrecords.transforms.sources.tables import text_table
from beam_tfrecords.transforms.sources.tables.csv_table import open_csv
from beam_tfrecords.transforms.sources.tables.table import InvalidRow
from tests.each import each


def read(path: Path) -> list:
    table = open_csv(str(path))
    return list(table.rows(table.columns))


@each(
    "text, rows",
    [
        ("apple_pie/1\nwaffles/2\n", [("apple_pie/1", "apple_pie"), ("waffles/2", "waffles")]),
        ("Ap 1/x 1.jpg\nAp 2/1.jpg\n", [("Ap 1/x 1.jpg", "Ap 1"), ("Ap 2/1.jpg", "Ap 2")]),
        (
            "/a/abbey/1.jpg\n/c/church/indoor/1.jpg\n",
            [("a/abbey/1.jpg", "abbey"), ("c/church/indoor/1.jpg", "church/indoor")],
        ),
        ("v_1.JPEG 65\r\nv_2.JPEG 70\r\nv_3.JPEG 65\r\n", [("v_1.JPEG", "65"), ("v_2.JPEG", "70"), ("v_3.JPEG", "65")]),
        ("v_0.JPEG\tn01\t0\t32\nv_1.JPEG\tn02\t0\t32\n", [("v_0.JPEG", "n01"), ("v_1.JPEG", "n02")]),
        ("3 a.png sick x\n4 b.png well y\n", [("a.png", "sick"), ("b.png", "well")]),
        ("0034309 Boeing 707\n0034958 A320\n", [("0034309", "Boeing 707"), ("0034958", "A320")]),
        ("pug_1 1 1 1\npug_2 1 1 1\ncat_3 2 1 1\n", [("pug_1", "1"), ("pug_2", "1"), ("cat_3", "2")]),
    ],
)  # fmt: skip
def test_a_list_is_a_table_of_images_and_labels(tmp_path, text, rows):
    path = tmp_path / "train.txt"
    path.write_text(text, newline="")
    assert [(row["image"], row["label"]) for row in read(path)] == rows


def test_a_count_and_a_header_are_no_rows(tmp_path):
    path = tmp_path / "list_attr.txt"
    path.write_text("2\nMale Young \n1.jpg  1 -1\n2.jpg -1  1\n")
    assert read(path) == [
        {"image": "1.jpg", "Male": "1", "Young": "-1"},
        {"image": "2.jpg", "Male": "-1", "Young": "1"},
    ]
    path.write_text("1\nimage_id x_1 y_1\n1.jpg    95  71\n")
    assert read(path) == [{"image": "1.jpg", "x_1": "95", "y_1": "71"}]


def test_classes_and_splits_in_texts_beside_a_list_are_columns(tmp_path):
    path = tmp_path / "images.txt"
    path.write_text("1 817/a.jpg\n2 860/b.jpg\n3 860/c.jpg\n")
    assert [row["label"] for row in read(path)] == ["817", "860", "860"]
    (tmp_path / "image_class_labels.txt").write_text("1 817\n2 860\n3 860\n")
    (tmp_path / "train_test_split.txt").write_text("1 1\n2 0\n")
    (tmp_path / "classes.txt").write_text("817 Duck (male)\n860 Gull\n")
    assert [(row["image"], row["label"], row["split"]) for row in read(path)] == [
        ("817/a.jpg", "Duck (male)", "train"),
        ("860/b.jpg", "Gull", "test"),
        ("860/c.jpg", "Gull", ""),
    ]


def test_a_row_of_another_width_is_invalid_and_the_others_are_read(tmp_path):
    path = tmp_path / "val.txt"
    path.write_text("".join(f"{number}.jpg {number % 3}\n" for number in range(40)) + "bad.jpg\n\n40.jpg 1\n")
    *good, bad, last = read(path)
    assert len(good) == 40
    assert bad == InvalidRow("line 41: 1 cells; expected 2")
    assert last == {"image": "40.jpg", "label": "1"}


@pytest.mark.parametrize("head", ["", "3000\nsize shape\n"])
def test_the_parts_of_a_long_list_are_the_list(tmp_path, monkeypatch, head):
    monkeypatch.setattr(text_table, "RANGE_BYTES", 20_000)
    path = tmp_path / "list.txt"
    path.write_text(head + "".join(f"folder/{number:06}.jpg {number % 7} {number % 5}\n" for number in range(3000)))
    table = open_csv(str(path))
    parts, problem = table.cut()
    assert len(parts) > 1
    assert not problem
    rows = [list(table.rows(["image"], part)) for part in parts]
    assert [row for some in rows for row in some] == list(table.rows(["image"]))
    assert [part.row for part in parts] == [sum(map(len, rows[:number])) for number in range(len(parts))]


@pytest.mark.parametrize("text", ["image,label\n1.jpg,cat\n", "image label\n1.jpg cat\n", "words without images\n", ""])
def test_a_text_with_a_header_is_no_list(tmp_path, text):
    path = tmp_path / "table.txt"
    path.write_text(text or "name\n")
    assert open_csv(str(path)).parser.form == "csv"


def test_a_csv_file_is_no_list(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("image\n1.jpg\n")
    assert open_csv(str(path)).parser.form == "csv"


@each("mark", [", ", ",", " ", "\t", "; "])
def test_a_text_goes_to_the_end_of_its_line(tmp_path, mark):
    texts = ['"JOINT"', '"Hello, world"', '"50% off; "now""', "it's", "a, b"]
    path = tmp_path / "gt.txt"
    path.write_text("".join(f"word_{number}.png{mark}{text}\n" for number, text in enumerate(texts)))
    table = open_csv(str(path), has_rest=True)
    assert [(row["image"], row["label"]) for row in table.rows(table.columns)] == [
        (f"word_{number}.png", text) for number, text in enumerate(texts)
    ]


def test_texts_that_a_program_wrote_as_csv_are_cells(tmp_path):
    path = tmp_path / "gt.txt"
    path.write_text('a.png,"Hello, world"\nb.png,plain\nc.png,"say ""hi"""\n')
    table = open_csv(str(path), has_rest=True)
    assert [row["label"] for row in table.rows(table.columns)] == ["Hello, world", "plain", 'say "hi"']
