"""Which column is what: the usual names, patterns of paths, and what a message says where neither helps."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords.examples.contents import Content
from beam_tfrecords.transforms.sources.detect.columns import has_labels
from beam_tfrecords.transforms.sources.tables.any_table import open_table
from tests.refusals import Refusal, refuses
from tests.source_requests import suggest_columns


@pytest.fixture
def csv_file(touch, tmp_path):
    def write(*lines: str, images: tuple[str, ...] = ("a.jpg", "b.jpg")):
        touch(*images)
        (tmp_path / "m.csv").write_text("\n".join(lines) + "\n")
        return tmp_path / "m.csv"

    return write


def pairs(source):
    return [(sample.key, sample.label, sample.failure and sample.failure[0]) for sample in source.samples()]


@pytest.mark.parametrize(
    ("header", "note"),
    [
        ("image,label", None),
        ("Image,Label", "images from column 'Image', labels from column 'Label'"),
        ("path,class", "images from column 'path', labels from column 'class'"),
        ("file_name,category", "images from column 'file_name', labels from column 'category'"),
        ("filename,label", "images from column 'filename'"),
        ("image_path,class_name", "images from column 'image_path', labels from column 'class_name'"),
    ],
)
def test_usual_names_are_guessed_and_said(csv_file, opened, header, note):
    source = opened(csv_file(header, "a.jpg,cat", "b.jpg,dog"))
    assert pairs(source) == [("a.jpg", "cat", None), ("b.jpg", "dog", None)]
    assert source.notes == ([f"m.csv: {note}"] if note else [])


def test_the_documented_name_is_preferred_without_a_note(csv_file, opened):
    source = opened(csv_file("path,class,image,label", "x.jpg,x,a.jpg,cat"))
    assert (pairs(source), source.notes) == ([("a.jpg", "cat", None)], [])


def test_a_split_column_is_found_in_any_case(csv_file, opened):
    (sample,) = opened(csv_file("image,label,Split", "a.jpg,cat,test")).samples()
    assert sample.split == "test"


def test_a_layout_without_images_and_labels_guesses_neither(csv_file, opened):
    source = opened(csv_file("path,class", "x,y"), needs_image=False, needs_label=False, columns=None)
    assert Content.IMAGE not in source.description.provides
    (sample,) = source.samples()
    assert dict(sample.columns) == {"path": "x", "class": "y"}


def test_a_parquet_column_that_cannot_hold_paths_is_not_guessed(tmp_path, opened):
    pq.write_table(pa.table({"file": [1, 2], "label": ["a", "b"]}), tmp_path / "m.parquet")
    assert Content.IMAGE not in opened(tmp_path / "m.parquet").description.provides


# Patterns of paths


def test_a_pattern_makes_paths_from_columns(csv_file, opened):
    table = csv_file("id,part,label", "7,x,cat", "8,y,dog", images=("x/7.jpg", "y/8.jpg"))
    source = opened(table, image_path="{part}/{id}.jpg")
    assert Content.IMAGE in source.description.provides
    assert pairs(source) == [("x/7.jpg", "cat", None), ("y/8.jpg", "dog", None)]


@pytest.mark.parametrize(
    ("pattern", "image"),
    [
        ("{id[0]}/{id[1]}/{id}.jpg", "0/a/0a7f.jpg"),
        ("{id[:2]}/{id[2:]}.jpg", "0a/7f.jpg"),
        ("{id[-1]}/{id[-3:-1]}.jpg", "f/a7.jpg"),
        ("video_{video}/{frame:05d}.jpg", "video_2/00031.jpg"),
        ("{video:0>3}/{frame:d}.jpg", "002/31.jpg"),
        ("{a:b}/{frame[0]:0>2}.jpg", "x/03.jpg"),
    ],
)
def test_a_pattern_has_slices_and_formats_of_python(csv_file, opened, pattern, image):
    table = csv_file("id,video,frame,a:b,label", "0a7f,2,31,x,cat", images=(image,))
    assert pairs(opened(table, image_path=pattern)) == [(image, "cat", None)]


@pytest.mark.parametrize("pattern", ["{id[4]}.jpg", "{id:04d}.jpg", "{id[]}.jpg"])
def test_a_cell_that_does_not_fit_its_pattern_is_an_invalid_row(csv_file, opened, pattern):
    (sample,) = opened(csv_file("id,label", "0a7f,cat"), image_path=pattern).samples()
    assert sample.failure == ("invalid_row", f"column 'id' has '0a7f', which does not fit {pattern[:-4]}")


def test_several_patterns_make_the_images_of_a_sample(csv_file, opened):
    images = [f"{name}_{color}.png" for name in ("a", "b") for color in ("red", "green")]
    table = csv_file("id,label", "a,cat", "b,dog", images=images)
    source = opened(table, image_path="red={id}_red.png, green={id}_green.png")
    assert source.description.images == {"red": False, "green": False}
    samples = list(source.samples())
    assert [(sample.key, [*sample.images]) for sample in samples] == [
        ("a_red.png", ["red", "green"]),
        ("b_red.png", ["red", "green"]),
    ]


def test_a_folder_with_an_equals_sign_is_one_pattern(csv_file, opened):
    table = csv_file("year,id,label", "2020,7,cat", images=("year=2020/7.jpg",))
    assert pairs(opened(table, image_path="year={year}/{id}.jpg")) == [("year=2020/7.jpg", "cat", None)]


def test_paths_are_relative_to_the_image_root(csv_file, opened, tmp_path):
    table = csv_file("id,label,image", "7,cat,7.jpg", images=("elsewhere/7.jpg",))
    root = str(tmp_path / "elsewhere")
    for fields in ({"image_path": "{id}.jpg"}, {"image_column": "image"}):
        (sample,) = opened(table, image_root=(root,), **fields).samples()
        assert (sample.uri, sample.failure) == (f"{root}/7.jpg", None)


def test_images_may_be_in_several_folders(csv_file, opened, tmp_path):
    table = csv_file("image,label", "7.jpg,cat", "8.jpg,dog", "9.jpg,dog", images=("a/7.jpg", "b/8.jpg"))
    roots = (str(tmp_path / "a"), str(tmp_path / "b"))
    samples = list(opened(table, image_root=roots).samples())
    assert [sample.uri for sample in samples[:2]] == [f"{roots[0]}/7.jpg", f"{roots[1]}/8.jpg"]
    assert samples[2].failure == ("unreadable", f"no such file: '{roots[1]}/9.jpg'")


def test_columns_of_zeros_and_ones_are_labels(csv_file, opened):
    rows = ["1.jpg,1,0,0", "2.jpg,0,1.0,True", "3.jpg,0,0,0", "4.jpg,2,0,0"]
    images = ("1.jpg", "2.jpg", "3.jpg", "4.jpg")
    source = opened(
        csv_file("image,healthy,rust,scab", *rows, images=images), label_columns=("rust", "healthy", "scab")
    )
    samples = list(source.samples())
    assert [sample.label for sample in samples[:3]] == [["healthy"], ["rust", "scab"], []]
    assert samples[3].failure == ("invalid_row", "column 'healthy' has '2'; expected 0 or 1")


def test_columns_of_zeros_and_ones_are_hinted_at_together(csv_file, opened):
    table = csv_file("image,healthy,rust", "1.jpg,1,0", "2.jpg,0,1")
    with refuses("missing_label_column", "input", "label_column", says=["label_columns=healthy,rust"]):
        opened(table)


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"label_columns": ("healthy", "no")}, Refusal("unknown_column", "label_columns", says=["'no'"])),
        (
            {"label_columns": ("healthy",), "label_column": "image"},
            Refusal("conflicting_settings", "label_column", "label_columns"),
        ),
    ],
)
def test_columns_of_labels_that_cannot_be_are_refused(csv_file, opened, fields, refusal):
    with refuses(refusal):
        opened(csv_file("image,healthy", "1.jpg,1"), **fields)


@pytest.mark.parametrize("cell", ["../secret", "/etc/passwd"])
def test_a_pattern_does_not_lead_out_of_the_root(csv_file, opened, cell):
    table = csv_file("id,label", f"{cell},cat")
    assert pairs(opened(table, image_path="{id}"))[0][2] == "outside_root"
    (sample,) = opened(table, image_path="{id}", allow_outside_root=True).samples()
    assert sample.failure is None or sample.failure[0] == "unreadable"


def test_an_empty_cell_in_a_pattern_is_an_invalid_row(csv_file, opened):
    assert pairs(opened(csv_file("id,label", ",cat"), image_path="{id}.jpg"))[0][2] == "invalid_row"


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        (
            {"image_path": "{name}.jpg"},
            Refusal("unknown_column", "image_path", says=["image_path={name}.jpg", "'name'", "it has: id, label"]),
        ),
        (
            {"image_path": "{id[0]}/{no[0]}.jpg"},
            Refusal("unknown_column", "image_path", says=["'no'", "it has: id, label"]),
        ),
        ({"image_path": "{id:.3f}"}, Refusal("unknown_column", "image_path", says=["'id:.3f'"])),
        ({"image_path": "a={id}.jpg,b=other.jpg"}, Refusal("invalid_value", "image_path")),
        ({"image_path": "id.jpg"}, Refusal("invalid_value", "image_path")),
        ({"image_path": "{id.jpg"}, Refusal("invalid_value", "image_path")),
        ({"image_path": "{id}}.jpg"}, Refusal("invalid_value", "image_path")),
        (
            {"image_path": "{id}.jpg", "image_column": "id"},
            Refusal("conflicting_settings", "image_path", "image_column", says=["image_column=id"]),
        ),
    ],
)
def test_a_wrong_pattern_is_refused(csv_file, opened, fields, refusal):
    with refuses(refusal):
        opened(csv_file("id,label", "7,cat"), **fields)


# Several labels in a cell


def test_a_separator_splits_the_cell_into_labels(csv_file, opened):
    table = csv_file("image,label", "a.jpg,cat| pet |", "b.jpg,cat", "a.jpg,|")
    labels = [sample.label for sample in opened(table, label_separator="|", key_column="label").samples()]
    assert labels == [["cat", "pet"], ["cat"], []]


# What a message says


def test_columns_that_look_like_images_and_labels_are_named_with_their_settings(csv_file, opened):
    table = csv_file("foto,kind,year", "a.jpg,cat,2001", "b.jpg,dog,2002", "c.jpg,cat,2003")
    suggestions = suggest_columns(opened(table, needs_label=False), needs_label=True)
    assert [dict(suggestion.settings) for suggestion in suggestions] == [
        {"image_column": "foto", "label_column": "kind"},
        {"image_column": "foto", "layout": "image"},
    ]
    with refuses(
        "missing_label_column", "input", "label_column", says=["'label'", "`image_column=foto` `label_column=kind`"]
    ):
        opened(table)


def test_a_column_of_urls_is_one_of_images(csv_file, opened):
    row = "https://x.org/{0}.jpg?w=9,{0},https://x.org/{0}.html"
    table = csv_file("link,kind,page", *(row.format(kind) for kind in ("cat", "dog", "cat")))
    first, *_ = suggest_columns(opened(table, needs_label=False), needs_label=True)
    assert first.settings == {"image_column": "link", "label_column": "kind"}
    guessed = opened(csv_file("url,label", "https://x.org/1.jpg,cat"))
    assert pairs(guessed) == [("https://x.org/1.jpg", "cat", None)]
    assert guessed.notes == ["m.csv: images from column 'url'"]


def test_ids_that_name_files_are_found(csv_file, opened):
    table = csv_file("id,breed", "7,cat", "8,cat", images=("train/7.jpg", "train/8.jpg"))
    (suggestion,) = suggest_columns(opened(table, needs_label=False), needs_label=False)
    assert suggestion.settings == {"image_path": "train/{id}.jpg"}


def test_columns_of_zeros_and_ones_are_suggested_in_the_order_of_their_numbers(csv_file, opened):
    names = [f"label_{number}" for number in range(1, 12)]
    header = ",".join(["image", *sorted(names), "ones"])
    path = csv_file(header, "a.jpg," + "0," * 11 + "1", "b.jpg," + "1," * 11 + "1")
    with refuses("missing_label_column", "input", "label_column") as refused:
        opened(path)
    assert {"label_columns": ",".join(names)} in [one.settings for one in refused.value.suggestions]


def test_constant_columns_are_no_classes(csv_file, opened):
    with refuses("missing_label_column", "input", "label_column") as refused:
        opened(csv_file("image,a,b", "a.jpg,0,1", "b.jpg,0,1"))
    assert [one.settings for one in refused.value.suggestions] == [{"layout": "image"}]


def test_cells_of_several_labels_are_suggested_with_their_separator(csv_file, opened):
    with refuses("missing_label_column", "input", "label_column") as refused:
        opened(csv_file("image,tags", "a.jpg,cat|small", "b.jpg,dog|small", "c.jpg,cat|dog"))
    first, _ = refused.value.suggestions
    assert first.settings == {"label_column": "tags", "label_separator": "|"}


def test_labels_are_there_if_each_named_column_is(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("a,b,label\n1,2,3\n")
    columns = ("a", "b", "label")
    table = open_table(str(path))
    for size in (1, 2, 3):
        for named in itertools.combinations(columns, size):
            assert has_labels(table, named)
            assert not has_labels(table, (*named, "c"))
    assert has_labels(table, ())
