"""What rows have beside their labels: images, splits, boxes, masks, texts and columns of no use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.meanings import pictures, words
from tests.meanings.labels import HEADERLESS, TYPED
from tests.meanings.meaning import Meaning, Role, Split

# Forms that hold the files of images -> usual names of their column.
EMBEDDED = {
    "hf_parquet": ("image", "image", "img", "picture", "jpg"),
    "webdataset": ("jpg", "png"),
    "tfrecord": ("image", "image/encoded", "image_raw", "img", "jpeg"),
}
_SECOND = {
    "webdataset": ("right.jpg", "depth.jpg", "thumb.jpg", "nir.jpg"),
    "tfrecord": ("right", "depth", "image/depth", "image2"),
}
Box = tuple[int, int, int, int]


def draw_box(draft: Meaning) -> Box:
    """Draws a box: xmin, ymin, xmax, ymax in pixels."""
    x, y = draft.chance.randrange(1, 20), draft.chance.randrange(1, 15)
    return x, y, draft.chance.randrange(x + 5, pictures.WIDTH), draft.chance.randrange(y + 5, pictures.HEIGHT)


def add_split_prefix(draft: Meaning) -> None:
    """Lets the paths of the images begin with the split."""
    draft.prefixes = [""] * draft.count
    if draft.form in ("hf_parquet", "list", "tfrecord") or draft.chance.random() > 0.1:
        return
    chosen = draft.chance.choice((("train", "test"), ("train", "val"), ("train", "val", "test"), ("Train", "Test")))
    folders = draft.spread(chosen)
    draft.prefixes = [f"{folder}/" for folder in folders]
    draft.add_split("paths", folders, *chosen, "keys", "split", "splits", "validation")
    draft.kinds.append("split:paths")


def _file_names(draft: Meaning, stem: str) -> list[str]:
    style = draft.chance.choice(("{stem}{n:04d}", "{n}", "{stem}_{n}", "{h}", "{stem} {n}"))
    if draft.form in HEADERLESS:
        style = style.replace(" ", "-")
    extension = draft.chance.choice((".png", ".jpg", ".jpg", ".JPG", ".jpeg"))
    numbers = range(1, draft.count + 1)
    return [style.format(stem=stem, n=n, h=f"{n * 2654435761 % 2**32:08x}") + extension for n in numbers]


def add_image(draft: Meaning) -> None:
    """Adds one column of images, or two."""
    chance = draft.chance
    if draft.form in EMBEDDED:
        first = chance.choice(EMBEDDED[draft.form])
        seconds = _SECOND.get(draft.form, ())
        for field in [first, *(chance.sample(seconds, 1) if seconds and chance.random() < 0.25 else [])]:
            kind = first if first in ("jpg", "png") else chance.choice(("jpg", "png"))
            numbers = draft.add_pictures(field)
            draft.columns[field] = [
                {"bytes": pictures.picture(number, kind), "path": f"{n}.{kind}"} for n, number in enumerate(numbers)
            ]
            draft.roles += [Role("image", (field, field.partition(".")[0]))] if field != first else []
        draft.kinds.append("image:embedded")
        return
    style = chance.choices(("path", "bare", "id", "pair", "parts"), (67, 15, 8, 7, 3))[0]
    if draft.form in ("hf_folder", *HEADERLESS) and style in ("id", "pair", "parts"):
        style = "path"
    draft.kinds.append(f"image:{style}")
    if style == "pair":
        for field in chance.choice(words.SECOND_IMAGES):
            _add_paths(draft, field, f"{field.replace('_path', '')}", in_cell=True)
        draft.unclear = "two columns of images, either of which may be the image"
        return
    if style == "parts" and not any(draft.prefixes):
        draft.prefixes = draft.spread(("a/", "b/"))
    names = words.RARE_IMAGES if chance.random() < 0.25 and draft.form != "hf_folder" else words.IMAGES
    field = draft.name(("file_name",) if draft.form == "hf_folder" else names)
    stem = chance.choice(("img", "photo", "x", "DSC"))
    _add_paths(draft, field, stem, in_cell=style in ("path", "parts"), has_end=style != "id")
    if style == "parts":
        draft.columns["folder"] = [path.rpartition("/")[0] for path in draft.columns[field]]
        draft.columns[field] = [path.rpartition("/")[2] for path in draft.columns[field]]
        return
    if chance.random() < 0.12:
        second = draft.name(words.BESIDE_IMAGE)
        _add_paths(draft, second, "second", in_cell=style == "path")
        draft.roles.append(Role("image", (second,)))


def _add_paths(draft: Meaning, field: str, stem: str, *, in_cell: bool, has_end: bool = True) -> None:
    """Adds a column of paths, and the files."""
    names = _file_names(draft, stem)
    if f"{draft.folder}{draft.prefixes[0]}{names[0]}" in draft.files:
        names = [f"{field}-{name}" for name in names]
    cells = draft.columns[field] = []
    for number, name, prefix in zip(draft.add_pictures(field), names, draft.prefixes, strict=True):
        kind = "png" if name.endswith("png") else "jpg"
        draft.files[f"{draft.folder}{prefix}{name}"] = pictures.picture(number, kind)
        cells.append(f"{draft.folder if in_cell else ''}{prefix}{name if has_end else name.rpartition('.')[0]}")


def add_split(draft: Meaning) -> None:
    if draft.splits:
        return
    chance = draft.chance
    style = chance.choices(("words", "flag", "doubled"), (75, 15, 10))[0]
    if draft.form in HEADERLESS and style == "flag":
        # Without a name, nobody knows it from a class.
        style = "words"
    draft.kinds.append(f"split:{style}")
    if style == "flag":
        field, true, false = chance.choice(words.FLAGS)
        cells = draft.spread((True, False))
        draft.columns[field] = cells if chance.random() < 0.5 and draft.form != "tfrecord" else [*map(int, cells)]
        draft.splits.append(Split((field,), [true if cell else false for cell in cells]))
        draft.roles.append(Role("split", (field,)))
        return
    chosen = chance.choice(words.SPLIT_WORDS)
    fields = ["split"] if chance.random() < 0.4 else [draft.name(words.SPLITS)]
    if style == "doubled":
        fields = chance.sample(("subset", "partition", "usage", "phase"), 2)
        draft.unclear = draft.unclear or "two columns of splits, either of which may be the split"
    for field in fields:
        cells = draft.spread(chosen)
        if draft.start and chance.random() < 0.6:
            cells = draft.shorten(cells)
            draft.kinds.append("split:later")
        draft.columns[field] = cells
        draft.add_split(field, cells)


def add_boxes(draft: Meaning) -> None:
    """Adds a box of each image, in four columns or one."""
    if {"label:list", "label:one_hot"}.intersection(draft.kinds):
        return
    chance = draft.chance
    corners: list[Any] = [draw_box(draft) for _ in range(draft.count)]
    if draft.start and chance.random() < 0.4:
        corners = draft.shorten(corners)
        draft.kinds.append("box:later")
    sides = chance.choice(words.FOUR_SIDES)
    form = "xywh" if sides[0] == "x" else "xyxy"
    in_cell = draft.form in EMBEDDED or not draft.is_free(sides) or chance.random() < 0.35
    if in_cell:
        field, form = draft.name(words.BOX_CELLS), chance.choice(("xyxy", "xywh"))
        cells = [box and in_form(box, form) for box in corners]
        draft.columns[field] = cells if draft.form in TYPED else [box and json.dumps(box) for box in cells]
    else:
        for place, side in enumerate(sides):
            draft.columns[side] = [box and in_form(box, form)[place] for box in corners]
    if (in_cell or draft.form in HEADERLESS) and all(_fits(in_form(box, form)) for box in corners if box):
        draft.unclear = draft.unclear or "boxes that may be corners or sizes"
    draft.roles.append(Role("box", (field,) if in_cell else tuple(sides)))
    draft.kinds.append(f"box:{'cell' if in_cell else 'four'}_{form}")
    draft.boxes = [[box] if box else [] for box in corners]


def in_form(box: Sequence[int], form: str) -> list[int]:
    """Returns a box as two corners (xyxy), or as a corner and a size (xywh)."""
    left, top, right, bottom = box
    return [left, top, right - left, bottom - top] if form == "xywh" else [left, top, right, bottom]


def _fits(box: Sequence[int]) -> bool:
    """Whether four numbers may be corners, and a corner and a size."""
    left, top, third, fourth = box
    is_size = left + third <= pictures.WIDTH and top + fourth <= pictures.HEIGHT
    return third > left and fourth > top and is_size


def add_mask(draft: Meaning) -> None:
    if draft.form in ("hf_parquet", "tfrecord"):
        return
    draft.masks = [draft.chance.randrange(1, 200) for _ in range(draft.count)]
    if draft.form == "webdataset":
        draft.columns["mask.png"] = [{"bytes": pictures.mask_picture(value)} for value in draft.masks]
        draft.roles.append(Role("mask", ("mask.png", "mask", "masks")))
        return
    field = draft.name(words.MASKS)
    draft.columns[field] = [f"masks/m{n}.png" for n in range(draft.count)]
    draft.files |= {f"masks/m{n}.png": pictures.mask_picture(value) for n, value in enumerate(draft.masks)}
    draft.roles.append(Role("mask", (field,)))
    draft.kinds.append("mask:present")


def add_junk(draft: Meaning) -> None:
    """Adds up to four columns that mean nothing to a reader."""
    if draft.form == "list":
        return
    for _ in range(draft.chance.choices((0, 1, 2, 3, 4), (25, 35, 20, 10, 10))[0]):
        field = draft.name(words.JUNK)
        cells = [_draw_junk(draft, field, n) for n in range(draft.count)]
        is_first = draft.chance.random() < 0.2 and draft.form not in HEADERLESS
        draft.columns = {field: cells, **draft.columns} if is_first else {**draft.columns, field: cells}


def _draw_junk(draft: Meaning, field: str, n: int) -> Any:
    chance = draft.chance
    values: dict[str, Any] = {
        "width": pictures.WIDTH,
        "height": pictures.HEIGHT,
        "year": chance.randrange(1990, 2024),
        "source": chance.choice(words.SOURCES),
        "md5": f"{n * 7919:032x}",
        "timestamp": f"2021-03-{n % 28 + 1:02d} 10:00:00",
        "patient_id": f"p{n // 3:03d}",
        "notes": chance.choice(words.NOTES),
        "Unnamed: 0": n,
        "lat": round(chance.uniform(-80, 80), 5),
        "verified": chance.choice((0, 1) if draft.form == "tfrecord" else (True, False)),
    }
    return values.get(field, f"{field}{n % 4}" if n % 2 else f"r{n * 7 + 3}")
