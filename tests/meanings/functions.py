"""Draws inputs that are functions of the user."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import Sample
from tests.meanings import pictures, words
from tests.meanings.containers import draw_fields
from tests.meanings.drafts import new_draft
from tests.meanings.meaning import Case, Role

FUNCTION_FORMS = ("python",)
_FIELDS = {
    "index": ("label", "class_id"),
    "twin": ("label_name", "category"),
    "names": ("label", "label", "species"),
    "text": ("caption", "text"),
    "vector": ("votes", "label"),
    "split": ("split", "split", "subset"),
}


def draw_function(chance: random.Random, form: str) -> Case:
    """Draws a function whose samples have labels, splits and columns."""
    draft = new_draft(chance, form, chance.randrange(6, 10))
    fields = draft.columns = draw_fields(draft, _FIELDS)
    draft.images["image"] = draft.add_pictures()
    if chance.random() < 0.15:
        second = chance.choice([name for pair in words.SECOND_IMAGES for name in pair])
        draft.images[second] = draft.add_pictures()
        draft.roles.append(Role("image", (second,)))
        draft.kinds.append("image2:present")
    # A sample is the user's own: what it calls its label is meant, and its columns need no names.
    label = draft.labels[0].fields[0] if draft.labels else ""
    draft.roles = [role for role in draft.roles if role.kind in ("split", "image") or label in role.words]
    draft.unclear = ""
    draft.labels = [
        dataclasses.replace(one, kind="class", is_first=True) if one.kind == "text" and label in one.fields else one
        for one in draft.labels
    ]
    if not label:
        draft.settings["layout"] = "image"
    function = functools.partial(rows, fields=fields, images=draft.images, label=label)
    functools.update_wrapper(function, rows)
    draft.settings["input"] = function
    return draft.case(draft.columns)


def rows(
    *, fields: Mapping[str, Sequence[Any]], images: Mapping[str, Sequence[int | None]], label: str
) -> Iterator[Sample]:
    """Yields a sample for each item."""
    for n in range(len(images["image"])):
        values = {name: cells[n] for name, cells in fields.items()}
        yield Sample(
            f"sample-{n}",
            images={name: pictures.picture(numbers[n], "png") for name, numbers in images.items()},
            label=values.pop(label, None),
            split=values.pop("split", None),
            columns=values,
        )
