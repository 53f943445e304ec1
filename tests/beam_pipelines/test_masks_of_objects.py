"""Masks that objects have: run lengths and polygons in tables, files for each object, panoptic images of COCO."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from beam_tfrecords import open_dataset
from tests.beam_pipelines.dataset_checks import find_all
from tests.beam_pipelines.listed_records import commands_of
from tests.each import each
from tests.refusals import Refusal

HEIGHT, WIDTH = 30, 44
# Name of an image -> (class, x, y) of its objects, which are 8 x 9 pixels with a hole.
OBJECTS: Mapping[str, Sequence[tuple[str, int, int]]] = {
    "a": [("1", 1, 2), ("3", 20, 5)],
    "b": [("2", 6, 15)],
    "c": [("3", 30, 20), ("3", 4, 3), ("1", 15, 14)],
    "d": [],
}


def mask_of(x: int, y: int) -> np.ndarray:
    """[H, W] bool."""
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[y : y + 9, x : x + 8] = True
    mask[y + 3 : y + 5, x + 2 : x + 4] = False
    return mask


def numbers_of(name: str, number: Callable[[str], int] = int) -> np.ndarray:
    """[H, W] the mask of an image."""
    mask = np.zeros((HEIGHT, WIDTH), int)
    for label, x, y in OBJECTS[name]:
        mask[mask_of(x, y)] = number(label)
    return mask


def runs_of(mask: np.ndarray) -> str:
    """Run lengths as Kaggle's notebooks write them."""
    pixels = np.concatenate([[0], mask.T.ravel(), [0]])
    runs = np.flatnonzero(pixels[1:] != pixels[:-1]) + 1
    runs[1::2] -= runs[::2]
    return " ".join(map(str, runs))


@pytest.fixture
def images(tmp_path, picture, save) -> Path:
    """A folder with the images."""
    for name in OBJECTS:
        save(tmp_path / f"images/{name}.png", picture(ord(name), HEIGHT, WIDTH))
    return tmp_path / "images"


