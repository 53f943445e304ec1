"""What a table has beside images and labels: splits, boxes, masks, texts and columns of no use."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.meanings import pictures, words
from tests.meanings.drafts import HEADERLESS, SPLIT_OF, TYPED, Draft
from tests.meanings.meaning import Label, Role, Split


def add_split(draft: Draft) -> None:
    if draft.splits:
        return
    chance = draft.chance
    style = chance.choices(("words", "flag", "doubled"), (75, 15, 10))[0]
    if style == "flag" and draft.form in HEADERLESS:
        # Without a name, nobody knows it from a class.
        style = "words"
    if style == "flag":
        field, true, false = chance.choice(words.FLAGS)
        cells = draft.spread((True, False))
        values = [true if cell else false for cell in cells]
        draft.columns[field] = [int(cell) for cell in cells] if chance.random() < 0.5 else cells
        draft.splits.append(Split((field,), values))
    else:
        chosen = chance.choice(words.SPLIT_WORDS)
        fields = ["split"] if chance.random() < 0.4 else [draft.name(words.SPLITS)]
        if style == "doubled":
            fields = chance.sample(("subset", "partition", "usage", "phase"), 2)
            draft.unclear = draft.unclear or "two columns of splits, neither of which is the split"
        for field in fields:
            cells = draft.spread(chosen)
            if draft.start and chance.random() < 0.6:
                cells = draft.shorten(cells)
                draft.kinds.append("split:later")
            draft.columns[field] = cells
            draft.splits.append(Split((field,), [cell and SPLIT_OF[cell.lower()] for cell in cells]))
    draft.kinds.append(f"split:{style}")
    draft.roles += [Role("split", split.fields) for split in draft.splits]


def add_boxes(draft: Draft) -> None:
    if any(kind in " ".join(draft.kinds) for kind in ("label:list", "label:one_hot", "label:json")):
        return
    chance, corners = draft.chance, []
    for _ in range(draft.count):
        x, y = chance.randrange(1, 20), chance.randrange(1, 15)
        corners.append((x, y, chance.randrange(x + 5, pictures.WIDTH), chance.randrange(y + 5, pictures.HEIGHT)))
    if draft.start and chance.random() < 0.4:
        corners = draft.shorten(corners)
        draft.kinds.append("box:later")
    sides, style = chance.choice(words.FOUR_SIDES)
    if not draft.is_free(sides) or chance.random() < 0.35:
        field, style = draft.name(words.BOX_CELLS), chance.choice(("xyxy", "xywh"))
        cells = [box and list(_as(box, style)) for box in corners]
        if draft.form not in TYPED:
            cells = [box and json.dumps(box) for box in cells]
        draft.columns[field] = cells
        boxes = [box for box in corners if box]
        if all(_fits(_as(box, style)) for box in boxes):
            draft.unclear = draft.unclear or "boxes that may be corners or sizes"
        draft.roles.append(Role("box", (field,)))
        draft.kinds.append(f"box:cell_{style}")
    else:
        for place, side in enumerate(sides):
            draft.columns[side] = [box and _as(box, style)[place] for box in corners]
        if draft.form in HEADERLESS and all(_fits(_as(box, style)) for box in corners if box):
            draft.unclear = draft.unclear or "boxes that may be corners or sizes"
        draft.roles.append(Role("box", sides))
        draft.kinds.append(f"box:four_{style}")
    draft.boxes = [[box] if box else [] for box in corners]


def _as(box: Sequence[float], style: str) -> tuple[float, ...]:
    left, top, right, bottom = box
    return (left, top, right - left, bottom - top) if style == "xywh" else (left, top, right, bottom)


def _fits(box: Sequence[float]) -> bool:
    """Whether four numbers may be corners, and a corner and a size."""
    left, top, third, fourth = box
    is_size = left + third <= pictures.WIDTH and top + fourth <= pictures.HEIGHT
    return third > left and fourth > top and is_size


def add_mask(draft: Draft) -> None:
    if draft.form == "hf_parquet":
        return
    field = draft.name(words.MASKS)
    draft.masks = [draft.chance.randrange(1, 200) for _ in range(draft.count)]
    cells = []
    for n, value in enumerate(draft.masks):
        draft.files[f"masks/m{n}.png"] = pictures.mask_picture(value)
        cells.append(f"masks/m{n}.png")
    draft.columns[field] = cells
    draft.roles.append(Role("mask", (field,)))
    draft.kinds.append("mask:present")


def add_objects(draft: Draft) -> None:
    """Adds the objects of each image in a cell, in the forms that Hugging Face's datasets and others have."""
    if draft.form not in TYPED or draft.boxes is not None:
        return
    chance = draft.chance
    names = chance.choice(words.CLASSES)
    form = chance.choice(("xywh", "xyxy"))
    found = []
    for n in range(draft.count):
        corners = [(chance.randrange(1, 25), chance.randrange(1, 15)) for _ in range(chance.choice((1, 2)) if n else 2)]
        found.append(
            [
                (
                    names[m % 2] if not n else chance.choice(names),
                    (x, y, x + chance.randrange(5, 23), y + chance.randrange(5, 21)),
                )
                for m, (x, y) in enumerate(corners)
            ]
        )
    draft.boxes = [[box for _, box in objects] for objects in found]
    sizes = [[list(_as(box, form)) for _, box in objects] for objects in found]
    labels = [[name for name, _ in objects] for objects in found]
    style = chance.choice(("objects", "annotations", "bboxes", "bbox"))
    key = chance.choice(("category", "label", "class"))
    if style in ("objects", "annotations"):
        is_lists = chance.random() < 0.5 or draft.form != "jsonl"
        cells: list[Any] = [{"bbox": boxes, key: own} for boxes, own in zip(sizes, labels, strict=True)]
        if not is_lists:
            cells = [
                [{"bbox": box, key: name} for box, name in zip(boxes, own, strict=True)]
                for boxes, own in zip(sizes, labels, strict=True)
            ]
        draft.columns[style] = cells
        draft.labels.append(Label((style,), [list(dict.fromkeys(own)) for own in labels], rows=labels, is_first=False))
        if "of classes" in draft.unclear:
            # The objects have classes of their own.
            draft.unclear = ""
        if all(_fits(box) for boxes in sizes for box in boxes):
            draft.unclear = draft.unclear or "boxes that may be corners or sizes"
    else:
        draft.columns[style] = sizes
    draft.roles.append(Role("box", (style,)))
    draft.kinds.append(f"box:{style}_{form}")


