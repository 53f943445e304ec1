"""What a mapping can say, and how a source of documents reads it."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import random

import pytest

from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.objects.polygons import unpack_polygons
from tests.each import each
from tests.refusals import Refusal
from tests.transforms.sources.documents.formats import (
    IMAGES,
    NUMBERS,
    bdd_frames,
    corners_of,
    points_of,
    size_of,
    turned,
    via_images,
    write_json,
    write_kitti,
    write_labelme,
    write_lines,
    write_tfod,
    write_via_1,
)

MINE = """
documents: "*.json"
image: image
objects: objects
class: name
box: [x, y, w, h]
form: xywh
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with the images, whose content is not read."""
    for name in IMAGES:
        (tmp_path / name).write_bytes(b"pixels")
    return tmp_path


@pytest.fixture
def mapped(folder, opened, listed):
    """Writes one document and a mapping, and returns the samples."""

    def read(document, mapping, *, name="a.json", **fields):
        (folder / name).write_text(document if isinstance(document, str) else json.dumps(document))
        (folder / "my.yaml").write_text(mapping)
        return listed(opened(folder / name, mapping=str(folder / "my.yaml"), **fields))

    return read


@contextlib.contextmanager
def refused(code, words):
    """Asserts that a block is refused with these words."""
    with pytest.raises(RequestError) as error:
        yield
    Refusal(code, *error.value.settings, says=[words]).check(error.value)


def in_pixels(sample, name="a.jpg"):
    """The boxes of a sample in pixels."""
    scale = (IMAGES[name].width, IMAGES[name].height) * 2 if sample.objects.is_normalized else (1,) * 4
    sides = sample.objects.boxes
    return [[side * size for side, size in zip(sides[n : n + 4], scale, strict=True)] for n in range(0, len(sides), 4)]


def polygons_of(sample, name="a.jpg"):
    scale = (IMAGES[name].width, IMAGES[name].height) if sample.objects.is_normalized else (1, 1)
    return [[(part * scale).ravel().tolist() for part in unpack_polygons(one)] for one in sample.objects.polygons]


# Forms and units

FORMS = ["xyxy", "xywh", "cxcywh", "polygon", "quad", "points"]


def numbers_of(box, form, angle):
    """The numbers of a box in a form, and the corners of the object."""
    (left, top, right, bottom), (width, height) = box, size_of(box)
    center = ((left + right) / 2, (top + bottom) / 2)
    if form == "xywh":
        return [left, top, width, height], turned(box, angle, (left, top))
    if form == "cxcywh":
        return [*center, width, height], turned(box, angle, center)
    if form == "xyxy":
        return [*box], turned(box, angle, center)
    corners = turned(box, angle, center)
    return corners, corners


def written(numbers, form, rng):
    """The same numbers as lists, points, objects, or texts."""
    if form in ("xyxy", "xywh", "cxcywh"):
        return rng.choice([numbers, " ".join(map(repr, numbers)), ",".join(map(repr, numbers)), [*map(str, numbers)]])
    points = points_of(numbers)
    texts = [";".join(f"{x!r},{y!r}" for x, y in points), [f"{x!r}, {y!r}" for x, y in points]]
    return rng.choice([numbers, points, [{"x": x, "y": y} for x, y in points], *texts])


@each("form, unit", [*itertools.product(FORMS, ["pixels", "share", "percent"])])
def test_random_objects_are_read_in_every_form_and_unit(form, unit, mapped):
    rng = random.Random(f"{form} {unit}")
    width, height = IMAGES["a.jpg"].width, IMAGES["a.jpg"].height
    factor = {"pixels": (1, 1), "share": (1 / width, 1 / height), "percent": (100 / width, 100 / height)}[unit]
    objects, expected = [], []
    for _ in range(60):
        left, top = rng.uniform(0, width - 2), rng.uniform(0, height - 2)
        box = (left, top, rng.uniform(left + 1, width), rng.uniform(top + 1, height))
        angle = rng.choice([0, 0, rng.uniform(-180, 360)])
        numbers, corners = numbers_of(box, form, angle)
        numbers = [number * factor[n % 2] for n, number in enumerate(numbers)]
        objects.append({"name": "x", "at": written(numbers, form, rng), "turn": angle})
        expected.append((corners, angle))
    turn = "angle: turn" if form in ("xyxy", "xywh", "cxcywh") else ""
    text = f"image: image\nsize: size\nobjects: objects\nclass: name\nbox: at\nform: {form}\nunit: {unit}\n{turn}"
    document = {"image": "a.jpg", "size": [width, height], "objects": objects}
    (sample,) = mapped(document, text, needs_polygons=True, needs_keypoints=True).values()
    assert sample.failure is None
    boxes, polygons = in_pixels(sample), polygons_of(sample)
    assert len(boxes) == len(expected)
    for number, (corners, angle) in enumerate(expected):
        bounds = [min(corners[::2]), min(corners[1::2]), max(corners[::2]), max(corners[1::2])]
        assert boxes[number] == pytest.approx(bounds, abs=1e-4)
        if form in ("polygon", "quad") or (angle and turn):
            assert polygons[number] == [pytest.approx(corners, abs=1e-4)]


def test_a_turned_box_in_shares_needs_the_size_of_the_image(mapped):
    document = {"image": "a.jpg", "objects": [{"name": "x", "at": [0.1, 0.1, 0.2, 0.2], "turn": 30}] * 2}
    text = "image: image\nobjects: objects\nclass: name\nbox: at\nform: xywh\nunit: share\nangle: turn\n"
    with refused("unfit_mapping", "a box is turned, and 'size' finds no width and height of the image"):
        mapped(document, text)


@each(
    "points, expected",
    [
        ([1, 2, 3, 4], [1, 2, 2, 3, 4, 2]),
        ([1, 2, 2, 3, 4, 0], [1, 2, 2, 3, 4, 0]),
        ([[1, 2], [3, 4], [5, 6]], [1, 2, 2, 3, 4, 2, 5, 6, 2]),
        ([[1, 2, 1]], [1, 2, 1]),
        ([{"x": 1, "y": 2}, {"x": 3, "y": 4}], [1, 2, 2, 3, 4, 2]),
        ([30, 2, 7, 3, 4, 5], [30, 2, 2, 7, 3, 2, 4, 5, 2]),
    ],
)
def test_keypoints_have_a_visibility_or_are_visible(points, expected, mapped):
    import numpy as np

    text = "image: image\nobjects: objects\nclass: name\nbox: box\nform: xyxy\npoints: points\n"
    document = {"image": "a.jpg", "objects": [{"name": "x", "box": [0, 0, 9, 9], "points": points}]}
    (sample,) = mapped(document, text, needs_keypoints=True).values()
    assert np.frombuffer(sample.objects.keypoints[0], "<f4").tolist() == expected


def test_parts_of_a_group_and_holes_belong_to_one_object(mapped):
    square, inner = [0, 0, 20, 0, 20, 20, 0, 20], [5, 5, 15, 5, 15, 15, 5, 15]
    far = [30, 30, 40, 30, 40, 35]
    objects = [
        {"name": "x", "id": 1, "outline": square, "holes": [inner]},
        {"name": "y", "id": 1, "outline": inner},
        {"name": "x", "id": 1, "outline": far},
        {"name": "x", "id": None, "outline": far},
        {"name": "x", "id": None, "outline": [square, far]},
    ]
    text = "image: image\nobjects: objects\nclass: name\ngroup: id\npolygon: outline\nholes: holes\n"
    (sample,) = mapped({"image": "a.jpg", "objects": objects}, text, needs_polygons=True).values()
    assert sample.objects.labels == ("x", "y", "x", "x")
    assert in_pixels(sample) == [[0, 0, 40, 35], [5, 5, 15, 15], [30, 30, 40, 35], [0, 0, 40, 35]]
    assert polygons_of(sample)[0] == [[*square, 0, 0, *inner, 5, 5], far]
    assert polygons_of(sample)[3] == [square, far]


# Formats in their other forms


@each("version", ["project", "version 1", "frames"])
def test_other_forms_of_a_format_are_the_same(version, folder, opened, listed):
    if version == "frames":
        lists = write_json(folder / "1.json", bdd_frames()), write_json(folder / "2.json", {"frames": bdd_frames()})
        name = "bdd100k"
    else:
        name = "via"
        other = write_via_1(folder) if version == "version 1" else folder / "list.json"
        lists = write_json(folder / "1.json", {"_via_img_metadata": via_images(as_lists=True)}), other
        if version == "project":
            write_json(other, via_images(as_lists=True))
    first, second = (listed(opened(path, mapping=name, needs_polygons=True)) for path in lists)
    assert first == second
    assert len(first) == len(IMAGES)


def test_a_turned_box_of_label_studio_turns_in_pixels(folder, opened, listed):
    value = {"x": 50, "y": 25, "width": 20, "height": 10, "rotation": 30, "rectanglelabels": ["cat"]}
    result = {"type": "rectanglelabels", "original_width": 60, "original_height": 40, "value": value}
    tasks = [{"data": {"image": "a.jpg"}, "annotations": [{"result": [result]}]}]
    path = write_json(folder / "tasks.json", tasks)
    (sample,) = listed(opened(path, mapping="labelstudio", needs_polygons=True)).values()
    corners = turned((30, 10, 42, 14), 30, (30, 10))
    assert polygons_of(sample) == [[pytest.approx(corners, abs=1e-4)]]
    assert in_pixels(sample) == [pytest.approx([min(corners[::2]), 10, max(corners[::2]), max(corners[1::2])])]


def test_a_turned_box_of_cvat_turns_around_its_center(folder, opened, listed):
    box = '<box label="cat" xtl="10" ytl="20" xbr="30" ybr="26" rotation="90.0"></box>'
    (folder / "a.xml").write_text(
        f'<annotations><image name="a.jpg" width="60" height="40">{box}</image></annotations>'
    )
    (sample,) = listed(opened(folder / "a.xml", mapping="cvat")).values()
    assert in_pixels(sample) == [pytest.approx([17, 13, 23, 33])]


def test_a_circle_of_via_is_in_its_box(folder, opened, listed):
    shape = {"name": "circle", "cx": 20, "cy": 15, "r": 4.5}
    region = {"shape_attributes": shape, "region_attributes": {"kind": "coin"}}
    path = write_json(folder / "1.json", {"a": {"filename": "a.jpg", "regions": [region]}})
    (sample,) = listed(opened(path, mapping="via")).values()
    assert (sample.objects.labels, in_pixels(sample)) == (("coin",), [[15.5, 10.5, 24.5, 19.5]])


def test_a_region_of_via_with_several_attributes_has_no_class(folder, opened, listed):
    shape = {"name": "rect", "x": 1, "y": 2, "width": 3, "height": 4}
    good = {"shape_attributes": shape, "region_attributes": {"kind": "coin"}}
    region = {"shape_attributes": shape, "region_attributes": {"kind": "coin", "color": "red"}}
    images = {n: {"filename": f"{n}.jpg", "regions": [one]} for n, one in {"a": good, "b": region}.items()}
    samples = listed(opened(write_json(folder / "1.json", images), mapping="via"))
    assert samples["a.jpg"].failure is None
    assert samples["b.jpg"].failure[1] == "`class` finds \"['coin', 'red']\"; expected one class"


def test_the_words_of_icdar_are_a_column(folder, opened, listed):
    (folder / "gt_a.txt").write_text("﻿0,0,9,0,9,9,0,9,EXIT, 12\n1,1,2,1,2,2,1,2,###\n", encoding="utf-8")
    (sample,) = listed(opened(folder, mapping="icdar2015", columns=frozenset({"texts"}))).values()
    assert (sample.columns, sample.objects.labels) == ({"texts": ["EXIT, 12"]}, ("text",))


# Classes, splits, labels


def test_classes_of_a_mapping_are_in_the_order_of_their_numbers(folder, opened, listed):
    source = opened(write_kitti(folder), mapping="kitti")
    assert (source.class_names, source.labels_may_be_indices) == ((), True)
    for names in ("{3: dog, 1: cat}", "[{id: 1, name: cat}, {id: 3, name: dog}]", "names.txt"):
        (folder / "names.txt").write_text("1: cat\n3: dog\n")
        (folder / "my.yaml").write_text(f"{MINE}class_names: {names}")
        write_json(folder / "a.json", {"image": "a.jpg", "objects": [{"name": n, **SIDES} for n in (3, "1")]})
        source = opened(folder / "a.json", mapping=str(folder / "my.yaml"))
        assert source.class_names == ("cat", "dog")
        assert listed(source)["a.jpg"].objects.labels == ("dog", "cat")


SIDES = {"x": 1, "y": 2, "w": 3, "h": 4}


def test_a_document_of_other_kinds_alone_is_refused(folder, opened):
    spot = {"label": "x", "points": [[1, 2], [3, 4]], "shape_type": "circle"}
    write_json(folder / "a.json", {"imagePath": "a.jpg", "shapes": [spot, spot]})
    with refused("unfit_mapping", "reads none of 2 elements, which are of other kinds"):
        list(opened(folder / "a.json", mapping="labelme").samples())


def test_a_class_without_a_name_rejects_its_sample(folder, opened, listed):
    (folder / "my.yaml").write_text(f"{MINE}samples: '[]'\nclass_names: [cat, dog]\n")
    items = [{"image": f"{n}.jpg", "objects": [{"name": number, **SIDES}]} for n, number in (("a", 1), ("b", 7))]
    samples = listed(opened(write_json(folder / "1.json", items), mapping=str(folder / "my.yaml")))
    assert samples["a.jpg"].objects.labels == ("dog",)
    assert samples["b.jpg"].failure == ("unknown_class", "`class_names` has no '7'")


def test_a_sample_without_a_split_is_in_that_of_others_without_one(folder, opened, listed):
    lines = [{"image": "a.jpg", "fold": "val"}, {"image": "b.jpg", "fold": ""}, {"image": "c.jpg"}]
    (folder / "my.yaml").write_text("image: image\nsplit: fold\nlabel: fold\n")
    source = opened(write_lines(folder / "1.jsonl", lines), mapping=str(folder / "my.yaml"))
    assert [sample.split for sample in listed(source).values()] == ["val", None, None]
    assert source.split_column == "split"


def test_columns_and_labels_of_samples(mapped):
    text = "image: image\nlabel: kind\ncolumns:\n  seconds: times.spent\n  tags: tags[].name\n"
    document = {"image": "a.jpg", "kind": " cat ", "times": {"spent": 1.5}, "tags": [{"name": "a"}, {"name": "b"}]}
    (sample,) = mapped(document, text, columns=frozenset({"seconds", "tags"})).values()
    assert (sample.label, sample.columns) == ("cat", {"seconds": 1.5, "tags": ["a", "b"]})


# Documents and images


def test_texts_without_annotations_are_not_documents(folder, opened, listed):
    write_kitti(folder)
    (folder / "classes.txt").write_text("cat\ndog\n")
    source = opened(folder, mapping="kitti")
    samples = listed(source)
    assert sorted(samples) == sorted(IMAGES)
    assert samples["c.jpg"].objects.labels == ()
    assert source.skipped.counts["without annotations"] == 2


def test_annotations_of_an_image_that_is_not_there_are_counted(folder, opened, listed):
    write_labelme(folder)
    (folder / "b.jpg").unlink()
    (folder / "other.jpg").write_bytes(b"pixels")
    source = opened(folder, mapping="labelme")
    samples = listed(source)
    assert [key for key, sample in samples.items() if sample.failure] == ["..\\photos\\b.jpg"]
    assert samples["..\\photos\\b.jpg"].failure == ("unreadable", "no image of the name '..\\\\photos\\\\b.jpg'")
    (unmatched,) = source.unmatched
    assert (unmatched.count, unmatched.total) == (1, 4)
    assert "1 of 4 images have no annotation, and are left out" in source.notes


@each(
    "name, expected",
    [
        ("a.jpg", "one/a.jpg"),
        ("one/a.jpg", "one/a.jpg"),
        ("/home/me/data/two/b.jpg", "two/b.jpg"),
        ("C:\\Users\\me\\two\\b.jpg", "two/b.jpg"),
        ("https://host.example/x/two/b.jpg?token=1/2", "two/b.jpg"),
        ("s3://bucket/two/b.jpg", "two/b.jpg"),
        ("/data/upload/4/0a1b2c3d-a.jpg", "one/a.jpg"),
        ("/data/local-files/?d=x/two/b.jpg", "two/b.jpg"),
        ("two words.jpg", "two/two words.jpg"),
        ("two%20words.jpg", "two/two words.jpg"),
        ("file:///x/two%20words.jpg", "two/two words.jpg"),
        ("two/same.jpg", "two/same.jpg"),
        ("a", "one/a.jpg"),
        ("v1.2", "two/v1.2.png"),
        ("../../etc/passwd", None),
        ("/etc/passwd", None),
        ("../one/a.jpg", "one/a.jpg"),
        ("", None),
        ("a.jpg/", "one/a.jpg"),
        ("\0", None),
    ],
)
def test_an_image_is_found_by_the_end_of_its_path(name, expected, folder, touch, opened):
    touch("one/a.jpg", "two/b.jpg", "two/two words.jpg", "one/same.jpg", "two/same.jpg", "two/v1.2.png")
    for image in IMAGES:
        (folder / image).unlink(missing_ok=True)
    lines = [{"image": "one/a.jpg"}, {"image": name}]
    (folder / "my.yaml").write_text("image: image\n")
    first, second = opened(write_lines(folder / "1.jsonl", lines), mapping=str(folder / "my.yaml")).samples()
    assert first.failure is None
    if expected is None:
        assert second.failure is not None
        assert second.uri is None
    else:
        assert (second.failure, second.key) == (None, expected)


def test_a_name_in_two_folders_is_that_beside_the_document_or_refused(folder, touch, opened, listed):
    touch("one/img/same.jpg", "two/img/same.jpg")
    for place in ("one", "two"):
        write_json(folder / place / "ann" / "same.jpg.json", {"size": {}, "objects": []})
    samples = listed(opened(folder, mapping="supervisely"))
    assert sorted(samples) == ["one/img/same.jpg", "two/img/same.jpg"]
    lines = [{"image": "a.jpg"}, {"image": "same.jpg"}]
    (folder / "my.yaml").write_text("image: image\n")
    samples = listed(opened(write_lines(folder / "1.jsonl", lines), mapping=str(folder / "my.yaml")))
    assert samples["same.jpg"].failure == (
        "invalid_row",
        "'same.jpg' may be 'one/img/same.jpg', 'two/img/same.jpg'",
    )


def test_inputs_of_splits_have_their_own_images(tmp_path, opened, listed):
    for split in ("train", "test"):
        for place in ("labels", "photos"):
            (tmp_path / place / split).mkdir(parents=True)
        write_json(tmp_path / "labels" / split / "a.json", {"imagePath": "a.jpg", "shapes": []})
        (tmp_path / "photos" / split / "a.jpg").write_bytes(b"pixels")
    inputs = [f"{split}={tmp_path / 'labels' / split}" for split in ("train", "test")]
    roots = tuple(f"{split}={tmp_path / 'photos' / split}" for split in ("train", "test"))
    samples = listed(opened(*inputs, mapping="labelme", image_root=roots))
    found = {key: (sample.split, sample.uri) for key, sample in samples.items()}
    assert found == {f"{one}/a.jpg": (one, str(tmp_path / "photos" / one / "a.jpg")) for one in ("train", "test")}
    with refused("unmatched_roots", "`image_root` names folders of train"):
        opened(*inputs, mapping="labelme", image_root=roots[:1])


# Damage


def test_a_damaged_line_and_a_damaged_document_reject_their_samples(folder, opened, listed):
    (folder / "my.yaml").write_text("image: image\n")
    (folder / "1.jsonl").write_text('{"image": "a.jpg"}\n{"image": \n[1e999]\n\n{"image": "b.jpg"}\n')
    samples = listed(opened(folder / "1.jsonl", mapping=str(folder / "my.yaml")))
    assert [key for key, sample in samples.items() if not sample.failure] == ["a.jpg", "b.jpg"]
    failures = [sample.failure[1][:26] for sample in samples.values() if sample.failure]
    assert failures == ["1.jsonl: line 2: not valid", "1.jsonl: line 3: not valid"]
    write_labelme(folder)
    (folder / "b.json").write_bytes(b"\x80{")
    samples = listed(opened(folder, mapping="labelme"))
    assert samples["b.json"].failure[1].startswith("b.json: not valid JSON")


def with_object(**values):
    return json.dumps({"image": "b.jpg", "objects": [{"name": "x", "x": 1, "y": 1, "w": 1, "h": 1, **values}]})


def test_a_cell_that_is_not_json_rejects_its_row(folder, opened, listed):
    row = '{},123,"{{}}",1,0,"{}","{{""type"": ""x""}}"\n'
    shape = '{""name"": ""rect"", ""x"": 1, ""y"": 2, ""width"": 3, ""height"": 4}'
    header = "filename,file_size,file_attributes,region_count,region_id,region_shape_attributes,region_attributes\n"
    (folder / "via.csv").write_text(header + row.format("a.jpg", shape) + row.format("b.jpg", "{"))
    first, second = opened(folder / "via.csv", mapping="via_csv").samples()
    assert (first.key, first.failure) == ("a.jpg", None)
    assert second.failure[1].startswith("via.csv: `samples: ")


def test_an_image_of_a_heading_that_is_not_there_is_counted(folder, opened):
    (folder / "x_bbx_gt.txt").write_text("0--x/a.jpg\n0\n0 0 0 0 0 0 0 0 0 0\n0--x/none.jpg\n0\n0 0 0 0 0 0 0 0 0 0\n")
    source = opened(folder, mapping="widerface")
    assert [sample.failure and sample.key for sample in source.samples()] == [None, "0--x/none.jpg"]


HOSTILE = {
    "deep": ("[" * 100_000, "not valid JSON"),
    "deep points": (with_object(x=[]).replace("[]", "[" * 900 + "]" * 900), "nested too deeply"),
    "huge": (with_object(x=7).replace("7", "1e999"), "not valid JSON"),
    "long": (with_object(x=10**400), "`box` finds"),
    "no number": (with_object(x=math.nan), "`box` finds"),
    "missing": (with_object(x=None), "`box` finds"),
    "surrogate": ('{"image": "\\ud800.jpg", "objects": []}', "lone surrogate"),
    "surrogate class": (with_object(name="\udfff"), "lone surrogate"),
    "object as class": (with_object(name={"a": 1}), "has an object"),
    "many": ('{"image": "b.jpg", "objects": [' + "{}," * 100_000 + "{}]}", "more than 100,000 objects"),
}


@each("name", HOSTILE)
def test_hostile_lines_reject_their_samples(name, folder, opened):
    text, message = HOSTILE[name]
    (folder / "my.yaml").write_text(MINE)
    (folder / "1.jsonl").write_text('{"image": "a.jpg", "objects": []}\n' + text + "\n")
    good, bad = opened(folder / "1.jsonl", mapping=str(folder / "my.yaml")).samples()
    assert good.failure is None
    assert message in bad.failure[1]


def test_entities_in_xml_are_refused(folder, opened):
    text = '<!DOCTYPE a [<!ENTITY b "x">]><annotations><image name="a.jpg"/></annotations>'
    (folder / "a.xml").write_text(text)
    with refused("invalid_file", "a document type"):
        list(opened(folder / "a.xml", mapping="cvat").samples())


def test_a_damaged_document_of_several_samples_is_refused(folder, opened):
    (folder / "a.json").write_text(json.dumps([{"image": f"{letter}.jpg"} for letter in "abcd"] * 20)[:-5])
    (folder / "my.yaml").write_text("samples: '[]'\nimage: image\n")
    with refused("invalid_file", "a.json` cannot be read: not valid JSON"):
        list(opened(folder / "a.json", mapping=str(folder / "my.yaml")).samples())


# Mappings that are wrong


@each(
    "text, message",
    [
        ("[1, 2]", "it is '[1, 2]'; expected keys and values such as `image: file_name`"),
        ("image: a\nimages: b", "unknown key 'images'; expected documents, columns, samples, image, size"),
        ("image: a\nobjects: [{box: x, size: 3}]", "unknown key 'size'; expected objects, class, group, box"),
        ("objects: a", "`image` is missing; expected an expression for the image's name, or `stem`"),
        ("image: a[", "`image: a[` is not a JMESPath expression: "),
        ("image: 3", "`image` is 3; expected a JMESPath expression, as text"),
        ("image: a\nclass: b\nbox: c", "`form` is missing: the numbers of `box` may be xyxy, xywh, cxcywh"),
        ("image: a\nclass: b\nbox: c\nform: yxyx", "`form` is 'yxyx'; expected xyxy, xywh, cxcywh, polygon, quad"),
        ("image: a\nclass: b\nbox: [c, d]\nform: xyxy", "`box` has 2 expressions; expected 4"),
        ("image: a\nclass: b\nbox: c\nform: xyxy\nunit: mm", "`unit` is 'mm'; expected pixels, share, percent"),
        ("image: a\nobjects: b\nbox: c\nform: xyxy", "`class` is missing; one class of all objects is written as"),
        ("image: a\nobjects: b\nclass: c", "the objects have neither `box` nor `polygon` nor `points`"),
        ("image: a\nclass: b\npolygon: c\nangle: d", "`angle` needs `box`, which the objects do not have"),
        ("image: a\ncolumns: word", "`columns` is neither a list of the names of cells nor a mapping"),
        ("image: a\nobjects: [word]", "an element of `objects` is 'word'; expected keys such as `objects`, `box`"),
        ("image: a\nsize: [b]", "`size` has 1 expressions; expected 2"),
        ("image: [", "expected the node content"),
        (
            "image: a\nclass: b\nform: xyxy\nobjects: [{box: c}, {box: d, unit: share}]",
            "the kinds of `objects` have pixels and shares; expected one unit",
        ),
    ],
)  # fmt: skip
def test_a_wrong_mapping_is_refused(text, message, folder, opened):
    (folder / "my.yaml").write_text(text)
    with refused("invalid_mapping", message):
        opened(folder, mapping=str(folder / "my.yaml"))


def test_an_unknown_mapping_is_refused(folder, opened):
    with refused("unknown_mapping", "`mapping=labelmee`: expected a file of YAML (.yaml), or one of bdd100k, createml"):
        opened(folder, mapping="labelmee")
    with refused("not_found", "there is no such file"):
        opened(folder, mapping=str(folder / "my.yaml"))
    with refused("missing_setting", "`source=documents` needs `mapping`"):
        opened(folder, source="documents")
    with refused("not_found", "has no document *.xml, as the mapping cvat says"):
        opened(folder, mapping="cvat")


@each(
    "document, text, message",
    [
        (
            {"image": "a.jpg", "objects": [{"name": "x", "x": 1}]},
            MINE,
            "fits none of the first 1 samples: 'box' finds",
        ),
        ({"image": "a.jpg", "objects": [{"name": "x", **SIDES}]}, f"{MINE}samples: things[]", "finds no sample"),
        ({"image": "a.jpg", "object": []}, MINE, "finds no list of objects in 1 samples. In the first document, "),
        (
            {"image": "a.jpg", "objects": [{"name": "x", "x": 0.1, "y": 0.2, "w": 0.3, "h": 0.4}]},
            MINE,
            "says pixels, and all boxes are within 0 to 1; write `unit: share`",
        ),
        (
            {"image": "a.jpg", "objects": [{"name": "x", "x": 10, "y": 20, "w": 30, "h": 40}]},
            f"{MINE}unit: share",
            "says `unit: share`, and its boxes reach beyond their images",
        ),
        (
            {"image": "z.jpg", "objects": [{"name": "x", **SIDES}]},
            MINE,
            "names the image 'z.jpg', and none of the first 1 images is below the folder of the documents",
        ),
        ({"picture": "a.jpg", "objects": [{"name": "x", **SIDES}]}, MINE, "samples: 'image: image' finds nothing. In"),
        (
            {"image": "a.jpg", "objects": [{"label": "x", **SIDES}]},
            MINE,
            "`class: name` finds nothing; `box: x` finds '1'; `box: y` finds '2'",
        ),
        ({"image": "a.jpg", "objects": 3}, MINE.replace("s: objects", "s: keys(objects)"), "`objects: keys"),
    ],
)  # fmt: skip
def test_a_mapping_that_does_not_fit_says_what_it_finds(document, text, message, mapped):
    with refused("unfit_mapping", message):
        mapped(document, text)


def test_rows_of_an_image_are_one_sample_and_documents_are_not(folder, opened):
    source = opened(write_tfod(folder), mapping="tfod")
    assert source.groups_rows
    assert [ref.key for ref in source.samples()] == ["a.jpg"] * 2 + ["b.jpg"] + ["d.jpg"] * 3 + ["c.jpg"]
    assert not opened(write_labelme(folder), mapping="labelme").groups_rows


def test_a_turn_is_the_same_as_that_of_the_truth():
    assert turned((0, 0, 2, 1), 90, (0, 0)) == pytest.approx([0, 0, 0, 2, -1, 2, -1, 0])
    assert math.isclose(NUMBERS["cat"] + corners_of((0, 0, 1, 1))[2], 5)