def write_csv(path: Path, rows: Sequence[Sequence[Any]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def save_mask(path: Path, mask: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(mask.astype(np.uint8) * 255).save(path)


def masks_of(out: Path, feature: str = "mask", name: str = "filename", split: str = "train") -> dict[str, np.ndarray]:
    return {one[name][:-4]: one[feature][..., 0] for one in open_dataset(out).records(split)}


def check_numbers(out: Path, number: Callable[[str], int] = int, *, names: str = "abcd", split: str = "train") -> None:
    """Checks the mask of each image."""
    found = masks_of(out, split=split)
    assert sorted(found) == sorted(names)
    for name in names:
        np.testing.assert_array_equal(found[name], numbers_of(name, number))
    assert find_all(out) == []


def check_objects(out: Path, *, names: str = "abcd", has_classes: bool = True, split: str = "train") -> None:
    """Checks the masks, the boxes and the classes of each image, in any order."""
    for record in open_dataset(out).records(split):
        objects = OBJECTS[record["image/filename"][:-4]]
        sides = [record[f"image/object/bbox/{side}"] for side in ("xmin", "ymin", "xmax", "ymax")]
        boxes = np.array(sides).T * (WIDTH, HEIGHT, WIDTH, HEIGHT)
        labels = record["image/object/class/text"] if has_classes else [""] * len(boxes)
        found = zip(labels, boxes.round().astype(int).tolist(), record["image/object/mask"], strict=True)
        expected = [(label if has_classes else "", [x, y, x + 8, y + 9], mask_of(x, y)) for label, x, y in objects]
        assert sorted((label, box, mask.tobytes()) for label, box, mask in found) == sorted(
            (label, box, mask.astype(np.uint8).tobytes()) for label, box, mask in expected
        )
    assert sorted(masks_of(out, "image", "image/filename", split)) == sorted(names)
    assert find_all(out) == []


def offered(ran: Any, refusal: Refusal, word: str) -> list[str]:
    """Returns the arguments of the offered command that has a word."""
    ran.refused(refusal)
    return next(words for words in commands_of(ran.err.splitlines()) if word in words)


# Run lengths in a table


def severstal(folder: Path) -> Path:
    rows = [[f"{name}.png", label, _runs_of_class(name, label)] for name in OBJECTS for label in _labels(name)]
    return write_csv(folder / "train.csv", [["ImageId", "ClassId", "EncodedPixels"], *rows, ["d.png", "1", ""]])


def _labels(name: str) -> list[str]:
    return sorted({label for label, _, _ in OBJECTS[name]})


def _runs_of_class(name: str, label: str) -> str:
    return runs_of(numbers_of(name) == int(label))


def test_rows_of_objects_of_one_class_become_objects(images, tmp_path, build):
    rows = [[f"{name}.png", runs_of(mask_of(x, y))] for name, objects in OBJECTS.items() for _, x, y in objects]
    table = write_csv(tmp_path / "ships.csv", [["ImageId", "EncodedPixels"], *rows, ["d.png", ""]])
    words = [f"--input={table}", "--image_column=ImageId", f"--image_root={images}", "--class_names=ship"]
    out = build(tmp_path / "out", *words, "--layout=detection_masks")
    check_objects(out, has_classes=False)
    assert {one for record in open_dataset(out).records("train") for one in record["image/object/class/text"]} == {
        "ship"
    }
    check_numbers(build(tmp_path / "masks", *words, "--layout=segmentation", "--image_encoding=png"), lambda _: 1)


def test_a_row_for_each_image_by_its_id_is_read(images, tmp_path, build):
    rows = [[name, runs_of(numbers_of(name) > 0)] for name in OBJECTS]
    table = write_csv(tmp_path / "train.csv", [["id", "rle_mask"], *rows])
    out = build(tmp_path / "out", f"--input={table}", "--image_path=images/{id}.png", "--layout=segmentation")
    check_numbers(out, lambda _: 1)


@pytest.mark.parametrize("kind", ["coco", "polygons", "list"])
def test_json_in_a_cell_is_read_as_coco_writes_it(images, tmp_path, build, kind):
    def cell(mask: np.ndarray, x: int, y: int) -> Any:
        counts = np.diff(np.flatnonzero(np.diff(np.concatenate([[0], mask.T.ravel(), [2]]))), prepend=0).tolist()
        outside = [x, y, x + 8, y, x + 8, y + 9, x, y + 9]
        hole = [x, y, x + 2, y + 3, x + 2, y + 5, x + 4, y + 5, x + 4, y + 3, x + 2, y + 3]
        return {"size": [HEIGHT, WIDTH], "counts": counts} if kind != "polygons" else [[*outside, *hole]]

    found = {name: [(label, cell(mask_of(x, y), x, y)) for label, x, y in objects] for name, objects in OBJECTS.items()}
    if kind == "list":
        rows = [[f"{n}.png", json.dumps([c for _, c in ones]), [one for one, _ in ones]] for n, ones in found.items()]
        table = tmp_path / "in.jsonl"
        names = ("image", "masks", "labels")
        lines = [json.dumps(dict(zip(names, (n, json.loads(c), labels), strict=True))) for n, c, labels in rows]
        table.write_text("\n".join(lines))
    else:
        rows = [[f"{n}.png", label, json.dumps(one)] for n, ones in found.items() for label, one in ones]
        table = write_csv(tmp_path / "in.csv", [["image", "label", "segmentation"], *rows, ["d.png", "", ""]])
    out = build(tmp_path / "out", f"--input={table}", f"--image_root={images}", "--layout=detection_masks")
    check_objects(out)


@each(
    "cell, says",
    [
        ("1 9 1310 20", "a run ends at pixel 1,329, and the image of 44 x 30 pixels (width x height) has 1,320"),
        ("0 5 20 4", "the first pixel is 1"),
        ("50 9 3 9", "run 2 starts at 3, before the end of the run before it, 58"),
        ("1 9 20", "expected pairs of a start and a length, found 3 numbers"),
        ("1 4000000000", "a run ends at pixel 4,000,000,000"),
        ("1 999999999999", "a run ends at pixel 1000000000000"),
    ],
)
def test_damaged_run_lengths_reject_their_sample_and_say_why(images, tmp_path, convert, cell, says):
    rows = [[f"{name}.png", runs_of(numbers_of(name) > 0)] for name in "abc"]
    table = write_csv(tmp_path / "in.csv", [["image", "rle"], *rows, ["d.png", cell]])
    words = [f"--input={table}", f"--image_root={images}", "--layout=segmentation", "--max_failures=0.5"]
    ran = convert(f"--output={tmp_path / 'out'}", *words)
    assert ran.code == 0, ran.err
    (failure,) = [json.loads(line) for line in (tmp_path / "out/failures.jsonl").read_text().splitlines()]
    assert failure["reason"] == "invalid_mask"
    assert says in failure["detail"]


def test_run_lengths_that_count_from_the_run_before_are_refused(images, tmp_path, convert):
    rows = [[f"{name}.png", "30 5 20 5 20 5" if name != "d" else "-1"] for name in OBJECTS]
    table = write_csv(tmp_path / "in.csv", [["ImageId", "EncodedPixels"], *rows])
    ran = convert(f"--input={table}", "--layout=segmentation", f"--output={tmp_path / 'out'}")
    ran.refused("relative_run_lengths", "input", says=["30 5 20 5"])


def test_several_columns_of_masks_are_asked_about(images, tmp_path, convert, run):
    rows = [[f"{name}.png", runs_of(mask_of(1, 2)), runs_of(numbers_of(name) > 0)] for name in "abc"]
    table = write_csv(tmp_path / "in.csv", [["image", "rle_cell", "rle_all"], *rows])
    asked = convert(
        f"--input={table}", f"--image_root={images}", f"--output={tmp_path / 'out'}", "--layout=segmentation"
    )
    words = offered(asked, Refusal("several_mask_columns", "input", "mask_column"), "--mask_column=rle_all")
    assert run("convert", *words, "--image_encoding=png").code == 0
    check_numbers(tmp_path / "out", lambda _: 1, names="abc")


def test_ids_that_rows_repeat_name_images(images, tmp_path, convert, run):
    rows = [[name, runs_of(mask_of(x, y))] for name, objects in OBJECTS.items() for _, x, y in objects]
    table = write_csv(tmp_path / "train.csv", [["id", "annotation"], *rows])
    asked = convert(f"--input={table}", f"--output={tmp_path / 'out'}")
    words = offered(asked, Refusal("unclear_masks", "input", "layout"), "--layout=segmentation")
    assert "--image_path=images/{id}.png" in words
    assert run("convert", *words, "--image_encoding=png").code == 0
    check_numbers(tmp_path / "out", lambda _: 1, names="abc")


def test_classes_that_overlap_in_a_table_reject_their_sample(images, tmp_path, convert):
    rows = [[f"{name}.png", "1", runs_of(mask_of(1, 1))] for name in "abc"]
    table = write_csv(tmp_path / "in.csv", [["image", "label", "rle"], *rows, ["c.png", "2", runs_of(mask_of(3, 1))]])
    words = [f"--input={table}", f"--image_root={images}", "--layout=segmentation", "--max_failures=0.5"]
    assert convert(f"--output={tmp_path / 'out'}", *words).code == 0
    (failure,) = [json.loads(line) for line in (tmp_path / "out/failures.jsonl").read_text().splitlines()]
    assert "the masks of 1 and 2 overlap in 46 pixels" in failure["detail"]


# Mappings


def test_polygons_of_mappings_and_coco_become_the_mask_of_the_image(images, tmp_path, build):
    corners = {
        name: [(label, [[x, y], [x + 8, y], [x + 8, y + 9], [x, y + 9]]) for label, x, y in objects]
        for name, objects in OBJECTS.items()
        if objects
    }
    for name, found in corners.items():
        shapes = [{"label": label, "points": points, "shape_type": "polygon"} for label, points in found]
        document = {"imagePath": f"{name}.png", "imageWidth": WIDTH, "imageHeight": HEIGHT, "shapes": shapes}
        (images / f"{name}.json").write_text(json.dumps(document))
    rows = [["filename", "region_count", "region_id", "region_shape_attributes", "region_attributes"]]
    for name, found in corners.items():
        for number, (label, points) in enumerate(found):
            x, y = zip(*points, strict=True)
            shape = json.dumps({"name": "polygon", "all_points_x": x, "all_points_y": y})
            rows.append([f"{name}.png", len(found), number, shape, json.dumps({"class": label})])
    table = write_csv(images / "via.csv", rows)
    for number, words in enumerate(
        [(f"--input={images}", "--mapping=labelme"), (f"--input={table}", "--mapping=via_csv")]
    ):
        out = build(tmp_path / f"out{number}", *words, "--layout=segmentation", "--image_encoding=png")
        for name, mask in masks_of(out).items():
            outer = numbers_of(name)
            for label, x, y in OBJECTS[name]:
                outer[y : y + 9, x : x + 8] = int(label)
            np.testing.assert_array_equal(mask, outer)


def test_boxes_draw_no_mask(images, tmp_path, convert):
    shape = json.dumps({"name": "rect", "x": 1, "y": 2, "width": 8, "height": 9})
    rows = [[f"{name}.png", 1, 0, shape, json.dumps({"class": "cat"})] for name in OBJECTS]
    header = ["filename", "region_count", "region_id", "region_shape_attributes", "region_attributes"]
    table = write_csv(images / "via.csv", [header, *rows])
    words = [f"--input={table}", "--mapping=via_csv", "--layout=segmentation", f"--output={tmp_path / 'out'}"]
    convert(*words).refused("no_polygons", "input", "layout")
    polygon = json.dumps({"name": "polygon", "all_points_x": [1, 9, 9], "all_points_y": [2, 2, 9]})
    rows = [*rows[1:], ["a.png", 1, 0, polygon, json.dumps({"class": "cat"})]]
    write_csv(images / "via.csv", [header, *rows])
    assert convert(*words, "--max_failures=0.8").code == 0
    failures = [json.loads(line) for line in (tmp_path / "out/failures.jsonl").read_text().splitlines()]
    assert [one["key"] for one in failures] == ["b.png", "c.png", "d.png"]
    assert {one["reason"] for one in failures} == {"invalid_mask"}


def test_objects_in_a_cell_may_have_segmentations(images, tmp_path, build):
    lines = [
        {
            "image": f"{name}.png",
            "objects": {
                "bbox": [[x, y, 8, 9] for _, x, y in objects],
                "categories": [label for label, _, _ in objects],
                "segmentation": [[[x, y, x + 8, y, x + 8, y + 9, x, y + 9]] for _, x, y in objects],
            },
        }
        for name, objects in OBJECTS.items()
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, lines)))
    words = [f"--input={tmp_path / 'in.jsonl'}", f"--image_root={images}"]
    masks = masks_of(build(tmp_path / "out", *words, "--layout=segmentation", "--image_encoding=png"))
    objects = build(tmp_path / "objects", *words, "--layout=detection_masks")
    for record in open_dataset(objects).records("train"):
        numbers = np.zeros((HEIGHT, WIDTH), int)
        for label, mask in zip(record["image/object/class/text"], record["image/object/mask"], strict=True):
            numbers[mask > 0] = int(label)
        np.testing.assert_array_equal(numbers, masks[record["image/filename"][:-4]])
        assert (numbers > 0).sum() == 72 * len(OBJECTS[record["image/filename"][:-4]])


# Files for each object


def write_files(folder: Path, form: str) -> list[str]:
    """Writes a mask file for each object; returns words of the request."""
    for name, objects in OBJECTS.items():
        for number, (_, x, y) in enumerate(objects):
            file = {
                "folders": f"masks/{name}/{number}.png",
                "numbers": f"masks/{name}_{number}.png",
                "beside": f"images/{name}_mask{number}.png",
                "bowl": f"bowl/{name}/masks/{number}{name}7f.png",
            }[form]
            save_mask(folder / file, mask_of(x, y))
    if form == "bowl":
        for name in OBJECTS:
            (folder / f"bowl/{name}/images").mkdir(parents=True)
            (folder / f"images/{name}.png").rename(folder / f"bowl/{name}/images/{name}.png")
        return [f"--input={folder / 'bowl'}"]
    return [f"--input={folder / 'images'}" if form == "beside" else f"--input={folder}"]


@pytest.mark.parametrize("form", ["folders", "numbers", "beside", "bowl"])
def test_a_file_for_each_object_is_asked_about_and_read(images, tmp_path, convert, run, form):
    words = write_files(tmp_path, form)
    (tmp_path / ("bowl/d/images/d.png" if form == "bowl" else "images/d.png")).unlink()
    asked = convert(*words, f"--output={tmp_path}_out")
    asked.refused("images_and_masks", "input")
    of_objects, of_image = (
        next(one for one in commands_of(asked.err.splitlines()) if f"--layout={layout}" in one)
        for layout in ("detection_masks", "segmentation")
    )
    assert run("convert", *of_objects, "--overwrite").code == 0
    check_objects(Path(f"{tmp_path}_out"), names="abc", has_classes=False)
    assert run("convert", *of_image, "--image_encoding=png", "--overwrite", "--class_names=cell").code == 0
    check_numbers(Path(f"{tmp_path}_out"), lambda _: 1, names="abc")
    assert open_dataset(Path(f"{tmp_path}_out")).class_names == ("background", "cell")


def test_an_image_without_masks_of_objects_is_rejected(images, tmp_path, convert):
    words = write_files(tmp_path, "folders")[1:]
    words += [
        f"--input={images}",
        f"--mask_root={tmp_path / 'masks'}",
        "--layout=detection_masks",
        "--max_failures=0.5",
    ]
    assert convert(*words, f"--output={tmp_path / 'out'}").code == 0
    (failure,) = [json.loads(line) for line in (tmp_path / "out/failures.jsonl").read_text().splitlines()]
    assert (failure["key"], failure["reason"]) == ("d.png", "mask_missing")


def test_a_file_of_several_objects_is_not_the_mask_of_one(images, tmp_path, convert):
    write_files(tmp_path, "folders")
    Image.fromarray(numbers_of("c").astype(np.uint8)).save(tmp_path / "masks/c/0.png")
    words = [f"--input={images}", f"--mask_root={tmp_path / 'masks'}", "--layout=detection_masks", "--max_failures=0.5"]
    assert convert(*words, f"--output={tmp_path / 'out'}").code == 0
    failures = [json.loads(line) for line in (tmp_path / "out/failures.jsonl").read_text().splitlines()]
    assert "several numbers besides 0, up to 3" in next(one["detail"] for one in failures if one["key"] == "c.png")


def test_a_mask_that_two_images_may_have_is_refused(images, tmp_path, convert, save, picture):
    save(images / "a_1.png", picture(9, HEIGHT, WIDTH))
    for name in ("a", "a_1", "b", "c", "d"):
        save_mask(tmp_path / f"masks/{name}.png", mask_of(1, 1))
    words = [f"--input={images}", f"--mask_root={tmp_path / 'masks'}", "--layout=detection_masks"]
    convert(*words, f"--output={tmp_path / 'out'}").refused("unclear_masks")


@pytest.mark.parametrize("form", ["rows", "list"])
def test_columns_of_mask_files_have_a_file_for_each_object(images, tmp_path, convert, run, form):
    rows = [
        (f"{name}.png", f"masks/{name}-{number}.png", label)
        for name, objects in OBJECTS.items()
        for number, (label, _, _) in enumerate(objects)
    ]
    for name, objects in OBJECTS.items():
        for number, (_, x, y) in enumerate(objects):
            save_mask(images / f"masks/{name}-{number}.png", mask_of(x, y))
    if form == "rows":
        table = write_csv(images / "in.csv", [["image", "mask", "label"], *rows])
    else:
        names = sorted({name for name, _, _ in rows})
        lists = [[[row[place] for row in rows if row[0] == name] for place in (1, 2)] for name in names]
        lines = [
            json.dumps({"image": name, "masks": masks, "labels": labels})
            for name, (masks, labels) in zip(names, lists, strict=True)
        ]
        table = images / "in.jsonl"
        table.write_text("\n".join(lines))
    asked = convert(f"--input={table}", f"--output={tmp_path / 'out'}")
    of_objects = offered(asked, Refusal("unclear_masks", "input", "layout"), "--layout=detection_masks")
    assert run("convert", *of_objects).code == 0
    check_objects(tmp_path / "out", names="abc")
    words = [word.replace("detection_masks", "segmentation") for word in of_objects]
    assert run("convert", *words, "--image_encoding=png", "--overwrite").code == 0
    check_numbers(tmp_path / "out", names="abc")


def test_a_changed_mask_of_an_object_rebuilds_its_example(images, tmp_path, convert):
    write_files(tmp_path, "folders")
    (images / "d.png").unlink()
    words = [f"--input={images}", f"--mask_root={tmp_path / 'masks'}", "--layout=detection_masks", "--versioned"]
    assert convert(*words, f"--output={tmp_path / 'out'}").code == 0
    save_mask(tmp_path / "masks/c/1.png", mask_of(1, 1))
    assert convert(*words, f"--output={tmp_path / 'out'}").code == 0
    records = {one["image/filename"]: one for one in open_dataset(tmp_path / "out").records("train")}
    assert any(np.array_equal(mask, mask_of(1, 1)) for mask in records["c.png"]["image/object/mask"])


# Panoptic images of COCO


def write_panoptic(folder: Path) -> Path:
    images, annotations = [], []
    for number, (name, objects) in enumerate(OBJECTS.items()):
        ids, segments = np.zeros((HEIGHT, WIDTH), np.int64), []
        for place, (label, x, y) in enumerate(objects):
            one = 70_000 * (place + 1) + 300 * int(label) + number
            ids[mask_of(x, y)] = one
            segments.append({"id": one, "category_id": 10 * int(label), "bbox": [x, y, 8, 9], "area": 68, "iscrowd": 0})
        (folder / "panoptic").mkdir(exist_ok=True)
        channels = np.stack([ids % 256, ids // 256 % 256, ids // 65536], axis=-1)
        Image.fromarray(channels.astype(np.uint8)).save(folder / f"panoptic/{name}_ids.png")
        images.append({"id": number, "file_name": f"{name}.png", "width": WIDTH, "height": HEIGHT})
        annotations.append({"image_id": number, "file_name": f"{name}_ids.png", "segments_info": segments})
    categories = [{"id": 10 * n, "name": str(n), "isthing": n % 2} for n in (1, 2, 3)]
    path = folder / "panoptic.json"
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    return path


def test_panoptic_images_become_the_mask_of_categories_or_of_objects(images, tmp_path, build):
    words = [f"--input={write_panoptic(tmp_path)}", f"--image_root={images}"]
    check_numbers(build(tmp_path / "out", *words, "--layout=segmentation", "--image_encoding=png"))
    assert open_dataset(tmp_path / "out").class_names == ("background", "1", "2", "3")
    check_objects(build(tmp_path / "objects", *words, "--layout=detection_masks"))


def test_a_folder_with_panoptic_images_is_offered(images, tmp_path, convert, run):
    write_panoptic(tmp_path)
    asked = convert(f"--input={tmp_path}", f"--output={tmp_path}_out")
    words = next(one for one in commands_of(asked.err.splitlines()) if "--layout=segmentation" in one)
    assert run("convert", *words, "--image_encoding=png").code == 0
    check_numbers(Path(f"{tmp_path}_out"))


def test_panoptic_images_elsewhere_are_found(images, tmp_path, convert, run):
    (tmp_path / "annotations").mkdir()
    path = write_panoptic(tmp_path / "annotations")
    (tmp_path / "annotations/panoptic").rename(tmp_path / "pngs")
    words = [f"--input={path}", f"--image_root={images}", "--layout=segmentation", "--image_encoding=png"]
    found = offered(
        convert(*words, f"--output={tmp_path / 'out'}"),
        Refusal("missing_images", "input"),
        f"--mask_root={tmp_path / 'pngs'}",
    )
    assert run("convert", *found).code == 0
    check_numbers(tmp_path / "out")


def test_an_id_without_pixels_rejects_its_sample(images, tmp_path, convert):
    path = write_panoptic(tmp_path)
    Image.fromarray(np.zeros((HEIGHT, WIDTH, 3), np.uint8)).save(tmp_path / "panoptic/b_ids.png")
    words = [f"--input={path}", f"--image_root={images}", "--layout=segmentation", "--max_failures=0.5"]
    assert convert(*words, f"--output={tmp_path / 'out'}").code == 0
    (failure,) = [json.loads(line) for line in (tmp_path / "out/failures.jsonl").read_text().splitlines()]
    assert "no pixel with the id" in failure["detail"]


# Datasets with drawn masks


def test_a_dataset_with_drawn_masks_is_an_input_with_masks(images, tmp_path, build):
    table = severstal(tmp_path)
    words = [f"--input={table}", "--image_column=ImageId", f"--image_root={images}", "--layout=segmentation"]
    out = build(tmp_path / "out", *words, "--image_encoding=png")
    again = build(tmp_path / "again", f"--input={out}", "--num_shards=2")
    check_numbers(again)
    assert open_dataset(again).class_names == open_dataset(out).class_names


def test_a_file_of_names_with_numbers_gives_the_numbers_of_drawn_masks(images, tmp_path, build):
    path = write_panoptic(tmp_path)
    (tmp_path / "names.csv").write_text("id,name\n10,1\n20,2\n30,3\n")
    words = [f"--input={path}", f"--image_root={images}", "--layout=segmentation", "--image_encoding=png"]
    out = build(tmp_path / "out", *words, f"--class_names={tmp_path / 'names.csv'}")
    check_numbers(out, lambda label: 10 * int(label))


def test_masks_are_drawn_from_the_objects_of_a_dataset(images, tmp_path, build):
    words = [f"--input={severstal(tmp_path)}", "--image_column=ImageId", f"--image_root={images}"]
    out = build(tmp_path / "out", *words, "--layout=detection_masks", "--image_encoding=png")
    check_numbers(build(tmp_path / "again", f"--input={out}", "--layout=segmentation"))
    check_numbers(build(tmp_path / "third", f"--input={out}", "--layout=segmentation", "--image_encoding=png"))


def test_padding_and_classes_of_drawn_masks_are_those_of_the_request(images, tmp_path, build):
    words = [f"--input={severstal(tmp_path)}", "--image_column=ImageId", f"--image_root={images}"]
    words += ["--layout=segmentation", "--image_size=44x44", "--resize_mode=pad", "--mask_padding=255"]
    out = build(tmp_path / "out", *words, "--image_encoding=png")
    for name, mask in masks_of(out).items():
        assert (mask[:7] == 255).all()
        np.testing.assert_array_equal(mask[7:37], numbers_of(name))
