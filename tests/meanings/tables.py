"""Draws inputs that are tables: csv, tsv, lists, JSON lines, Parquet, folders with metadata."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.meanings import pictures, words
from tests.meanings.class_files import draw_class_file
from tests.meanings.drafts import SPLIT_OF, Draft, new_draft
from tests.meanings.meaning import REST, Case, Label, Role, Split, canonical
from tests.meanings.shared_rows import SHARED_FORMS, draw_shared_rows

TABLE_FORMS = (
    "csv", "tsv", "csv_headerless", "list", "jsonl", "parquet", "hf_folder", "hf_parquet",
)  # fmt: skip
# Forms that name no columns.
HEADERLESS = ("csv_headerless", "list")
# Rows of a table, and the first row that has a value that comes later.
_SIZES = {0: range(6, 13), 5: range(12, 17), 60: range(75, 90), 1200: range(1220, 1240)}


def draw_table(chance: random.Random, form: str) -> Case:
    """Draws a table of a form."""
    # In a list, no cell is empty.
    start = 0 if form == "list" else chance.choices((0, 5, 60, 1200), (70, 20, 9, 0.4))[0]
    count = chance.choice(_SIZES[start])
    draft = new_draft(chance, form, count, start=start)
    draft.folder = "" if form == "hf_folder" else chance.choice(("", "images/", "images/", "img/", "data/pics/"))
    if form in SHARED_FORMS and chance.random() < 0.1:
        cells = draw_shared_rows(draft)
        WRITERS[form](draft)
        return draft.case(cells)
    _add_split_prefix(draft)
    _add_image(draft)
    styles = {name: one for name, one in _LABELS.items() if form not in HEADERLESS or name not in _NEED_NAMES}
    styles[chance.choices(list(styles), [weight for weight, _ in styles.values()])[0]][1](draft)
    # Without names, the only further column would be taken for the label, and could be it.
    is_bare = form in HEADERLESS and not draft.labels
    for share, add in _MORE:
        if chance.random() < share and not (is_bare and add in (_add_group, _add_caption, _add_outline)):
            add(draft)
    if start and not any("later" in kind for kind in draft.kinds):
        draft.start = 0
    if not is_bare:
        _add_junk(draft)
    if form not in HEADERLESS and chance.random() < 0.25:
        _state(draft)
    return _finish(draft)


def _state(draft: Draft) -> None:
    """States what a user would: which columns hold what; this decides what is unclear otherwise."""
    stated: dict[str, Any] = {}
    if len(draft.images) > 1 and "images" in draft.unclear:
        stated["image_column"] = draft.chance.choice((",".join(draft.images), next(iter(draft.images))))
    elif draft.form not in ("hf_folder", "hf_parquet"):
        stated["image_column"] = next(iter(draft.images))
    label = next(iter(draft.labels), None)
    if label is not None and label.kind == "class" and "label_column" not in draft.settings:
        stated |= (
            {"label_columns": ",".join(label.fields)} if len(label.fields) > 1 else {"label_column": label.fields[0]}
        )
        separator = next((one for one in "|;," if any(one in str(cell) for cell in draft.columns[label.fields[0]])), "")
        if "label:list" in draft.kinds and separator and not str(draft.columns[label.fields[0]][0]).startswith("["):
            stated["label_separator"] = separator
    if draft.splits and draft.splits[0].fields[0] in draft.columns and draft.chance.random() < 0.5:
        stated["split_column"] = draft.splits[0].fields[0]
    if ("images" in draft.unclear and "image_column" not in stated) or (
        "splits" in draft.unclear and "split_column" not in stated
    ):
        return
    draft.settings |= stated
    draft.kinds.append("stated")
    if not (
        draft.unclear.startswith(("boxes", "no image")) or ("classes" in draft.unclear and "label_column" not in stated)
    ):
        draft.unclear = ""


def _finish(draft: Draft) -> Case:
    names = list(draft.columns)
    if draft.form in HEADERLESS:
        # Without names, people keep what belongs together in one place.
        names = names[1:] + names[:1] if draft.chance.random() < 0.2 else names
    elif draft.chance.random() < 0.5:
        first, *others = names
        draft.chance.shuffle(others)
        names = [first, *others] if draft.chance.random() < 0.7 else draft.chance.sample(names, len(names))
    draft.columns = {name: draft.columns[name] for name in names}
    WRITERS[draft.form](draft)
    cells = dict(draft.columns)
    if draft.form not in ("jsonl", "parquet", "hf_parquet"):
        cells = {name: [str(one) if isinstance(one, bool) else one for one in found] for name, found in cells.items()}
    if draft.form in HEADERLESS:
        cells = {f"column_{n}": values for n, values in enumerate(draft.columns.values(), 1)}
    return draft.case(cells)


# Roles ---------------------------------------------------------------------------------------------------------------


def _add_split_prefix(draft: Draft) -> None:
    """Lets the paths of the images begin with the split."""
    draft.prefixes = [""] * draft.count
    if draft.form in ("hf_parquet", "list") or draft.chance.random() > 0.1:
        return
    chosen = draft.chance.choice((("train", "test"), ("train", "val"), ("train", "val", "test"), ("Train", "Test")))
    folders = draft.spread(chosen)
    draft.prefixes = [f"{folder}/" for folder in folders]
    draft.splits.append(Split(("paths",), [SPLIT_OF[folder.lower()] for folder in folders]))
    draft.roles.append(Role("split", ("paths", *chosen, "split", "splits", "validation")))
    draft.kinds.append("split:paths")


def _file_names(draft: Draft, stem: str) -> list[str]:
    style = draft.chance.choice(("{stem}{n:04d}", "{n}", "{stem}_{n}", "{h}", "{stem} {n}"))
    if draft.form in HEADERLESS:
        style = style.replace(" ", "-")
    extension = draft.chance.choice((".png", ".jpg", ".jpg", ".JPG", ".jpeg"))
    return [
        style.format(stem=stem, n=n + 1, h=f"{(n + 1) * 2654435761 % 2**32:08x}") + extension
        for n in range(draft.count)
    ]


def _add_image(draft: Draft) -> None:
    chance = draft.chance
    if draft.form == "hf_parquet":
        field = chance.choice(("image", "image", "img", "picture", "jpg"))
        draft.images[field] = draft.add_pictures()
        kinds = chance.choice(("png", "jpg"))
        draft.columns[field] = [
            {"bytes": pictures.picture(number, kinds), "path": f"{n}.{kinds}"}
            for n, number in enumerate(draft.images[field])
        ]
        draft.kinds.append("image:embedded")
        return
    style = chance.choices(("path", "bare", "id", "pair", "parts"), (67, 15, 8, 7, 3))[0]
    if draft.form in ("hf_folder", *HEADERLESS) and style in ("id", "pair", "parts"):
        style = "path"
    if style == "pair":
        pair = chance.choice(words.SECOND_IMAGES)
        for field in pair:
            _add_paths(draft, field, f"{field.replace('_path', '')}", in_cell=True)
        draft.unclear = "two columns of images, neither of which is the image"
        draft.kinds.append("image:doubled")
        return
    if style == "parts" and not any(draft.prefixes):
        draft.prefixes = draft.spread(("a/", "b/"))
    names = words.RARE_IMAGES if chance.random() < 0.25 and draft.form != "hf_folder" else words.IMAGES
    field = draft.name(("file_name",) if draft.form == "hf_folder" else names)
    _add_paths(
        draft,
        field,
        chance.choice(("img", "photo", "x", "DSC")),
        in_cell=style in ("path", "parts"),
        has_end=style != "id",
    )
    draft.kinds.append(f"image:{style}")
    if style == "parts":
        draft.columns["folder"] = [path.rpartition("/")[0] for path in draft.columns[field]]
        draft.columns[field] = [path.rpartition("/")[2] for path in draft.columns[field]]
        return
    if chance.random() < 0.12:
        second = draft.name(words.BESIDE_IMAGE)
        _add_paths(draft, second, "second", in_cell=style == "path")
        draft.roles.append(Role("image", (second,)))
        draft.kinds.append("image2:present")


def _add_paths(draft: Draft, field: str, stem: str, *, in_cell: bool, has_end: bool = True) -> None:
    """Adds a column of paths, and the files."""
    draft.images[field] = draft.add_pictures()
    names = _file_names(draft, stem)
    if f"{draft.folder}{draft.prefixes[0]}{names[0]}" in draft.files:
        names = [f"{field}-{name}" for name in names]
    cells = []
    for number, name, prefix in zip(draft.images[field], names, draft.prefixes, strict=True):
        kind = "png" if name.endswith("png") else "jpg"
        draft.files[f"{draft.folder}{prefix}{name}"] = pictures.picture(number, kind)
        cells.append(f"{draft.folder if in_cell else ''}{prefix}{name if has_end else name.rpartition('.')[0]}")
    draft.columns[field] = cells


def _add_labels(draft: Draft, field: str, values: Sequence[Any], **others: Any) -> None:
    draft.columns[field] = list(values)
    of_each = [[] if value is None else [canonical(value)] for value in values]
    draft.labels.append(Label((field,), of_each, rows=of_each, **others))
    draft.roles.append(Role("label", (field,)))


def _label_names(draft: Draft) -> None:
    rare = draft.chance.random() < 0.3
    field = draft.name(words.RARE_LABELS if rare else words.LABELS)
    values = draft.spread(draft.pick_classes())
    if draft.start and draft.chance.random() < 0.2:
        values = draft.shorten(values)
        draft.kinds.append("label:later")
    _add_labels(draft, field, values)
    draft.kinds.append("label:names")


def _label_pair(draft: Draft) -> None:
    pairs = [pair for pair in words.PAIRS if draft.is_free(pair)]
    first, second = draft.chance.sample(words.CLASSES, 2)
    for field, classes in zip(draft.chance.choice(pairs), (first, second), strict=True):
        _add_labels(draft, field, draft.spread(classes))
    draft.unclear = "two columns of classes, neither of which is the label"
    draft.kinds.append("label:doubled")


def _label_beside_label(draft: Draft) -> None:
    """Adds `label` and another column of classes: `label` may be taken, if the other is named."""
    _add_labels(draft, "label", draft.spread(draft.pick_classes()))
    other = draft.name(("species", "category", "breed", "weather", "view", "stage"))
    first = draft.labels[0].values
    values = draft.spread(draft.pick_classes())
    while [canonical(value) for value in values] == [one for (one,) in first]:
        values = draft.spread(draft.pick_classes())
    _add_labels(draft, other, values, is_first=False)
    if draft.form in HEADERLESS:
        draft.unclear = "two columns without names, both of classes"
    draft.kinds.append("label:and_other")


def _label_index(draft: Draft) -> None:
    chance = draft.chance
    base = chance.choice((0, 0, 1))
    names = draft.pick_classes()
    rare = chance.random() < 0.2
    field = draft.name(words.RARE_LABELS if rare else words.INDICES)
    indices = draft.spread(range(base, base + len(names)))
    texts = {str(base + n): name for n, name in enumerate(names)}
    draft.kinds.append(f"label:index{base}")
    beside = chance.choices(("nothing", "twin", "file"), (35, 30, 35))[0]
    if beside == "nothing":
        _add_labels(draft, field, indices)
    elif beside == "twin":
        pairs = [pair for pair in words.TWINS if draft.is_free(pair)]
        field, twin = chance.choice(pairs)
        _add_labels(draft, field, indices, names=texts)
        cells = [texts[str(index)] for index in indices]
        draft.columns[twin] = cells
        of_each = [[cell] for cell in cells]
        draft.labels.append(Label((twin,), of_each, rows=of_each))
        draft.roles += [Role("names", (twin,)), Role("label", (field, twin))]
        draft.kinds.append("label:twin")
    else:
        _add_labels(draft, field, indices, names=texts)
        form, name, data = draw_class_file(chance, texts)
        draft.files[name] = data
        draft.roles.append(Role("names", (name,)))
        draft.kinds.append(f"names:{form}")
        if chance.random() < 0.6:
            draft.settings["class_names"] = f"{{root}}/{name}"
            draft.settings["label_column"] = field
            draft.kinds.append("names:stated")


def _label_one_hot(draft: Draft) -> None:
    names = [name for name in draft.pick_classes() if not set(name) & set(",/")]
    if len(names) < 2 or not draft.is_free(names):
        names = ["healthy", "rust", "scab"]
    chosen = draft.spread(names)
    several = draft.chance.random() < 0.4
    cells = {name: [int(one == name) for one in chosen] for name in names}
    if several:
        for row in range(draft.count):
            cells[draft.chance.choice(names)][row] = 1
    draft.columns |= cells
    values = [[name for name in names if cells[name][row]] for row in range(draft.count)]
    draft.labels.append(Label(tuple(names), values))
    draft.roles.append(Role("label", tuple(names)))
    draft.kinds.append("label:one_hot" + ("_several" if several else ""))


def _label_list(draft: Draft) -> None:
    """Adds cells with any number of classes."""
    names = [name for name in draft.pick_classes() if not set(name) & set(",;| '\"[]")]
    names = names if len(names) > 2 else ["sky", "sea", "sand", "tree"]
    field = draft.name(("labels", "tags", "label", "classes", "categories", "Finding Labels"))
    values = [draft.chance.sample(names, draft.chance.choice((1, 1, 2, 3))) for _ in range(draft.count)]
    if all(len(one) == 1 for one in values):
        values[0] = names[:2]
    separator = draft.chance.choice("|;, ")
    if draft.form in ("jsonl", "parquet", "hf_parquet"):
        cells: list[Any] = values
    elif draft.form in HEADERLESS:
        cells = ["|".join(one) for one in values]
    else:
        cells = [separator.join(one) for one in values] if draft.chance.random() < 0.7 else list(map(str, values))
    draft.columns[field] = cells
    draft.labels.append(Label((field,), values))
    draft.roles.append(Role("label", (field,)))
    draft.kinds.append("label:list")


def _label_float(draft: Draft) -> None:
    field = draft.name(words.VALUES)
    digits = draft.chance.choice((1, 2, 4))
    values: list[Any] = [round(draft.chance.uniform(0.5, 90), digits) for _ in range(draft.count)]
    of_each = [[value] for value in values]
    missing = draft.chance.random() < 0.2
    if missing:
        row = draft.chance.randrange(draft.count)
        is_typed = draft.form in ("jsonl", "parquet", "hf_parquet")
        values[row] = draft.chance.choice(
            (None, float("nan"), float("inf")) if is_typed else ("", "NaN", "inf", "nan", " ")
        )
        of_each[row] = []
    draft.columns[field] = values
    draft.labels.append(Label((field,), of_each, kind="float"))
    draft.roles.append(Role("value", (field,)))
    draft.kinds.append("label:float" + ("_missing" if missing else ""))
    _state_type(draft, field, "float", 0.6)


def _label_text(draft: Draft) -> None:
    field = draft.name(words.CAPTIONS)
    values = [f"{draft.chance.choice(words.SENTENCES)}" for _ in range(draft.count)]
    if draft.chance.random() < 0.5:
        values = [f"{value} {n}" for n, value in enumerate(values)]
    missing = draft.chance.random() < 0.15
    if missing:
        values[draft.chance.randrange(draft.count)] = draft.chance.choice((None, "", "  "))
    draft.columns[field] = values
    of_each = [[value] if value is not None and value.strip() else [] for value in values]
    draft.labels.append(Label((field,), of_each, kind="text"))
    draft.roles.append(Role("text", (field,)))
    draft.kinds.append("label:text" + ("_missing" if missing else ""))
    _state_type(draft, field, "text", 0.6)


def _label_vector(draft: Draft) -> None:
    field = draft.name(words.VECTORS)
    length = draft.chance.choice((3, 4, 5, 10))
    whole = draft.chance.random() < 0.5
    draw = (lambda: draft.chance.randrange(10)) if whole else (lambda: round(draft.chance.random(), 3))
    values = [[draw() for _ in range(length)] for _ in range(draft.count)]
    is_typed = draft.form in ("jsonl", "parquet", "hf_parquet")
    cells: list[Any] = values if is_typed else [json.dumps(value) for value in values]
    if draft.form in HEADERLESS:
        cells = [",".join(map(str, value)) for value in values]
    draft.columns[field] = cells
    draft.labels.append(Label((field,), values, kind="float"))
    draft.roles.append(Role("vector", (field,)))
    draft.kinds.append("label:vector" + ("_whole" if whole else ""))
    _state_type(draft, field, "float", 0.3)


def _label_json(draft: Draft) -> None:
    field = draft.name(words.JSON_CELLS)
    names = draft.pick_classes()
    style = draft.chance.choice(("studio", "labelbox", "via"))
    cells = []
    for name in draft.spread(names):
        x, y = draft.chance.randrange(1, 40), draft.chance.randrange(1, 40)
        value: Any = [{"x": x, "y": y, "width": 20, "height": 10, "rectanglelabels": [name], "original_width": 48}]
        if style == "labelbox":
            value = {"objects": [{"title": name, "bbox": {"top": y, "left": x, "height": 9, "width": 8}}]}
        if style == "via":
            value = {"name": "rect", "x": x, "y": y, "width": 8, "height": 9}
        cells.append(json.dumps(value))
    draft.columns[field] = cells
    draft.roles.append(Role("annotation", (field,)))
    draft.kinds.append(f"label:json_{style}")


def _label_none(draft: Draft) -> None:
    draft.kinds.append("label:absent")


def _state_type(draft: Draft, field: str, kind: str, share: float) -> None:
    if draft.chance.random() < share and draft.form not in HEADERLESS:
        draft.settings |= {"label_column": field, "label_type": kind}
        draft.kinds.append("label:stated")


_LABELS: Mapping[str, tuple[float, Callable[[Draft], None]]] = {
    "names": (26, _label_names),
    "index": (24, _label_index),
    "pair": (6, _label_pair),
    "beside": (6, _label_beside_label),
    "one_hot": (7, _label_one_hot),
    "list": (7, _label_list),
    "float": (5, _label_float),
    "text": (6, _label_text),
    "vector": (5, _label_vector),
    "json": (4, _label_json),
    "none": (4, _label_none),
}


def _add_split(draft: Draft) -> None:
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


def _add_boxes(draft: Draft) -> None:
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
        if draft.form not in ("jsonl", "parquet", "hf_parquet"):
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


def _add_mask(draft: Draft) -> None:
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


def _add_objects(draft: Draft) -> None:
    """Adds the objects of each image in a cell, in the forms that Hugging Face's datasets and others have."""
    if draft.form not in ("jsonl", "parquet", "hf_parquet") or draft.boxes is not None:
        return
    chance = draft.chance
    names = chance.choice(words.CLASSES)
    found = []
    for n in range(draft.count):
        corners = [(chance.randrange(1, 15), chance.randrange(1, 12)) for _ in range(chance.choice((1, 2)) if n else 2)]
        found.append(
            [
                (names[m % 2] if not n else chance.choice(names), (x, y, x + 20, y + 18))
                for m, (x, y) in enumerate(corners)
            ]
        )
    draft.boxes = [[box for _, box in objects] for objects in found]
    sizes = [[[x, y, 20, 18] for _, (x, y, *_) in objects] for objects in found]
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
    else:
        # Of a plain list of boxes, nobody says whether they are corners or sizes.
        draft.columns[style] = sizes
    draft.roles.append(Role("box", (style,)))
    draft.kinds.append(f"box:{style}")


