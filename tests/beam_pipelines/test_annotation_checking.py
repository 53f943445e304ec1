"""Annotations that are lost are refused, whatever the source; each command of the refusal is right."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from beam_tfrecords.beam_pipelines.settings.suggested_commands import explain
from tests.annotated_inputs import Picture, coco_of, save_pictures, write_captions, write_voc, write_yolo
from tests.beam_pipelines.listed_records import commands_of, read
from tests.each import each
from tests.refusals import refuses

# Small boxes anywhere in images of 64 x 64: x, y, width and height.
BOXES = [(4, 4, 8, 8), (40, 8, 12, 6), (30, 30, 10, 10), (20, 50, 9, 9), (50, 50, 10, 12)]
PICTURES = {
    f"{number}.jpg": Picture(64, 64, [("cat", (x, y, x + width, y + height)) for x, y, width, height in BOXES])
    for number in range(4)
}
Change = Callable[[list[float]], list[float]]
# What people's programs make of a box of x, y, width and height in pixels.
CHANGES: dict[str, Change] = {
    "as it should be": lambda box: box,
    "shares": lambda box: [side / 64 for side in box],
    "corners": lambda box: [box[0], box[1], box[0] + box[2], box[1] + box[3]],
    "of a larger image": lambda box: [3 * side for side in box],
}


def in_coco(folder: Path, change: Change) -> list[str]:
    content = coco_of(PICTURES)
    for one in content["annotations"]:
        one["bbox"] = change(one["bbox"])
    save_pictures(folder, PICTURES)
    (folder / "instances.json").write_text(json.dumps(content))
    return [f"--input={folder / 'instances.json'}"]


def in_voc(folder: Path, change: Change) -> list[str]:
    def corners(box: tuple[float, ...]) -> Any:
        x, y, width, height = change([box[0], box[1], box[2] - box[0], box[3] - box[1]])
        return x, y, x + width, y + height

    changed = {
        name: Picture(64, 64, [(label, corners(box)) for label, box in picture.objects])
        for name, picture in PICTURES.items()
    }
    write_voc(folder, {"train": PICTURES})
    for name, picture in changed.items():
        text = "".join(
            f"<object><name>{label}</name><bndbox><xmin>{box[0] + 1}</xmin><ymin>{box[1] + 1}</ymin>"
            f"<xmax>{box[2]}</xmax><ymax>{box[3]}</ymax></bndbox></object>"
            for label, box in picture.objects
        )
        size = "<size><width>64</width><height>64</height></size>"
        (folder / f"Annotations/{Path(name).stem}.xml").write_text(f"<annotation>{size}{text}</annotation>")
    return ["--source=voc", f"--input={folder}"]


def in_table(folder: Path, change: Change) -> list[str]:
    """A table does not say how large its images are; half of them are turned by EXIF."""
    rows = []
    folder.mkdir(exist_ok=True)
    for number in range(4):
        exif = Image.Exif()
        exif[0x0112] = 6 if number % 2 else 1
        size = (48, 64) if number % 2 else (64, 48)
        Image.new("RGB", size).save(folder / f"{number}.jpg", exif=exif)
        boxes = [change([x, y * 3 / 4, width, height * 3 / 4]) for x, y, width, height in BOXES]
        rows.append({"image": f"{number}.jpg", "objects": {"bbox": boxes, "categories": ["cat"] * len(boxes)}})
    (folder / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [f"--input={folder / 'x.jsonl'}"]


def in_yolo(folder: Path, change: Change) -> list[str]:
    """The rows of YOLO are centres and sizes in shares of the image."""
    path = write_yolo(folder, {"train": PICTURES})
    for label in folder.rglob("labels/*.txt"):
        rows = []
        for box in BOXES:
            x, y, width, height = change(list(box))
            rows.append(f"0 {(x + width / 2) / 64} {(y + height / 2) / 64} {width / 64} {height / 64}\n")
        label.write_text("".join(rows))
    return [f"--input={path}"]


@each("change", CHANGES)
@each("write", [in_coco, in_voc, in_yolo, in_table])
def test_boxes_that_do_not_fit_their_images_are_refused(write, change, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    argv = [*write(folder, CHANGES[change]), "--output=out"]
    if change == "as it should be" or (write in (in_yolo, in_table) and change == "shares"):
        # Boxes of a pixel may be meant where all are shares anyway; in a table, the numbers say the unit.
        read(argv, tmp_path / "listing")
        return
    if write is in_table and change == "corners":
        with refuses("unclear_box_format", "input"):
            read(argv, tmp_path / "listing")
        return
    check_refusal(argv, "boxes_not_in_pixels" if change == "shares" else "boxes_beyond_image", tmp_path)


def check_refusal(argv: list[str], code: str, tmp_path: Path, *, images_alone: bool = True) -> None:
    with refuses(code, "input") as refused:
        read(argv, tmp_path / "listing")
    lines = explain(refused.value, "convert", argv)
    commands = commands_of(lines)
    assert "--trust_annotations" in commands[0]
    assert [command[-1] for command in commands[1:]] == (["--layout=image"] if images_alone else [])
    for number, command in enumerate(commands):
        read(command, tmp_path / f"listing{number}")


def test_right_and_lower_sides_are_named_as_what_they_are(tmp_path):
    argv = [*in_coco(tmp_path, CHANGES["corners"]), "--output=out"]
    with refuses("boxes_beyond_image", "input", says=["none would if"]):
        read(argv, tmp_path / "listing")


def test_a_few_boxes_beyond_their_image_are_clipped_as_ever(tmp_path):
    content = coco_of(PICTURES)
    for one in content["annotations"][::3]:
        one["bbox"][2] = 100
    save_pictures(tmp_path, PICTURES)
    (tmp_path / "instances.json").write_text(json.dumps(content))
    read([f"--input={tmp_path / 'instances.json'}", "--output=out"], tmp_path / "listing")


def without_objects(folder: Path, form: str) -> list[str]:
    empty = {name: Picture(64, 64) for name in PICTURES}
    if form == "coco":
        save_pictures(folder, empty)
        (folder / "x.json").write_text(json.dumps({**coco_of(empty), "annotations": []}))
        return [f"--input={folder / 'x.json'}"]
    if form == "voc":
        return ["--source=voc", f"--input={write_voc(folder, {'train': empty})}"]
    if form == "table":
        save_pictures(folder, empty)
        rows = [{"image": name, "objects": {"bbox": [], "categories": []}} for name in empty]
        (folder / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return [f"--input={folder / 'x.jsonl'}"]
    return [f"--input={write_yolo(folder, {'train': empty})}"]


@pytest.mark.parametrize("form", ["coco", "voc", "yolo", "table"])
def test_images_of_which_none_has_an_object_are_refused(form, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    argv = [*without_objects(folder, form), "--output=out"]
    check_refusal([*argv, "--layout=detection"], "no_objects", tmp_path)


def lost(folder: Path, form: str, count: int) -> list[str]:
    """A dataset of six images of which some annotations belong to others."""
    pictures = {f"{number}.jpg": PICTURES["0.jpg"] for number in range(6)}
    if form in ("coco", "captions"):
        path = folder / f"{form}.json"
        save_pictures(folder, pictures)
        content = coco_of(pictures) if form == "coco" else json.loads(write_captions(path, pictures).read_text())
        for number, one in enumerate(content["annotations"]):
            one["image_id"] = f"{one['image_id']}x" if number % 6 < count else one["image_id"]
        path.write_text(json.dumps(content))
        return [f"--input={path}"]
    if form == "yolo":
        path = write_yolo(folder, {"train": pictures})
        labels = sorted((folder / "train/labels").iterdir())
        for label in labels[:count]:
            label.rename(label.with_name(f"other_{label.name}"))
        return [f"--input={path}"]
    write_voc(folder, {"train": pictures})
    for number in range(count):
        for name in (f"Annotations/{number}.xml", f"SegmentationClass/{number}.png"):
            (folder / name).rename(folder / name.replace("/", "/other_"))
    for path in (folder / "ImageSets").rglob("*.txt"):
        path.unlink()
    if form == "masks":
        for path in (folder / "JPEGImages").iterdir():
            (folder / "images").mkdir(exist_ok=True)
            Image.open(path).save(folder / "images" / path.name)
        return [f"--input={folder / 'images'}", f"--mask_root={folder / 'SegmentationClass'}", "--layout=segmentation"]
    return ["--source=voc", f"--input={folder}"]


@each("count", [2, 4])
@each("form", ["coco", "captions", "yolo", "voc", "masks"])
def test_most_annotations_without_an_image_are_refused_and_some_are_noted(form, count, tmp_path, run):
    folder = tmp_path / "in"
    folder.mkdir()
    argv = [*lost(folder, form, count), "--output", str(tmp_path / "out"), "--dry_run", "--max_failures=1"]
    ran = run("convert", *argv)
    if count > 3:
        refusal = ran.refused("unmatched_annotations", "input")
        assert {"trust_annotations": True} in [one.settings for one in refusal.suggestions]
        ran = run("convert", *argv, "--trust_annotations")
    assert ran.code == 0, ran.err
    assert form == "voc" or "belong to no image" in ran.out


def test_labels_of_objects_are_checked_too(tmp_path):
    save_pictures(tmp_path, PICTURES)
    (tmp_path / "x.json").write_text(json.dumps({**coco_of(PICTURES), "annotations": []}))
    argv = [f"--input={tmp_path / 'x.json'}", "--output=out", "--layout=multilabel"]
    with refuses("no_objects", "input", says=["4 images"]):
        read(argv, tmp_path / "listing")
