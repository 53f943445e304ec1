"""Images with annotated objects on disk, in the forms that people have them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

# xmin, ymin, xmax, ymax in pixels; the image's corner is (0, 0).
Box = tuple[float, float, float, float]


@dataclasses.dataclass(frozen=True)
class Picture:
    """An image and its objects: class and box of each."""

    height: int
    width: int
    objects: Sequence[tuple[str, Box]] = ()


# Category ids of COCO have gaps; these are not in the order of the names.
CATEGORIES = {"person": 1, "dog": 18, "cat": 90_000_000_000}
PICTURES: Mapping[str, Picture] = {
    "a.jpg": Picture(40, 60, [("cat", (0, 0, 30, 20)), ("person", (15.5, 10, 60, 40))]),
    "b.jpg": Picture(50, 50, [("person", (10, 10, 20, 45))]),
    "c.jpg": Picture(32, 64),
    "d.jpg": Picture(64, 48, [("dog", (1, 2, 3, 60)), ("dog", (20, 20, 40, 40)), ("cat", (0, 0, 48, 64))]),
}


def save_pictures(folder: Path, pictures: Mapping[str, Picture] = PICTURES) -> None:
    """Saves an image for each, with its objects painted."""
    for number, (name, picture) in enumerate(pictures.items()):
        pixels = np.full((picture.height, picture.width, 3), 20 * number, np.uint8)
        for _, (xmin, ymin, xmax, ymax) in picture.objects:
            pixels[int(ymin) : int(ymax), int(xmin) : int(xmax)] = 255
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / name)


def coco_of(pictures: Mapping[str, Picture] = PICTURES) -> dict[str, Any]:
    """The annotations as COCO has them."""
    ids = {name: 7 * number + 1 for number, name in enumerate(pictures)}
    objects = [(name, label, box) for name, picture in pictures.items() for label, box in picture.objects]
    return {
        "info": {"year": 2017, "description": "a test"},
        "licenses": [{"id": 1, "name": "none"}],
        "images": [
            {"id": ids[name], "file_name": name, "height": picture.height, "width": picture.width, "license": 1}
            for name, picture in pictures.items()
        ],
        "annotations": [
            {
                "id": number,
                "image_id": ids[name],
                "category_id": CATEGORIES[label],
                "bbox": [box[0], box[1], box[2] - box[0], box[3] - box[1]],
                "area": (box[2] - box[0]) * (box[3] - box[1]) / 2,
                "iscrowd": number % 2,
                "segmentation": [[box[0], box[1], box[2], box[1], box[2], box[3]]],
            }
            for number, (name, label, box) in enumerate(objects)
        ],
        "categories": [{"id": number, "name": name, "supercategory": "thing"} for name, number in CATEGORIES.items()],
    }


def write_coco(path: Path, pictures: Mapping[str, Picture] = PICTURES, **changes: Any) -> Path:
    """Writes a file of annotations; `changes` replace what is in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**coco_of(pictures), **changes}))
    return path


def write_captions(path: Path, pictures: Mapping[str, Picture] = PICTURES) -> Path:
    """Writes two captions for each image, as COCO has them; those of an image do not stand together."""
    content = coco_of(pictures)
    texts = ("a picture of {}", "the same, {}, ünd longer")
    annotations = [
        {"image_id": image["id"], "id": 100 * number + place, "caption": text.format(image["file_name"])}
        for number, text in enumerate(texts)
        for place, image in enumerate(content["images"])
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {name: content[name] for name in ("info", "images", "licenses")}
    path.write_text(json.dumps({**kept, "annotations": annotations}))
    return path


def yolo_rows(picture: Picture) -> str:
    """The label file of an image."""
    numbers = {name: number for number, name in enumerate(CATEGORIES)}
    rows = []
    for label, (xmin, ymin, xmax, ymax) in picture.objects:
        center = (xmin + xmax) / 2 / picture.width, (ymin + ymax) / 2 / picture.height
        size = (xmax - xmin) / picture.width, (ymax - ymin) / picture.height
        rows.append(f"{numbers[label]} {center[0]:.8f} {center[1]:.8f} {size[0]:.8f} {size[1]:.8f}\n")
    return "".join(rows)


def write_yolo(folder: Path, splits: Mapping[str, Mapping[str, Picture]]) -> Path:
    """Writes images and labels as Roboflow does, with their data file."""
    for split, pictures in splits.items():
        save_pictures(folder / split / "images", pictures)
        for name, picture in pictures.items():
            if picture.objects:
                path = folder / split / "labels" / Path(name).with_suffix(".txt")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(yolo_rows(picture))
    keys = {"valid": "val"}
    lines = [f"{keys.get(split, split)}: ../{split}/images\n" for split in splits]
    (folder / "data.yaml").write_text("".join([*lines, f"nc: {len(CATEGORIES)}\nnames: {list(CATEGORIES)}\n"]))
    return folder / "data.yaml"


def voc_of(name: str, picture: Picture) -> str:
    """The annotation of an image; the first pixel is (1, 1), and a box includes its last one."""
    objects = "".join(
        f"""
  <object>
    <name>{label}</name><pose>{"Left" if number else "Unspecified"}</pose>
    <truncated>{number % 2}</truncated><difficult>{(number + 1) % 2}</difficult>
    <bndbox><xmax>{xmax:g}</xmax><xmin>{xmin + 1:g}</xmin><ymax>{ymax:g}</ymax><ymin>{ymin + 1:g}</ymin></bndbox>
    <part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></part>
  </object>"""
        for number, (label, (xmin, ymin, xmax, ymax)) in enumerate(picture.objects)
    )
    size = f"<size><width>{picture.width}</width><height>{picture.height}</height><depth>3</depth></size>"
    return f"<annotation>\n  <folder>VOC2012</folder><filename>{name}</filename>{size}{objects}\n</annotation>\n"


def mask_of(picture: Picture) -> Image.Image:
    """A mask with the number of the class, from 1, in the box of each object; 255 outside of all."""
    mask = Image.new("P", (picture.width, picture.height), 255)
    for label, box in picture.objects:
        mask.paste(list(CATEGORIES).index(label) + 1, tuple(map(round, box)))
    return mask


def write_voc(root: Path, splits: Mapping[str, Mapping[str, Picture]]) -> Path:
    """Writes a folder such as VOC2012, with a list for each split, and palette masks with a class for each object."""
    for folder in ("Annotations", "ImageSets/Main", "ImageSets/Segmentation", "SegmentationClass"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for split, pictures in splits.items():
        save_pictures(root / "JPEGImages", pictures)
        for name, picture in pictures.items():
            (root / f"Annotations/{Path(name).stem}.xml").write_text(voc_of(name, picture))
            mask = mask_of(picture)
            mask.putpalette([value * 73 % 256 for value in range(768)])
            mask.save(root / f"SegmentationClass/{Path(name).stem}.png")
        for kind in ("Main", "Segmentation"):
            (root / f"ImageSets/{kind}/{split}.txt").write_text("".join(f"{Path(name).stem}\n" for name in pictures))
    return root
