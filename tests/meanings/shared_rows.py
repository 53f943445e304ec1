"""Draws tables in which several rows share an image: a row for each box, caption or class."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.meanings import pictures, words
from tests.meanings.drafts import SPLIT_OF, Draft
from tests.meanings.meaning import Label, Role, Split

SHARED_FORMS = ("csv", "tsv", "jsonl", "parquet", "hf_folder")


def draw_shared_rows(draft: Draft) -> Mapping[str, Sequence[Any]]:
    """Draws columns with one to three rows for each item; returns column -> the values of each item."""
    chance = draft.chance
    counts = [2, *(chance.choice((1, 1, 2, 3)) for _ in range(draft.count - 1))]
    field = "file_name" if draft.form == "hf_folder" else draft.name(words.IMAGES)
    draft.images[field] = draft.add_pictures()
    names = [f"{draft.folder}{n:04d}.jpg" for n in range(draft.count)]
    for name, number in zip(names, draft.images[field], strict=True):
        draft.files[name] = pictures.picture(number, "jpg")
    values: dict[str, list[list[Any]]] = {field: [[name] * count for name, count in zip(names, counts, strict=True)]}
    style = chance.choices(list(_STYLES), [4, 3, 3])[0]
    values |= _STYLES[style](draft, counts)
    draft.kinds.append(f"rows:{style}")
    if chance.random() < 0.4:
        values |= _draw_split(draft, counts)
    draft.columns = {name: list(itertools.chain.from_iterable(of_each)) for name, of_each in values.items()}
    return {name: [list(dict.fromkeys(map(str, one))) for one in of_each] for name, of_each in values.items()}


def _draw_split(draft: Draft, counts: Sequence[int]) -> dict[str, list[list[Any]]]:
    chosen = draft.spread(("train", "test"))
    values = [[split] * count for split, count in zip(chosen, counts, strict=True)]
    if draft.chance.random() < 0.25:
        values[0] = ["train", "test"]
        draft.unclear = "rows of one image in two splits"
        draft.kinds.append("split:contradicts")
    draft.splits.append(Split(("split",), [SPLIT_OF[split] for split in chosen]))
    draft.roles.append(Role("split", ("split",)))
    return {"split": values}


def _draw_boxes(draft: Draft, counts: Sequence[int]) -> dict[str, list[list[Any]]]:
    chance = draft.chance
    sides, style = chance.choice(words.FOUR_SIDES)
    names = draft.pick_classes()
    field = draft.name((*words.LABELS, "name", "class_id"))
    boxes: list[list[tuple[float, ...]]] = []
    for count in counts:
        corners = [(chance.randrange(1, 20), chance.randrange(1, 15)) for _ in range(count)]
        boxes.append(
            [
                (x, y, chance.randrange(x + 5, pictures.WIDTH), chance.randrange(y + 5, pictures.HEIGHT))
                for x, y in corners
            ]
        )
    draft.boxes = boxes
    labels = [[chance.choice(names) for _ in range(count)] for count in counts]
    labels[0] = names[:2]
    draft.labels.append(Label((field,), [list(dict.fromkeys(one)) for one in labels], rows=labels))
    draft.roles += [Role("label", (field,)), Role("box", sides)]
    written = [
        [(x, y, right - x, bottom - y) if style == "xywh" else (x, y, right, bottom) for x, y, right, bottom in found]
        for found in boxes
    ]
    return {field: labels, **{side: [[box[n] for box in found] for found in written] for n, side in enumerate(sides)}}


def _draw_captions(draft: Draft, counts: Sequence[int]) -> dict[str, list[list[Any]]]:
    field = draft.name(words.CAPTIONS)
    texts = [
        [f"{draft.chance.choice(words.SENTENCES)} {n}-{m}" for m in range(count)] for n, count in enumerate(counts)
    ]
    draft.labels.append(Label((field,), texts, kind="text"))
    draft.roles.append(Role("text", (field,)))
    return {field: texts}


def _draw_classes(draft: Draft, counts: Sequence[int]) -> dict[str, list[list[Any]]]:
    field = draft.name(words.LABELS)
    names = ["sky", "sea", "sand", "tree"]
    labels = [draft.chance.sample(names, count) for count in counts]
    draft.labels.append(Label((field,), labels))
    draft.roles.append(Role("label", (field,)))
    return {field: labels}


_STYLES: Mapping[str, Callable[[Draft, Sequence[int]], dict[str, list[list[Any]]]]] = {
    "boxes": _draw_boxes,
    "captions": _draw_captions,
    "classes": _draw_classes,
}
