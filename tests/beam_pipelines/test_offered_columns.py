"""What a refusal of a table offers: readings that are right, of columns that may be what they are offered as."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords.errors import RequestError
from tests.beam_pipelines.listed_records import PICTURE, list_samples

COUNT = 12
SPECIES = ("goldfish, Carassius auratus", "tench, Tinca tinca", "great white shark")
TAGS = ("S", "S N", "V", "N F", "F V S", "F")
TEXTS = ("it's raining", "A man", "a plate of food", "sunset over hills", "5 birds on a wire", "a bike", "KL 22 XY")
LISTS = ("['sky', 'sand', 'sea']", "['sea', 'tree', 'sky']", "['sky']", "['sand', 'sky', 'tree']")


@pytest.fixture
def write(tmp_path):
    """Writes images 0.png to 11.png, and a table of their names and these cells; returns its path."""

    def write(name: str, header: str, *cells: object, images: str = "") -> Path:
        for number in range(COUNT):
            (tmp_path / images).mkdir(exist_ok=True)
            (tmp_path / images / f"{number}.png").write_bytes(PICTURE)
        rows = [[f"{number}.png", *(cell[number % len(cell)] for cell in cells)] for number in range(COUNT)]
        names = header.split(",")
        path = tmp_path / name
        if name.endswith(".parquet"):
            pq.write_table(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows]), path)
        elif name.endswith(".jsonl"):
            path.write_text("\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in rows))
        else:
            mark = " " if name.endswith(".txt") else ";"
            first = [header.replace(",", mark)] if header else []
            path.write_text("\n".join([*first, *(mark.join(map(str, row)) for row in rows)]))
        return path

    return write


def offered(path: Path, code: str, tmp_path: Path, *flags: str) -> list[dict]:
    with pytest.raises(RequestError) as refused:
        list_samples([f"--input={path}", "--output=out", *flags], tmp_path / "listing")
    assert refused.value.code == code
    return [dict(one.settings) for one in refused.value.suggestions]


def test_sides_of_a_box_are_no_classes(write, tmp_path):
    sides = "Roi.X1,Roi.Y1,Roi.X2,Roi.Y2"
    path = write("t.csv", f"image,{sides},kind", (2, 3, 2), (1, 1, 4), (20, 21, 20), (30, 31), ("a", "b"))
    assert offered(path, "missing_label_column", tmp_path) == [{"label_column": "kind"}, {"layout": "image"}]


def test_several_columns_of_words_may_each_be_a_class(write, tmp_path):
    path = write("t.csv", "image,color,age,weight,note", ("red", "blue"), ("old", "young", "old"), (1, 2), ("", "x"))
    heads = {"layout": "image,color:class,age:class"}
    assert offered(path, "missing_label_column", tmp_path) == [{"label_column": "color"}, heads, {"layout": "image"}]


def test_a_class_that_many_rows_lack_is_not_offered(write, tmp_path):
    path = write("t.csv", "image,color,age", ("red", "blue"), ("old", "young", "old", "young", ""))
    assert offered(path, "missing_label_column", tmp_path) == [{"label_column": "color"}, {"layout": "image"}]


@pytest.mark.parametrize("weights", [(1.5, 2.5), (1.5, None, 2.5)])
def test_columns_alone_are_offered_if_they_have_values(weights, tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"weight": [*weights] * COUNT, "count": [1] * len(weights) * COUNT}), path)
    expected = [] if None in weights else [{"layout": "columns"}]
    assert offered(path, "missing_image_column", tmp_path) == expected


def test_words_that_are_classes_elsewhere_may_be_several_classes(write, tmp_path):
    found = offered(write("t.csv", "image,tags", TAGS), "missing_label_column", tmp_path)
    assert [one.get("label_separator") for one in found] == [" ", "", None]


def test_parts_that_occur_only_together_are_one_class(write, tmp_path):
    assert offered(write("t.csv", "image,species", SPECIES), "missing_label_column", tmp_path)[0] == {
        "label_column": "species"
    }


def test_lists_of_classes_as_texts_are_asked_about(write, tmp_path):
    found = offered(write("t.csv", "image,label", LISTS), "unclear_labels", tmp_path)
    assert [one["label_separator"] for one in found] == [",", ""]


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_a_column_that_most_rows_lack_is_not_offered(write, tmp_path, name):
    path = write(name, "image,label", ("", "", "", "", "", "a", "", "", "", "", "", "b"), images="images")
    assert offered(path, "missing_images", tmp_path) == []


def test_columns_of_lists_are_features_of_several_values(write, tmp_path):
    path = write("t.parquet", "frame,votes", ([1, 2, 1], [2], [3, 4]))
    assert {"layout": "columns"} in offered(path, "missing_image_column", tmp_path)
    listed = list_samples([f"--input={path}", "--output=out", "--layout=columns"], tmp_path / "columns")
    assert {one.name: one.several for one in listed.spec.layout.features} == {"frame": False, "votes": True}
    nested = write("nested.parquet", "frame,boxes", ([[1, 2]], [[3], [4]]))
    assert {"layout": "columns"} not in offered(nested, "missing_image_column", tmp_path)


def test_texts_of_which_few_recur_are_asked_about(write, tmp_path):
    found = offered(write("t.csv", "", TEXTS), "unclear_labels", tmp_path)
    assert [one.get("label_type") for one in found] == ["text", None]


def test_texts_before_the_image_are_no_names_of_rows(tmp_path):
    for number in range(30):
        (tmp_path / f"{number}.png").write_bytes(PICTURE)
    rows = [f"{TEXTS[number % 7]} {number};{1990 + number % 9};{number}.png" for number in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    assert {"layout": "image"} in offered(tmp_path / "t.csv", "unclear_label_column", tmp_path)


def test_among_many_columns_without_names_none_is_offered(write, tmp_path):
    path = write("t.csv", "", ("a", "b"), (2, 5, 2), (9, 4), (1, 2, 3), (8, 9), (5, 6))
    assert offered(path, "unclear_label_column", tmp_path) == [{"layout": "image"}]


def test_two_columns_of_splits_are_asked_about_and_none_is_the_label(write, tmp_path):
    path = write("t.csv", "", ("train", "test"), ("train", "train", "test"))
    assert offered(path, "unclear_split_column", tmp_path) == [
        {"split_column": "column_2", "layout": "image"}, {"split_column": "column_3", "layout": "image"},
    ]  # fmt: skip


def test_a_class_called_train_is_no_split(write, tmp_path):
    path = write("t.csv", "image,bus,train,car", (1, 0, 0), (0, 1, 0), (0, 0, 1))
    found = offered(path, "missing_label_column", tmp_path)
    assert found == [{"label_columns": "bus,train,car"}, {"layout": "image"}]
    listed = list_samples([f"--input={path}", "--output=out", "--layout=image"], tmp_path / "images")
    assert {ref.split for ref in listed.refs} == {"train"}
    assert any("column 'train' is not used: it has zeros and ones, as bus, car have" in note for note in listed.notes)


@pytest.mark.parametrize("names", ["coarse_label,fine_label", "make,model"])
def test_boxes_beside_two_columns_of_classes_are_asked_about(write, tmp_path, names):
    path = write("t.csv", f"image,{names},xmin,ymin,xmax,ymax", "aab", "xyz", (1, 2), (1, 2), (5, 6), (5, 6))
    first, second = names.split(",")
    assert offered(path, "unclear_label_column", tmp_path) == [
        {"label_column": first}, {"label_column": second}, {"class_names": "object"},
    ]  # fmt: skip


@pytest.mark.parametrize("root", ["", "images"])
def test_a_list_offers_the_rest_of_its_lines_with_and_without_its_source(write, tmp_path, root):
    path = write("list.txt", "", ("no tumor", "glioma tumor", "pituitary tumor"), images=root)
    first = offered(path, "unclear_label_column", tmp_path, "--source=csv")
    second = offered(path, "unknown_format", tmp_path)
    rest = [{"label_separator": "", "label_column": "label"}, {"label_type": "text", "label_column": "label"}]
    assert [{name: one.get(name) for name in other} for one, other in zip(first, rest, strict=False)] == rest
    assert [{**one, "source": "csv"} for one in first] == second
    words = [f"--{name}={value}" for name, value in second[0].items()]
    listed = list_samples([f"--input={path}", "--output=out", *words], tmp_path / "rest")
    assert listed.classes.names == ("glioma tumor", "no tumor", "pituitary tumor")
