"""Polygons of objects, from annotations to readers; and landmarks beside them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from beam_tfrecords import open_dataset
from tests import tensorflow as tf
from tests.beam_pipelines.dataset_checks import find_all
from tests.beam_pipelines.test_verify_records import rewrite_shard, with_feature
from tests.refusals import Refusal
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow

SIZE = (60, 40)
# The corners of the box 20, 12, 44, 28 after a turn by 25 degrees around its center.
TURN = complex(math.cos(math.radians(25)), math.sin(math.radians(25)))
CORNERS = [complex(32, 20) + TURN * complex(*one) for one in ((-12, -8), (12, -8), (12, 8), (-12, 8))]
POINTS = [[one.real, one.imag] for one in CORNERS]
QUAD = [side for point in POINTS for side in point]
FIVE = [5, 5, 30, 4, 50, 20, 20, 36, 2, 20]
# The middle 40 of 60 columns.
CROP = ["--image_size=40x40", "--resize_mode=crop"]
LAYOUT = {
    "image": "image.encoded", "objects/bbox": "objects.bbox", "objects/label": "objects.index",
    "objects/polygon": "objects.polygon", "objects/polygon_points": "objects.polygon_points",
}  # fmt: skip


def shares(corners, size=SIZE) -> list[float]:
    return [side / size[n % 2] for n, side in enumerate(corners)]


def cropped(corners) -> list[list[float]]:
    return [[(x - 10) / 40, y / 40] for x, y in zip(corners[::2], corners[1::2], strict=True)]


@pytest.fixture
def yolo(tmp_path, save, picture):
    """Oriented boxes of YOLO, and an object of five points."""
    for name in "ab":
        save(tmp_path / f"in/images/{name}.png", picture(ord(name), SIZE[1], SIZE[0]))
    rows = {"a": [(1, QUAD)], "b": [(0, FIVE), (1, QUAD), (0, [1, 1, 8, 1, 8, 8, 1, 8])]}
    (tmp_path / "in/labels").mkdir()
    for name, objects in rows.items():
        text = "".join(f"{number} {' '.join(f'{side:.9f}' for side in shares(one))}\n" for number, one in objects)
        (tmp_path / f"in/labels/{name}.txt").write_text(text)
    (tmp_path / "in/data.yaml").write_text("train: images\nnames: [plane, ship]\n")
    return tmp_path / "in/data.yaml"


def by_name(examples, name="image/filename"):
    return {(one[name].decode() if isinstance(one[name], bytes) else one[name]): one for one in examples}


def test_polygons_follow_the_image_and_keep_their_points(yolo, tmp_path, build):
    out = build(tmp_path / "out", f"--input={yolo}", "--layout=detection_polygons", *CROP)
    found = by_name(open_dataset(out).records("train", form="features"))
    assert found["a.png"]["image/object/polygon"] == pytest.approx(np.array(cropped(QUAD)), abs=1e-5)
    # The last object is left of the crop; the first keeps the points beyond it, while its box ends there.
    both = found["b.png"]
    assert both["image/object/polygon_points"].tolist() == [5, 4]
    assert both["image/object/polygon"] == pytest.approx(np.array(cropped(FIVE) + cropped(QUAD)), abs=1e-5)
    assert both["image/object/bbox/xmin"][0] == 0
    assert both["image/object/polygon"][:, 0].min() < 0
    assert find_all(out) == []


def test_readers_return_the_points_of_all_objects(yolo, tmp_path, build):
    out = build(tmp_path / "out", f"--input={yolo}", "--layout=detection_polygons", "--image_size=40")
    dataset = open_dataset(out)
    plain = by_name(dataset.records("train"))
    (batch,) = load(out, "train", batch_size=2, image_size=32, resize_mode="crop")
    points, counts = batch["image/object/polygon"], batch["image/object/polygon_points"]
    for name, *rows in zip(batch["image/filename"].numpy(), points, counts, strict=True):
        ours = plain[name.decode()]
        assert ours["image/object/polygon"].shape == (ours["image/object/polygon_points"].sum(), 2)
        if len(rows[1]) == len(ours["image/object/polygon_points"]):
            ragged = tf.RaggedTensor.from_row_lengths(rows[0], rows[1])
            assert [len(one) for one in ragged] == ours["image/object/polygon_points"].tolist()
    per_object = np.split(
        plain["b.png"]["image/object/polygon"], plain["b.png"]["image/object/polygon_points"].cumsum()
    )
    assert [len(one) for one in per_object] == [5, 4, 4, 0]


def test_a_layout_of_ones_own_has_both_features_and_tfds_reads_them(yolo, tmp_path, convert, build):
    spec = {"input": str(yolo), "layout": LAYOUT, "image_encoding": "png"}
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    out = build(tmp_path / "out", f"--spec={tmp_path / 'spec.yaml'}")
    features = json.loads((out / "features.json").read_text())["featuresDict"]["features"]["objects"]
    # Objects are no sequence of dictionaries: there are more points than boxes.
    assert features["pythonClassName"].endswith("FeaturesDict")
    polygon = features["featuresDict"]["features"]["polygon"]["sequence"]["feature"]
    assert polygon["tensor"]["shape"] == {"dimensions": ["2"]}
    del spec["layout"]["objects/polygon_points"]
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    ran = convert(f"--spec={tmp_path / 'spec.yaml'}", f"--output={tmp_path / 'no'}")
    ran.refused(Refusal("invalid_layout", "layout", says=["polygon_points: objects.polygon_points"]))


def test_a_dataset_of_polygons_is_an_input_that_also_has_masks(yolo, tmp_path, build):
    first = build(tmp_path / "first", f"--input={yolo}", "--layout=detection_polygons", "--image_encoding=png")
    words = [f"--input={first}", "--name=x", "--image_encoding=png"]
    again = build(tmp_path / "again", *words, "--layout=detection_polygons")
    ours, theirs = (by_name(open_dataset(path).records("train")) for path in (first, again))
    for name, example in ours.items():
        for feature in ("image/object/polygon", "image/object/polygon_points"):
            np.testing.assert_array_equal(example[feature], theirs[name][feature])
    masks = by_name(open_dataset(build(tmp_path / "masks", *words, "--layout=detection_masks")).records("train"))
    assert masks["a.png"]["image/object/mask"].sum() == pytest.approx(24 * 16, abs=12)


@pytest.mark.parametrize(
    ("name", "values", "problem"),
    [
        ("polygon", {"float_list": [0.5] * 6}, "has 6 coordinates; its polygons have"),
        ("polygon_points", {"int64_list": [4] * 9}, "is of 9 objects"),
    ],
)
def test_polygons_of_other_numbers_of_points_are_found(name, values, problem, yolo, tmp_path, build):
    out = build(tmp_path / "out", f"--input={yolo}", "--layout=detection_polygons")
    rewrite_shard(out, 0, lambda number, row, example: with_feature(example, f"image/object/{name}", **values))
    assert any(problem in finding for finding in map(str, find_all(out)))


XML = (
    "<annotation><filename>{name}</filename><size><width>60</width><height>40</height></size><object><name>ship</name>"
    "<robndbox><cx>32</cx><cy>20</cy><w>24</w><h>16</h><angle>{turn}</angle></robndbox></object></annotation>"
)


def write_as(kind, root, name) -> None:
    """Writes the oriented box of an image as a format without settings."""
    row = " ".join(f"{side:.4f}" for side in QUAD)
    texts = {
        "yolo": (f"labels/{name}.txt", f"0 {' '.join(f'{side:.7f}' for side in shares(QUAD))}\n"),
        "yolo beside": (f"images/{name}.txt", f"0 {' '.join(f'{side:.7f}' for side in shares(QUAD))}\n"),
        "dota without difficult": (f"labels/{name}.txt", f"{row} ship\n"),
        "dota": (f"labelTxt/{name}.txt", f"{row} ship 0\n"),
        "icdar2015": (f"gt/gt_{name}.txt", f"{row.replace(' ', ',')},word\n"),
        "rolabelimg": (f"xml/{name}.xml", XML.format(name=f"{name}.png", turn=math.radians(25))),
        "msra_td500": (f"images/{name}.gt", f"0 0 20 12 24 16 {math.radians(25)}\n"),
        "labelme": (
            f"images/{name}.json",
            json.dumps(
                {
                    "imagePath": f"{name}.png", "imageData": None, "imageWidth": 60, "imageHeight": 40,
                    "shapes": [{"label": "ship", "points": POINTS, "shape_type": "rotation"}],
                }
            ),
        ),
    }  # fmt: skip
    path = root / texts[kind][0]
    path.parent.mkdir(exist_ok=True)
    path.write_text(texts[kind][1])


@pytest.mark.parametrize(
    "kind",
    ["yolo", "yolo beside", "dota", "dota without difficult", "icdar2015", "rolabelimg", "msra_td500", "labelme"],
)  # fmt: skip
def test_oriented_boxes_are_asked_about_with_a_command_that_reads_them(kind, tmp_path, save, picture, convert):
    for name in ("img_1", "img_2"):
        save(tmp_path / f"in/images/{name}.png", picture(1, 40, 60))
        write_as(kind, tmp_path / "in", name)
    ran = convert(f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}")
    assert ran.code == 2
    name = kind.split()[0]
    meant = {"yolo": "--source=yolo", "rolabelimg": "--source=voc"}.get(name, f"--mapping={name}")
    (command,) = [line.split() for line in ran.err.splitlines() if meant in line and " convert " in line]
    words = [word for word in command[2:] if not word.startswith("--layout")]
    assert convert(*words, "--layout=detection_polygons").code == 0
    for record in open_dataset(tmp_path / "out").records("train"):
        assert record["image/object/polygon"] == pytest.approx(np.reshape(shares(QUAD), (4, 2)), abs=1e-5)


TABLES = {
    "corners": ("x1,y1,x2,y2,x3,y3,x4,y4", QUAD, "there are more than two corners"),
    "corners from 0": ("x0,y0,x1,y1,x2,y2,x3,y3", QUAD, "there are more than two corners"),
    "angle": ("cx,cy,w,h,angle", (32, 20, 24, 16, 25), "angle turns the boxes"),
}


@pytest.mark.parametrize("sides", ["xmin;ymin;xmax;ymax", "x;y;width;height", "cx;cy;w;h"])
def test_boxes_with_decimal_commas_are_refused(sides, tmp_path, save, picture, convert):
    save(tmp_path / "a.png", picture(1, 40, 60))
    table = tmp_path / "boxes.csv"
    table.write_text(f"image;label;{sides}\na.png;ship;1,5;2;10,25;12\n")
    ran = convert(f"--input={table}", f"--output={tmp_path / 'out'}")
    ran.refused(Refusal("decimal_commas", says=["such as '1,5'; expected decimal points, as in '1.5'"]))


@pytest.mark.parametrize("name", TABLES)
def test_columns_of_boxes_that_are_not_upright_are_refused(name, tmp_path, save, picture, convert):
    names, numbers, problem = TABLES[name]
    save(tmp_path / "a.png", picture(1, 40, 60))
    table = tmp_path / "boxes.csv"
    table.write_text(f"image,label,{names}\na.png,ship,{','.join(map(str, numbers))}\n")
    ran = convert(f"--input={table}", f"--output={tmp_path / 'out'}")
    ran.refused(Refusal("turned_boxes", "mapping", "box_columns", says=[problem]))
    words = [f"--input={table}", f"--output={tmp_path / 'out'}"]
    if name == "angle":
        (tmp_path / "mine.yaml").write_text(
            "samples: '[]'\nimage: image\nclass: label\nobjects: '[@]'\nbox: [cx, cy, w, h]\nform: cxcywh\n"
            "angle: angle\n"
        )
        words.append(f"--mapping={tmp_path / 'mine.yaml'}")
    else:
        assert "--mapping=quads --layout=detection_polygons" in ran.err
        words.append("--mapping=quads")
    assert convert(*words, "--layout=detection_polygons").code == 0
    (record,) = open_dataset(tmp_path / "out").records("train")
    assert record["image/object/polygon"] == pytest.approx(np.reshape(shares(QUAD), (4, 2)), abs=1e-5)


def test_landmarks_beside_images_in_folders_are_no_notes(tmp_path, save, picture, convert):
    """The folders of 300-W may be classes, and their landmarks decide that this is asked."""
    for folder in ("01_Indoor", "02_Outdoor"):
        for name in "ab":
            save(tmp_path / f"in/{folder}/{name}.png", picture(1, 40, 60))
            points = "20.5 10.5\n30.5 20.5\n"
            (tmp_path / f"in/{folder}/{name}.pts").write_text(f"version: 1\nn_points:  2\n{{\n{points}}}\n")
    ran = convert(f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}")
    assert ran.code == 2
    (command,) = [line.split() for line in ran.err.splitlines() if "--mapping=pts" in line and " convert " in line]
    assert "--layout=detection_keypoints" in command
    assert convert(*command[2:]).code == 0
    for record in open_dataset(tmp_path / "out").records("train"):
        # The center of the first pixel is (1, 1).
        assert record["image/object/keypoint/x"] == pytest.approx([20 / 60, 30 / 60])
        assert record["image/object/keypoint/y"] == pytest.approx([10 / 40, 20 / 40])


@pytest.mark.parametrize("first", [0, 1])
def test_more_points_than_corners_are_landmarks(first, tmp_path, save, picture, convert):
    """They are neither a box of the first two nor a quad, and the note says how they are stored."""
    names = [f"{axis}{number}" for number in range(first, first + 5) for axis in "xy"]
    rows = [f"image,label,{','.join(names)}"]
    for name in "abcd":
        save(tmp_path / f"{name}.png", picture(ord(name), 40, 60))
        rows.append(f"{name}.png,{'left' if name < 'c' else 'right'},{','.join(map(str, FIVE))}")
    (tmp_path / "faces.csv").write_text("\n".join(rows))
    ran = convert(f"--input={tmp_path / 'faces.csv'}", f"--output={tmp_path / 'out'}")
    assert ran.code == 0
    dataset = open_dataset(tmp_path / "out")
    assert dataset.class_names == ("left", "right")
    assert f"columns.{names[0]}..{names[-1]} with `moves: points`" in str(dataset.manifest["ledger"])
    field = f"columns.{names[0]}..{names[-1]}"
    layout = {"image": "image.encoded", "face": {"field": field, "type": "float", "moves": "points"}}
    spec = {"input": str(tmp_path / "faces.csv"), "layout": layout}
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    assert convert(f"--spec={tmp_path / 'spec.yaml'}", f"--output={tmp_path / 'faces'}").code == 0
    for record in open_dataset(tmp_path / "faces").records("train"):
        assert record["face"] == pytest.approx(shares(FIVE))
