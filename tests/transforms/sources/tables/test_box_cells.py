"""Tables with a row for each box: how public datasets write them, and what the numbers mean."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords.examples.contents import Content
from beam_tfrecords.transforms.sources.tables import table_rows
from tests.refusals import refuses
from tests.source_requests import suggest_columns

BOXES = {"needs_label": False, "needs_objects": True}
# Name -> header and rows of the same boxes: dogs at (10, 20) to (40, 60) of a.jpg and (0, 0) to (5, 8) of b.jpg.
FORMS = {
    "TensorFlow": (
        "filename,width,height,class,xmin,ymin,xmax,ymax",
        ["a.jpg,100,80,dog,10,20,40,60", "b.jpg,100,80,dog,0,0,5,8"],
    ),
    "Open Images": (
        "Path,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf",
        ["a.jpg,x,dog,1,0.10,0.40,0.25,0.75,0,1,0", "b.jpg,x,dog,1,0.0,0.05,0.0,0.1,0,0,1"],
    ),
    "LISA": (
        "Filename,label,Upper left corner X,Upper left corner Y,Lower right corner X,Lower right corner Y",
        ["a.jpg,dog,10,20,40,60", "b.jpg,dog,0,0,5,8"],
    ),
    "CVAT's names": ("image,xtl,ytl,xbr,ybr,label", ["a.jpg,10,20,40,60,dog", "b.jpg,0,0,5,8,dog"]),
    "corner and size": ("image,x,y,w,h,label", ["a.jpg,10,20,30,40,dog", "b.jpg,0,0,5,8,dog"]),
    "bbox and size": (
        "image,bbox_x,bbox_y,bbox_width,bbox_height,category",
        ["a.jpg,10,20,30,40,dog", "b.jpg,0,0,5,8,dog"],
    ),
    "center": ("image,x_center,y_center,width,height,class", ["a.jpg,25,40,30,40,dog", "b.jpg,2.5,4,5,8,dog"]),
    "center in shares": (
        "image,x_center,y_center,width,height,class",
        ["a.jpg,.25,.5,.30,.5,dog", "b.jpg,.025,.05,.05,.1,dog"],
    ),
    "Global Wheat": (
        "image,width,height,bbox,source,label",
        [
            'a.jpg,100,80,"[10.0, 20.0, 30.0, 40.0]",x,dog',
            'b.jpg,100,80,"[0.0, 0.0, 5.0, 8.0]",x,dog',
            'c.jpg,100,80,"[90.0, 70.0, 10.0, 10.0]",x,cat',
        ],
    ),
    "a cell of corners": (
        "image,width,height,bbox,label",
        ['a.jpg,100,80,"10,20,40,60",dog', "b.jpg,100,80,0 0 5 8,dog", "c.jpg,100,80,90 70 100 80,cat"],
    ),
}


@pytest.fixture
def table(touch):
    def write(header: str, *rows: str):
        path = touch("a.jpg", "b.jpg", "c.jpg") / "m.csv"
        path.write_text("\n".join([header, *rows]) + "\n")
        return path

    return write


def corners(samples):
    return [[round(side, 6) for side in sample.objects.boxes] for sample in samples]


@pytest.mark.parametrize("form", FORMS)
def test_boxes_of_every_form_are_found_by_their_names_and_numbers(table, opened, form):
    header, rows = FORMS[form]
    source = opened(table(header, *rows), **BOXES)
    samples = list(source.samples())[:2]
    assert ([one.key for one in samples], source.description.groups_rows) == (["a.jpg", "b.jpg"], True)
    assert Content.OBJECTS in source.description.provides
    in_pixels = [[10, 20, 40, 60], [0, 0, 5, 8]]
    is_normalized = samples[0].objects.is_normalized
    assert is_normalized == ("Open" in form or "shares" in form)
    shares = [[x / (100, 80)[place % 2] for place, x in enumerate(box)] for box in in_pixels]
    assert corners(samples) == (shares if is_normalized else in_pixels)
    assert [one.objects.labels for one in samples] == [("dog",)] * 2
    assert any("boxes from column" in note for note in source.notes)
    if form == "TensorFlow":
        assert samples[0].objects.size == (100, 80)
    if form == "Open Images":
        assert [one.objects.values for one in samples] == [
            {"truncated": (1,), "is_crowd": (0,)}, {"truncated": (0,), "is_crowd": (1,)},
        ]  # fmt: skip


def test_jsonl_and_parquet_have_lists(touch, opened):
    rows = [{"image": "a.jpg", "bbox": [10, 20, 3, 4], "label": "dog"}, {"image": "b.jpg", "bbox": None, "label": None}]
    root = touch("a.jpg", "b.jpg")
    (root / "m.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pq.write_table(pa.Table.from_pylist(rows), root / "m.parquet")
    for name in ("m.jsonl", "m.parquet"):
        samples = list(opened(root / name, **BOXES).samples())
        assert corners(samples) == [[10, 20, 13, 24], []]


def test_a_row_without_sides_is_an_image_without_boxes(table, opened):
    path = table("image,x1,y1,x2,y2,label", "a.jpg,1,2,3,4,dog", "b.jpg,,,,,", "c.jpg,NaN,NaN,NaN,NaN,none")
    samples = list(opened(path, **BOXES).samples())
    assert [(one.failure, one.objects.labels) for one in samples] == [(None, ("dog",)), (None, ()), (None, ())]


def test_a_row_with_other_cells_is_rejected(table, opened):
    rows = ["a.jpg,1,2,3,4,dog", "b.jpg,1,2,x,4,dog", "c.jpg,1,2,,4,dog"]
    samples = list(opened(table("image,x1,y1,x2,y2,label", *rows), **BOXES).samples())
    assert [one.failure and one.failure[0] for one in samples] == [None, "invalid_row", "invalid_row"]
    rows = ["a.jpg,.1,.2,.3,.4,dog"] * 1000 + ["b.jpg,100,200,300,400,dog"]
    *_, last = opened(table("image,x1,y1,x2,y2,label", *rows), **BOXES).samples()
    assert "not in shares of the image" in last.failure[1]


@pytest.mark.parametrize("largest", ["1", "1.49", "1.5", "1.51", "2"])
def test_what_tells_the_unit_of_the_boxes_is_read_in_it(table, opened, largest):
    (sample,) = opened(table("image,x1,y1,x2,y2,label", f"a.jpg,0,0,{largest},1,dog"), **BOXES).samples()
    assert (sample.failure, sample.objects.is_normalized) == (None, float(largest) <= 1.5)


def test_boxes_that_may_be_two_things_are_refused_with_both(table, opened):
    path = table("image,bbox,label", 'a.jpg,"[10, 20, 40, 60]",dog')
    with refuses("unclear_box_format", "input") as refused:
        opened(path, **BOXES)
    assert [one.settings for one in refused.value.suggestions] == [{"box_format": "xywh"}, {"box_format": "xyxy"}]


def test_the_request_has_the_last_word(opened, table):
    from beam_tfrecords.transforms.objects.objects import BoxFormat, BoxUnit

    path = table("image,a,b,c,d,label", "a.jpg,1,2,3,4,dog")
    settings = {"box_columns": ("a", "b", "c", "d"), "box_format": BoxFormat.SIZE, "box_unit": BoxUnit.PIXELS}
    assert corners(opened(path, **BOXES, **settings).samples()) == [[1, 2, 4, 6]]
    with refuses("unknown_column", "box_columns", says=["'x'"]):
        opened(path, **BOXES, box_columns=("x",))
    with refuses("invalid_value", "box_columns"):
        opened(path, **BOXES, box_columns=("a", "b"))


def test_boxes_without_a_column_of_classes_are_of_one_class(table, opened):
    path = table("image,x1,y1,x2,y2", "a.jpg,1,2,3,4")
    source = opened(path, **BOXES)
    assert next(source.samples()).objects.labels == ("object",)
    assert any("all of the class 'object'" in note for note in source.notes)
    assert next(opened(path, **BOXES, class_names=("wheat",)).samples()).objects.labels == ("wheat",)


def test_a_side_is_no_column_of_classes(table, opened):
    samples = [*opened(table("image,x,y,w,h", "a.jpg,10,20,30,40"), **BOXES).samples()]
    assert (corners(samples), samples[0].objects.labels) == ([[10, 20, 40, 60]], ("object",))


def test_a_layout_without_boxes_says_that_they_are_not_used(table, opened):
    source = opened(table("image,x1,y1,x2,y2,label", "a.jpg,1,2,3,4,dog"), needs_objects=False)
    assert Content.OBJECTS not in source.description.provides
    assert {"x1", "y1", "x2", "y2"}.isdisjoint(source.description.used)


def test_images_of_ids_are_suggested_for_boxes(table, opened):
    source = opened(table("image_id,x1,y1,x2,y2", *["a,1,2,3,4"] * 9), **BOXES)
    (suggestion,) = suggest_columns(source, needs_label=False)
    assert suggestion.settings == {"image_path": "{image_id}.jpg"}


def test_numbers_of_other_things_are_no_boxes(table, opened):
    source = opened(table("image,x,y,label", "a.jpg,1,2,dog"), needs_objects=True)
    assert Content.OBJECTS not in source.description.provides
    source = opened(table("image,left,top,right,bottom,label", "a.jpg,no,yes,no,no,dog"), needs_objects=True)
    assert Content.OBJECTS not in source.description.provides


@pytest.mark.parametrize("is_there", [True, False])
def test_the_image_of_many_boxes_is_looked_at_once(tmp_path, opened, monkeypatch, is_there):
    names = ["b.jpg", *["a.jpg"] * 500, "b.jpg"]
    (tmp_path / "b.jpg").write_bytes(b"pixels")
    if is_there:
        (tmp_path / "a.jpg").write_bytes(b"pixels")
    rows = "".join(f"{name},1,2,3,4,dog\n" for name in names)
    (tmp_path / "boxes.csv").write_text(f"image,xmin,ymin,xmax,ymax,label\n{rows}")
    source, looked = opened(tmp_path / "boxes.csv", **BOXES), []
    look = table_rows.look
    monkeypatch.setattr(table_rows, "look", lambda uri: looked.append(uri) or look(uri))
    samples = list(source.samples())
    assert [bool(sample.failure) for sample in samples] == [name == "a.jpg" and not is_there for name in names]
    assert len(looked) == 2
    assert {sample.key for sample in samples} == {"a.jpg", "b.jpg"}