def _add_outline(draft: Draft) -> None:
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
        is_typed = draft.form in ("jsonl", "parquet", "hf_parquet")
        draft.columns[field] = values if is_typed else [json.dumps(value) for value in values]
    draft.roles.append(Role(kind, (field,)))
    draft.kinds.append(f"{kind}:present")


def _lose_images(draft: Draft) -> None:
    """Leaves out the files: no reference leads anywhere."""
    if draft.form == "hf_parquet":
        return
    draft.files = {
        name: data for name, data in draft.files.items() if not name.lower().endswith((".png", ".jpg", ".jpeg"))
    }
    draft.files["other/unrelated.png"] = pictures.picture(0)
    draft.unclear = "no image is there"
    draft.kinds.append("image:lost")


def _add_caption(draft: Draft) -> None:
    if any(label.kind == "text" for label in draft.labels):
        return
    field = draft.name(words.CAPTIONS)
    values = [f"{draft.chance.choice(words.SENTENCES)} no {n}" for n in range(draft.count)]
    draft.columns[field] = values
    draft.labels.append(Label((field,), [[value] for value in values], kind="text", is_first=False))
    draft.roles.append(Role("text", (field,)))
    draft.kinds.append("caption:beside")


def _add_group(draft: Draft) -> None:
    field = draft.name(words.GROUPS)
    draft.columns[field] = draft.spread([f"p{n:03d}" for n in range(draft.count // 3 + 2)])
    draft.kinds.append("group:present")


def _add_junk(draft: Draft) -> None:
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


# Labels that say nothing without the names of columns.
_NEED_NAMES = ("pair", "one_hot", "vector", "json")
_MORE: Sequence[tuple[float, Callable[[Draft], None]]] = (
    (0.3, _add_split),
    (0.14, _add_boxes),
    (0.07, _add_mask),
    (0.08, _add_caption),
    (0.08, _add_group),
    (0.1, _add_objects),
    (0.06, _add_outline),
    (0.03, _lose_images),
)


# Writers -------------------------------------------------------------------------------------------------------------


def _cell(value: Any) -> str:
    return "" if value is None else str(value)


def _write_rows(draft: Draft, *, delimiter: str, has_header: bool = True) -> bytes:
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator=draft.chance.choice(("\n", "\r\n")))
    if has_header:
        writer.writerow(draft.columns)
    for row in zip(*draft.columns.values(), strict=True):
        writer.writerow([_cell(value) for value in row])
    return file.getvalue().encode()


def _write_csv(draft: Draft) -> None:
    name = draft.chance.choice(("labels.csv", "data.csv", "annotations.csv", "metadata.csv", "table.csv"))
    draft.files[name] = _write_rows(draft, delimiter=draft.chance.choices(",;|", (80, 15, 5))[0])
    draft.settings["input"] = f"{{root}}/{name}"


def _write_tsv(draft: Draft) -> None:
    draft.files["data.tsv"] = _write_rows(draft, delimiter="\t")
    draft.settings["input"] = "{root}/data.tsv"


def _unname(draft: Draft) -> None:
    """Replaces names of columns by places, in what the case expects."""
    draft.settings = {name: value for name, value in draft.settings.items() if not name.endswith("_column")}
    places = {name: n for n, name in enumerate(draft.columns, 1)}

    def words_of(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(
            word
            for name in names
            for word in ([f"column_{places[name]}", f"column {places[name]}"] if name in places else [name])
        )

    draft.roles = [Role(role.kind, words_of(role.words)) for role in draft.roles]

    def fields_of(one: Label | Split, usual: str) -> tuple[str, ...]:
        return (*(f"column_{places[name]}" for name in one.fields if name in places), usual)

    draft.labels = [
        label if label.fields == REST else dataclasses.replace(label, fields=fields_of(label, "label"))
        for label in draft.labels
    ]
    draft.splits = [dataclasses.replace(split, fields=fields_of(split, "split")) for split in draft.splits]


def _write_headerless(draft: Draft) -> None:
    draft.files["data.csv"] = _write_rows(draft, delimiter=draft.chance.choice(",,;\t"), has_header=False)
    draft.settings["input"] = "{root}/data.csv"
    _unname(draft)


def _write_list(draft: Draft) -> None:
    """Writes cells between spaces; a text goes to the end of its line."""
    last = draft.labels[0].fields[0] if draft.labels else ""
    is_text = len(draft.columns) == 2 and last in draft.columns
    names = [*(name for name in draft.columns if name != last), last] if is_text else list(draft.columns)
    draft.columns = {name: draft.columns[name] for name in names}
    if not is_text:
        for name, values in draft.columns.items():
            draft.columns[name] = [value.replace(" ", "_") if isinstance(value, str) else value for value in values]
        draft.labels = list(map(_without_spaces, draft.labels))
    elif draft.labels[0].kind == "text" and draft.chance.random() < 0.6:
        draft.settings["label_type"] = "text"
    rows = list(zip(*draft.columns.values(), strict=True))
    lines = [" ".join(map(_cell, row)) for row in rows]
    rest = [[" ".join(map(_cell, row[1:]))] for row in rows]
    draft.labels.append(Label(REST, rest, is_first=False))
    name = draft.chance.choice(("list.txt", "labels.txt", "train.txt", "files.txt", "annotations.txt"))
    draft.files[name] = ("\n".join(lines) + "\n").encode()
    draft.settings["input"] = f"{{root}}/{name}"
    if draft.chance.random() < 0.7:
        draft.settings["source"] = "csv"
    _unname(draft)


def _without_spaces(label: Label) -> Label:
    def joined(several: Sequence[Sequence[Any]]) -> list[list[Any]]:
        return [[one.replace(" ", "_") if isinstance(one, str) else one for one in values] for values in several]

    names = {number: name.replace(" ", "_") for number, name in label.names.items()}
    return dataclasses.replace(label, values=joined(label.values), rows=joined(label.rows), names=names)


def _write_jsonl(draft: Draft) -> None:
    draft.files["data.jsonl"] = _json_lines(draft)
    draft.settings["input"] = "{root}/data.jsonl"


def _json_lines(draft: Draft) -> bytes:
    keeps = draft.chance.random() < 0.3
    rows = zip(*draft.columns.values(), strict=True)
    named = (dict(zip(draft.columns, row, strict=True)) for row in rows)
    lines = [
        json.dumps({name: value for name, value in row.items() if keeps or value is not None}, ensure_ascii=False)
        for row in named
    ]
    return ("\n".join(lines) + "\n").encode()


def _parquet(draft: Draft) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(dict(draft.columns)), file)
    return file.getvalue()


def _write_parquet(draft: Draft) -> None:
    draft.files["data.parquet"] = _parquet(draft)
    draft.settings["input"] = "{root}/data.parquet"


def _write_hf_folder(draft: Draft) -> None:
    # The table lies beside its images.
    kind = draft.chance.choice(("csv", "jsonl"))
    data = _write_rows(draft, delimiter=",") if kind == "csv" else _json_lines(draft)
    draft.table = f"metadata.{kind}"
    draft.files[draft.table] = data
    draft.settings["input"] = "{root}"
    if draft.chance.random() < 0.7:
        draft.settings["source"] = "hf_folder"


def _write_hf_parquet(draft: Draft) -> None:
    name = draft.chance.choice(("images.parquet", "train-00000-of-00001.parquet", "0000.parquet"))
    draft.files[name] = _parquet(draft)
    draft.settings["input"] = f"{{root}}/{name}"


WRITERS: Mapping[str, Callable[[Draft], None]] = {
    "csv": _write_csv,
    "tsv": _write_tsv,
    "csv_headerless": _write_headerless,
    "list": _write_list,
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
    "hf_folder": _write_hf_folder,
    "hf_parquet": _write_hf_parquet,
}
