"""What a mapping can say, and how a source of documents reads it."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import random

import numpy as np
import pytest

from beam_tfrecords.errors import RequestError
from tests.each import each
from tests.refusals import Refusal
from tests.transforms.sources.documents.formats import (
    IMAGES,
    NUMBERS,
    corners_of,
    in_pixels,
    points_of,
    polygons_of,
    size_of,
    turned,
    write_json,
    write_kitti,
    write_labelme,
    write_lines,
    write_tfod,
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


@each(
    "form, angle, turn, is_corner",
    [
        ("xywh", "turn", 25, True),
        ("xywh", "{value: turn, around: center}", 25, False),
        ("cxcywh", "{value: turn, unit: radians}", math.radians(25), False),
        ("xyxy", "{value: turn, around: corner, unit: degrees}", 25, True),
        ("cxcywh", "{value: turn, unit: radians, clockwise: false}", -math.radians(25), False),
    ],
)
def test_an_angle_has_a_unit_a_center_and_a_direction(form, angle, turn, is_corner, mapped):
    box = (10, 8, 30, 16)
    numbers, _ = numbers_of(box, form, 0)
    text = f"image: image\nobjects: objects\nclass: name\nbox: at\nform: {form}\nangle: {angle}\norigin: 0.5"
    shifted = [number + (0.5 if form == "xyxy" or n < 2 else 0) for n, number in enumerate(numbers)]
    document = {"image": "a.jpg", "objects": [{"name": "x", "at": shifted, "turn": turn}]}
    (sample,) = mapped(document, text, needs_polygons=True).values()
    expected = turned(box, 25, (10, 8) if is_corner else (20, 12))
    assert polygons_of(sample) == [[pytest.approx(expected, abs=1e-4)]]


def test_attributes_of_objects_are_zero_or_one(mapped):
    values = ["1", "0", True, False, 2, None]
    objects = [{"name": "x", "at": [1, 2, 3, 4], "hard": value} for value in values]
    text = "image: image\nobjects: objects\nclass: name\nbox: at\nform: xyxy\nattributes: {difficult: hard}"
    (sample,) = mapped({"image": "a.jpg", "objects": objects}, text).values()
    assert sample.objects.values == {"difficult": (1, 0, 1, 0, 1, 0)}


def test_ranges_name_cells_and_points(mapped):
    text = "columns: [image, x0..x5, class]\nsamples: '[]'\nimage: image\nclass: class\npoints: x0..x5\norigin: -0.5"
    (sample,) = mapped("a.jpg 1 2 3 4 5 6 cat\n", text, name="a.txt", needs_keypoints=True).values()
    assert np.frombuffer(sample.objects.keypoints[0], "<f4").tolist() == [1.5, 2.5, 2, 3.5, 4.5, 2, 5.5, 6.5, 2]
    assert in_pixels(sample) == [[1.5, 2.5, 5.5, 6.5]]


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


# Classes, splits, labels


def test_classes_of_a_mapping_are_in_the_order_of_their_numbers(folder, opened, listed):
    source = opened(write_kitti(folder), mapping="kitti")
    assert (source.description.labels.names, source.description.labels.may_be_indices) == ((), True)
    for names in ("{3: dog, 1: cat}", "[{id: 1, name: cat}, {id: 3, name: dog}]", "names.txt"):
        (folder / "names.txt").write_text("1: cat\n3: dog\n")
        (folder / "my.yaml").write_text(f"{MINE}class_names: {names}")
        write_json(folder / "a.json", {"image": "a.jpg", "objects": [{"name": n, **SIDES} for n in (3, "1")]})
        source = opened(folder / "a.json", mapping=str(folder / "my.yaml"))
        assert source.description.labels.names == ("cat", "dog")
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
    assert source.description.split_column == "split"


def test_expressions_of_a_mapping_that_find_nothing_are_named(folder, opened, listed):
    lines = [{"image": "a.jpg", "seconds": 1}, {"image": "b.jpg", "fold": "val"}]
    (folder / "my.yaml").write_text(
        "image: image\nsplit: flod\nclass_names: names\ncolumns: {time: seconds, day: date}\n"
    )
    source = opened(write_lines(folder / "1.jsonl", lines), mapping=str(folder / "my.yaml"))
    listed(source)
    assert [note for note in source.notes if "nothing" in note] == [
        "`split: flod` of the mapping my.yaml finds nothing in 2 samples",
        "`class_names: names` of the mapping my.yaml finds nothing in 2 samples",
        "`columns.day: date` of the mapping my.yaml finds nothing in 2 samples",
    ]


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


@each("mapping", ["label: kind", "label: kind\nsplit: fold"])
def test_names_of_documents_of_several_samples_are_splits_if_all_are(mapping, folder, opened, listed):
    (folder / "my.yaml").write_text(f"documents: '*.jsonl'\nimage: image\n{mapping}\n")
    write_lines(folder / "det_train.jsonl", [{"image": "a.jpg", "kind": 1}, {"image": "b.jpg", "kind": 1, "fold": "x"}])
    write_lines(folder / "det_val.jsonl", [{"image": "c.jpg", "kind": 1}])
    source = opened(folder, mapping=str(folder / "my.yaml"))
    own = "x" if "split" in mapping else "train"
    assert [(key, ref.split) for key, ref in listed(source).items()] == [
        ("a.jpg", "train"), ("b.jpg", own), ("c.jpg", "validation"),
    ]  # fmt: skip
    assert source.notes[0] == (
        "splits from the names of the inputs: det_train.jsonl is train, det_val.jsonl is validation"
    )
    write_lines(folder / "more.jsonl", [{"image": "d.jpg", "kind": 1}])
    source = opened(folder, mapping=str(folder / "my.yaml"))
    assert {ref.split for ref in listed(source).values()} == ({None} if own == "train" else {None, "x"})
    (folder / "more.jsonl").unlink()


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


def test_a_comparison_of_a_text_and_a_number_rejects_its_sample(folder, opened):
    (folder / "my.yaml").write_text(f"{MINE}ignore: score > `1`")
    lines = [{"image": f"{letter}.jpg", "objects": [{"score": score}]} for letter, score in (("a", 2), ("b", "high"))]
    good, bad = opened(write_lines(folder / "1.jsonl", lines), mapping=str(folder / "my.yaml")).samples()
    assert good.failure is None
    assert bad.failure[1].startswith("`ignore: score > `1``: '>' not supported")


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
        ("image: a\nimages: b", "unknown key 'images'; expected documents, columns, separator, quotes, samples"),
        ("image: a\nobjects: [{box: x, size: 3}]", "unknown key 'size'; expected objects, class, group, box"),
        ("objects: a", "`image` is missing; expected an expression for the image's name, or `stem`"),
        ("image: a[", "`image: a[` is not a JMESPath expression: "),
        ("image: 3", "`image` is 3; expected a JMESPath expression, as text"),
        ("image: a\nclass: b\nbox: c", "`form` is missing: the numbers of `box` may be xyxy, xywh, cxcywh"),
        ("image: a\nclass: b\nbox: c\nform: yxyx", "`form` is 'yxyx'; expected xyxy, xywh, cxcywh, pixels, polygon"),
        ("image: a\nclass: b\nbox: [c, d]\nform: xyxy", "`box` has 2 expressions; expected 4"),
        ("image: a\nclass: b\nbox: c\nform: xyxy\nunit: mm", "`unit` is 'mm'; expected pixels, share, percent"),
        ("image: a\nobjects: b\nbox: c\nform: xyxy", "`class` is missing; one class of all objects is written as"),
        ("image: a\nobjects: b\nclass: c", "the objects have neither `box` nor `polygon` nor `points`"),
        ("image: a\nclass: b\npolygon: c\nangle: d", "`angle` needs `box`, which the objects do not have"),
        ("image: a\nclass: b\nbox: c\nform: xywh\nangle: {value: d, unit: grad}", "`unit: degrees` or radians"),
        ("image: a\nclass: b\nbox: c\nform: xywh\nangle: {turn: d}", "unknown key 'turn'"),
        ("image: a\nclass: b\nbox: c\nform: xywh\nangle: {unit: radians}", "`angle` is None; expected a JMESPath"),
        ("image: a\nclass: b\npoints: c\norigin: left", "`origin` is 'left'; expected a number of pixels"),
        ("image: a\nclass: b\npoints: c\nunit: share\norigin: 0.5", "`origin` is 0.5; expected a number of pixels"),
        ("image: a\nclass: b\npoints: x1..y5", "x1..y5 is not a range"),
        ("image: a\nclass: b\npoints: c\nattributes: {posture: d}", "unknown key 'posture'; expected difficult"),
        ("image: a\nclass: b\npoints: c\nattributes: d", "`attributes` is 'd'; expected a mapping of difficult"),
        ("image: a\nquotes: false", "`quotes` is False; expected true, or false with `columns`, the names"),
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
    with refused("unknown_mapping", "`mapping=labelmee`: did you mean 'labelme'?"):
        opened(folder, mapping="labelmee")
    with refused("unknown_mapping", "`mapping=mine`: expected a file of YAML (.yaml), or one of azure, azure_classes"):
        opened(folder, mapping="mine")
    with refused("not_found", "does not exist"):
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
            "does not fit the first sample: 'box' finds",
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
        ({"picture": "a.jpg", "objects": [{"name": "x", **SIDES}]}, MINE, "sample: 'image: image' finds nothing. In"),
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
    assert source.description.groups_rows
    assert [ref.key for ref in source.samples()] == ["a.jpg"] * 2 + ["b.jpg"] + ["d.jpg"] * 3 + ["c.jpg"]
    assert not opened(write_labelme(folder), mapping="labelme").description.groups_rows


def test_a_turn_is_the_same_as_that_of_the_truth():
    assert turned((0, 0, 2, 1), 90, (0, 0)) == pytest.approx([0, 0, 0, 2, -1, 2, -1, 0])
    assert math.isclose(NUMBERS["cat"] + corners_of((0, 0, 1, 1))[2], 5)
