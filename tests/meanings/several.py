"""Draws inputs of several parts, tables of pixels, and folders of tables."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from tests.framing import example_of, framed
from tests.meanings import pictures, words
from tests.meanings.containers import grey_pictures
from tests.meanings.drafts import SPLIT_OF, Draft, new_draft
from tests.meanings.meaning import Case, Label, Role, Split

SEVERAL_FORMS = ("tables", "folders", "records", "pixel_table")


def draw_several(chance: random.Random, form: str) -> Case:
    """Draws an input."""
    draft = new_draft(chance, form, chance.randrange(8, 13))
    _DRAW[form](draft)
    return draft.case(draft.columns)


def _draw_parts(draft: Draft) -> list[str]:
    """Draws the name of the part that each item is in."""
    chance = draft.chance
    style = chance.choices(("splits", "extra", "plain"), (50, 25, 25))[0]
    names = {
        "splits": chance.choice(
            (("train", "test"), ("train", "val"), ("train", "val", "test"), ("Training", "Testing"))
        ),
        "extra": chance.choice((("train", "test", "extra"), ("train", "extra"), ("train", "test", "unlabeled"))),
        "plain": chance.choice((("site_a", "site_b"), ("2019", "2020"), ("batch1", "batch2"))),
    }[style]
    parts = draft.spread(names)
    draft.kinds.append(f"split:inputs_{style}")
    if style == "splits":
        draft.splits.append(Split(("inputs",), [SPLIT_OF[part.lower()] for part in parts]))
        draft.roles.append(Role("split", ("inputs", *names, "split", "splits")))
    if style == "extra":
        known = [SPLIT_OF.get(part) for part in parts]
        # Whether the further samples are for training is for the user to say.
        draft.splits.append(Split(("inputs",), known))
        draft.roles.append(Role("split", ("inputs", names[-1], "split", "splits")))
    return parts


def _draw_labels(draft: Draft, field: str) -> list[str]:
    labels = draft.spread([name.replace("/", "_") for name in draft.pick_classes() if name != "train"])
    draft.labels.append(Label((field,), [[label] for label in labels]))
    draft.roles.append(Role("label", (field, "label", "labels", *set(labels))))
    return labels


def _draw_tables(draft: Draft) -> None:
    """Draws a table for each part, with images of the same names in each or not."""
    chance = draft.chance
    parts = _draw_parts(draft)
    field = chance.choice(("label", "class", "species"))
    labels = _draw_labels(draft, field)
    draft.images["image"] = draft.add_pictures()
    is_same = chance.random() < 0.3
    rows: dict[str, list[str]] = {}
    for n, (part, label, number) in enumerate(zip(parts, labels, draft.images["image"], strict=True)):
        several = rows.setdefault(part, [])
        name = f"{part}_images/{len(several) if is_same else n}.png"
        draft.files[name] = pictures.picture(number, "png")
        several.append(f'{name},"{label}"\n')
    if "split:inputs_splits" in draft.kinds and not is_same and chance.random() < 0.15:
        first = next(part for part in rows if part != parts[0])
        rows[first].append(chance.choice(("", "./")) + rows[parts[0]][0])
        draft.unclear = "one image in two splits"
        draft.kinds.append("split:contradicts")
    for part, several in rows.items():
        draft.files[f"{part}.csv"] = f"image,{field}\n{''.join(several)}".encode()
    draft.columns = {"image": [], field: list(labels)}
    draft.settings["input"] = chance.choice(([f"{{root}}/{part}.csv" for part in rows], "{root}/*.csv"))


def _draw_folders(draft: Draft) -> None:
    """Draws a folder for each part, with class folders in each."""
    parts = _draw_parts(draft)
    labels = _draw_labels(draft, "folders")
    draft.images["image"] = draft.add_pictures()
    for n, (part, label, number) in enumerate(zip(parts, labels, draft.images["image"], strict=True)):
        draft.files[f"{part}/{label}/{n}.png"] = pictures.picture(number, "png")
    draft.settings["input"] = [f"{{root}}/{part}" for part in sorted(set(parts))]


def _draw_records(draft: Draft) -> None:
    """Draws a file of records for each part, called the same in each folder or not."""
    chance = draft.chance
    parts = _draw_parts(draft)
    labels = _draw_labels(draft, "label")
    draft.images["image"] = draft.add_pictures()
    is_same = chance.random() < 0.6
    for part in sorted(set(parts)):
        records = [
            example_of({"image": pictures.picture(number, "png"), "label": label})
            for one, label, number in zip(parts, labels, draft.images["image"], strict=True)
            if one == part
        ]
        draft.files[f"{part}/data.tfrecord" if is_same else f"{part}.tfrecord"] = framed(*records)
    draft.columns = {"label": list(labels)}
    draft.settings["input"] = "{root}/*/data.tfrecord" if is_same else "{root}/*.tfrecord"


def _draw_pixel_table(draft: Draft) -> None:
    """Draws a table with the pixels in one cell, or in a column each."""
    chance = draft.chance
    draft.images["image"], pixels = grey_pictures(draft)
    names: Sequence[str] = chance.choice(words.CLASSES)
    is_named = chance.random() < 0.4
    base = chance.choice((0, 0, 1))
    cells = draft.spread(names if is_named else [str(n + base) for n in range(len(names))])
    field = chance.choice(("label", "emotion", "class", "target", "y"))
    draft.labels.append(Label((field,), [[cell] for cell in cells]))
    draft.roles.append(Role("label", (field,)))
    draft.kinds.append("label:names" if is_named else f"label:index{base}")
    in_cell = chance.random() < 0.5
    columns: dict[str, list[str]] = {field: [f'"{cell}"' for cell in cells]}
    draft.columns = {field: list(cells)}
    if in_cell:
        columns["pixels"] = [" ".join(map(str, one.reshape(-1))) for one in pixels]
    if chance.random() < 0.4:
        split = chance.choice(("Usage", "split", "set"))
        words_ = draft.spread(("Training", "PublicTest", "PrivateTest") if split == "Usage" else ("train", "test"))
        columns[split] = words_
        draft.splits.append(Split((split,), [SPLIT_OF[word.lower()] for word in words_]))
        draft.roles.append(Role("split", (split,)))
        draft.columns[split] = list(words_)
    if not in_cell:
        count = pixels[0].size
        for place in range(count):
            columns[f"pixel{place}"] = [str(one.reshape(-1)[place]) for one in pixels]
    rows = [",".join(columns), *(",".join(row) for row in zip(*columns.values(), strict=True))]
    draft.files["pixels.csv"] = ("\n".join(rows) + "\n").encode()
    draft.settings["input"] = "{root}/pixels.csv"


_DRAW: Mapping[str, Callable[[Draft], None]] = {
    "tables": _draw_tables,
    "folders": _draw_folders,
    "records": _draw_records,
    "pixel_table": _draw_pixel_table,
}