def add_outline(draft: Draft) -> None:
    """Adds a polygon, keypoints or an angle of each image."""
    chance = draft.chance
    kind = chance.choice(("polygon", "keypoints", "angle"))
    if kind == "angle":
        field = draft.name(("angle", "rotation", "theta", "orientation"))
        draft.columns[field] = [round(chance.uniform(-90, 90), 1) for _ in range(draft.count)]
    else:
        field = draft.name(
            {"polygon": ("polygon", "segmentation_points", "outline"), "keypoints": ("keypoints", "landmarks", "pose")}[
                kind
            ]
        )
        values = [[chance.randrange(1, 40) for _ in range(8 if kind == "polygon" else 6)] for _ in range(draft.count)]
        is_typed = draft.form in TYPED
        draft.columns[field] = values if is_typed else [json.dumps(value) for value in values]
    draft.roles.append(Role(kind, (field,)))
    draft.kinds.append(f"{kind}:present")


def add_caption(draft: Draft) -> None:
    if any(label.kind == "text" for label in draft.labels):
        return
    field = draft.name(words.CAPTIONS)
    values = [f"{draft.chance.choice(words.SENTENCES)} no {n}" for n in range(draft.count)]
    draft.columns[field] = values
    draft.labels.append(Label((field,), [[value] for value in values], kind="text", is_first=False))
    draft.roles.append(Role("text", (field,)))
    draft.kinds.append("caption:beside")


def add_group(draft: Draft) -> None:
    field = draft.name(words.GROUPS)
    draft.columns[field] = draft.spread([f"p{n:03d}" for n in range(draft.count // 3 + 2)])
    draft.kinds.append("group:present")


def add_junk(draft: Draft) -> None:
    chance = draft.chance
    if draft.form == "list":
        return
    if chance.random() < (0.1 if draft.form in HEADERLESS else 0.3):
        field = draft.name(words.KEYS)
        draft.columns = {field: [f"r{n * 7 + 3}" for n in range(draft.count)], **draft.columns}
    for _ in range(chance.choices((0, 1, 2, 3), (40, 30, 20, 10))[0]):
        field = draft.name(words.JUNK)
        values: dict[str, Callable[[int], Any]] = {
            "width": lambda _: pictures.WIDTH,
            "height": lambda _: pictures.HEIGHT,
            "year": lambda _: chance.randrange(1990, 2024),
            "source": lambda _: chance.choice(words.SOURCES),
            "md5": lambda n: f"{n * 7919:032x}",
            "timestamp": lambda n: f"2021-03-{n % 28 + 1:02d} 10:00:00",
            "annotator": lambda _: chance.choice("ABC"),
            "notes": lambda _: chance.choice(words.NOTES),
            "license": lambda _: chance.randrange(1, 7),
            "Unnamed: 0": lambda n: n,
            "confidence": lambda _: round(chance.random(), 3),
            "lat": lambda _: round(chance.uniform(-80, 80), 5),
            "lon": lambda _: round(chance.uniform(-170, 170), 5),
            "verified": lambda _: chance.choice((True, False)),
        }
        draft.columns[field] = [values[field](n) if field in values else f"{field}{n % 4}" for n in range(draft.count)]
