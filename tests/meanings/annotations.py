"""Draws inputs of annotated images: COCO, YOLO and Pascal VOC."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from tests.meanings import pictures, words
from tests.meanings.drafts import SPLIT_OF, Draft, new_draft
from tests.meanings.meaning import Case, Label, Role, Split

ANNOTATION_FORMS = ("coco", "yolo", "voc")
# xmin, ymin, xmax, ymax in pixels.
Box = tuple[float, float, float, float]


def draw_annotations(chance: random.Random, form: str) -> Case:
    """Draws images with objects."""
    draft = new_draft(chance, form, chance.randrange(6, 11))
    _DRAW[form](draft)
    return draft.case({})


def _draw_objects(draft: Draft) -> list[list[tuple[str, Box]]]:
    """Draws class and box of each object of each item, up to three; each class occurs."""
    chance = draft.chance
    names = [name for name in draft.pick_classes() if "," not in name] or ["cat", "dog"]
    objects: list[list[tuple[str, Box]]] = []
    for n in range(draft.count):
        found = []
        for m in range(chance.choice((0, 1, 1, 2, 3)) if n else len(names)):
            left, top = chance.randrange(1, 20), chance.randrange(1, 15)
            right, bottom = chance.randrange(left + 5, pictures.WIDTH), chance.randrange(top + 5, pictures.HEIGHT)
            found.append((names[m] if not n else chance.choice(names), (left, top, right, bottom)))
        objects.append(found)
    draft.boxes = [[box for _, box in found] for found in objects]
    return objects


def _set_labels(draft: Draft, objects: list[list[tuple[str, Box]]], *words_: str) -> None:
    rows = [[name for name, _ in found] for found in objects]
    draft.labels.append(Label(words_, [list(dict.fromkeys(one)) for one in rows], rows=rows))
    # A reading without labels names the files that it does not read.
    files = {"coco": ("COCO",), "yolo": ("YOLO", ".txt"), "voc": ("VOC", ".xml")}[draft.form]
    draft.roles += [Role("label", (*words_, *files)), Role("box", ("bbox", "boxes", "box", *files))]


def _names(draft: Draft, objects: list[list[tuple[str, Box]]]) -> list[str]:
    names = list(dict.fromkeys(name for found in objects for name, _ in found))
    return draft.chance.sample(names, len(names))


def _split_folders(draft: Draft, share: float) -> list[str]:
    """Draws the split of each item; none for most."""
    if draft.chance.random() > share:
        return [""] * draft.count
    chosen = draft.chance.choice((("train", "val"), ("train", "test"), ("train", "valid", "test")))
    splits = draft.spread(chosen)
    draft.splits.append(Split(("paths",), [SPLIT_OF[split] for split in splits]))
    draft.roles.append(Role("split", ("paths", *chosen, "split", "splits")))
    draft.kinds.append("split:paths")
    return splits


# COCO ----------------------------------------------------------------------------------------------------------------


def _draw_coco(draft: Draft) -> None:
    chance = draft.chance
    style = chance.choices(
        ("boxes", "polygons", "keypoints", "captions", "labels", "boxes_captions"), (40, 20, 10, 10, 12, 8)
    )[0]
    draft.kinds.append(f"coco:{style}")
    splits = _split_folders(draft, 0.3)
    prefixes = [f"{split}/" if split else "" for split in splits]
    draft.images["image"] = draft.add_pictures()
    names = [f"{prefix}{n:06d}.jpg" for n, prefix in enumerate(prefixes, 1)]
    folder = chance.choice(("", "images/"))
    for name, number in zip(names, draft.images["image"], strict=True):
        draft.files[f"{folder}{name}"] = pictures.picture(number, "jpg")
    images = [
        {"id": 10 * n + 3, "file_name": name, "width": pictures.WIDTH, "height": pictures.HEIGHT}
        for n, name in enumerate(names)
    ]
    document: dict[str, Any] = {"images": images}
    annotations: list[dict[str, Any]] = []
    if style in ("captions", "boxes_captions"):
        texts = [f"{chance.choice(words.SENTENCES)} no {n}" for n in range(draft.count)]
        annotations += [{"image_id": 10 * n + 3, "caption": text} for n, text in enumerate(texts)]
        draft.labels.append(Label(("captions", "caption"), [[text] for text in texts], kind="text"))
        draft.roles.append(Role("text", ("caption", "captions")))
    if style != "captions":
        objects = _draw_objects(draft)
        if style == "labels":
            objects = [found[:1] or [(objects[0][0][0], (0, 0, 0, 0))] for found in objects]
            draft.boxes = None
        classes = _names(draft, objects)
        numbers = sorted(chance.sample(range(1, 30), len(classes)))
        ids = dict(zip(classes, numbers, strict=True))
        document["categories"] = [
            {"id": ids[name], "name": name, "supercategory": "thing"} for name in chance.sample(classes, len(classes))
        ]
        for n, found in enumerate(objects):
            annotations += [_coco_object(style, 10 * n + 3, ids[name], box) for name, box in found]
        if style == "labels":
            draft.labels.append(Label(("category_id", "categories"), [[found[0][0]] for found in objects]))
            draft.roles.append(Role("label", ("category_id", "categories")))
        else:
            _set_labels(draft, objects, "categories")
        if style == "polygons":
            draft.roles.append(
                Role("polygon", ("segmentation", "segmentations", "polygon", "polygons", "mask", "masks"))
            )
        if style == "keypoints":
            draft.roles.append(Role("keypoints", ("keypoint", "keypoints")))
    document["annotations"] = [{"id": n, **one} for n, one in enumerate(annotations, 1)]
    if chance.random() < 0.1:
        document["annotations"] = document["annotations"][::-1]
    name = chance.choice(("instances.json", "annotations.json", "_annotations.coco.json", "captions_all.json"))
    if style in ("boxes", "polygons", "keypoints", "labels", "boxes_captions") and name.startswith("captions"):
        name = "coco.json"
    draft.files[name] = json.dumps(document).encode()
    draft.settings["input"] = f"{{root}}/{name}"
    if folder and chance.random() < 0.6:
        draft.settings["image_root"] = f"{{root}}/{folder.rstrip('/')}"


def _coco_object(style: str, image: int, category: int, box: Box) -> dict[str, Any]:
    left, top, right, bottom = box
    found: dict[str, Any] = {"image_id": image, "category_id": category}
    if style == "labels":
        return found
    found |= {"bbox": [left, top, right - left, bottom - top], "area": (right - left) * (bottom - top), "iscrowd": 0}
    if style == "polygons":
        found["segmentation"] = [[left, top, right, top, right, bottom, left, bottom]]
    if style == "keypoints":
        found |= {"keypoints": [left + 1, top + 1, 2, right - 1, bottom - 1, 1], "num_keypoints": 2}
    return found


# YOLO ----------------------------------------------------------------------------------------------------------------


def _draw_yolo(draft: Draft) -> None:
    chance = draft.chance
    style = chance.choices(("boxes", "polygons", "edge_polygons", "pose"), (50, 20, 20, 10))[0]
    draft.kinds.append(f"yolo:{style}")
    objects = _draw_objects(draft)
    classes = _names(draft, objects)
    splits = draft.spread(chance.choice((("train", "val"), ("train", "test"), ("train", "valid"))))
    draft.splits.append(Split(("files",), [SPLIT_OF[split] for split in splits]))
    draft.roles.append(Role("split", ("files", *set(splits), "split", "splits")))
    draft.images["image"] = draft.add_pictures()
    inner = chance.random() < 0.5
    for n, number in enumerate(draft.images["image"]):
        images, labels = (
            (f"{splits[n]}/images", f"{splits[n]}/labels") if inner else (f"images/{splits[n]}", f"labels/{splits[n]}")
        )
        draft.files[f"{images}/{n:04d}.jpg"] = pictures.picture(number, "jpg")
        rows = "".join(f"{_yolo_row(style, classes.index(name), box)}\n" for name, box in objects[n])
        if rows or chance.random() < 0.5:
            draft.files[f"{labels}/{n:04d}.txt"] = rows.encode()
    keys = {"valid": "val"}
    lines = [
        f"{keys.get(split, split)}: {f'{split}/images' if inner else f'images/{split}'}\n"
        for split in sorted(set(splits))
    ]
    names = json.dumps(classes, ensure_ascii=False)
    if chance.random() < 0.5:
        names = "".join(f"\n  {n}: {json.dumps(name, ensure_ascii=False)}" for n, name in enumerate(classes))
    shape = "kpt_shape: [2, 3]\n" if style == "pose" and chance.random() < 0.5 else ""
    draft.files["data.yaml"] = ("".join(lines) + f"nc: {len(classes)}\n{shape}names: {names}\n").encode()
    if style != "boxes":
        kind = "keypoints" if style == "pose" else "polygon"
        draft.roles.append(
            Role(kind, (kind, f"{kind.rstrip('s')}s", "pose", "points", "mask", "masks", "polygons", "outlines"))
        )
    _set_labels(draft, objects, "names")
    draft.settings["input"] = chance.choice(("{root}/data.yaml", "{root}"))
    if draft.settings["input"] == "{root}" and chance.random() < 0.7:
        draft.settings["source"] = "yolo"


def _yolo_row(style: str, number: int, box: Box) -> str:
    left, top, right, bottom = (
        side / size for side, size in zip(box, (pictures.WIDTH, pictures.HEIGHT) * 2, strict=True)
    )
    if style in ("polygons", "edge_polygons"):
        points = [left, top, right, top, right, bottom, left, bottom]
        if style == "edge_polygons":
            points = [left, top, right, top, right, bottom, (left + right) / 2, bottom, left, bottom]
        return " ".join([str(number), *(f"{side:.6f}" for side in points)])
    row = [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]
    if style == "pose":
        row += [left + 0.01, top + 0.01, 2, right - 0.01, bottom - 0.01, 1]
    return " ".join([str(number), *(f"{side:.6f}" if isinstance(side, float) else str(side) for side in row)])


# Pascal VOC ----------------------------------------------------------------------------------------------------------


def _draw_voc(draft: Draft) -> None:
    chance = draft.chance
    style = chance.choice(("voc", "folders", "beside"))
    draft.kinds.append(f"voc:{style}")
    objects = _draw_objects(draft)
    draft.images["image"] = draft.add_pictures()
    folders = {"voc": ("JPEGImages/", "Annotations/"), "folders": ("images/", "annotations/"), "beside": ("", "")}[
        style
    ]
    for n, number in enumerate(draft.images["image"]):
        draft.files[f"{folders[0]}{n:06d}.jpg"] = pictures.picture(number, "jpg")
        draft.files[f"{folders[1]}{n:06d}.xml"] = _voc_of(f"{n:06d}.jpg", objects[n]).encode()
    if style == "voc":
        splits = draft.spread(("train", "val"))
        for split in ("train", "val"):
            lines = [f"{n:06d}\n" for n, one in enumerate(splits) if one == split]
            draft.files[f"ImageSets/Main/{split}.txt"] = "".join(lines).encode()
        draft.splits.append(Split(("lists",), [SPLIT_OF[split] for split in splits]))
        draft.roles.append(Role("split", ("lists", "train", "val", "split", "splits")))
    _set_labels(draft, objects, "names")
    draft.settings["input"] = "{root}"
    if chance.random() < 0.6:
        draft.settings["source"] = "voc"


def _voc_of(name: str, objects: list[tuple[str, Box]]) -> str:
    found = "".join(
        f"<object><name>{label}</name><bndbox><xmin>{box[0] + 1}</xmin><ymin>{box[1] + 1}</ymin>"
        f"<xmax>{box[2]}</xmax><ymax>{box[3]}</ymax></bndbox></object>"
        for label, box in objects
    )
    size = f"<size><width>{pictures.WIDTH}</width><height>{pictures.HEIGHT}</height><depth>3</depth></size>"
    return f"<annotation><filename>{name}</filename>{size}{found}</annotation>"


_DRAW: Mapping[str, Callable[[Draft], None]] = {"coco": _draw_coco, "yolo": _draw_yolo, "voc": _draw_voc}
