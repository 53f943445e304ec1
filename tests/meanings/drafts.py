"""Inputs in the making."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from typing import Any

from tests.meanings import pictures, words
from tests.meanings.meaning import Case, Label, Meaning, Role, Split

# Forms that name no columns, and those whose cells are more than text.
HEADERLESS = ("csv_headerless", "list")
TYPED = ("jsonl", "parquet", "hf_parquet")
# Lower-case word -> the split that it means.
SPLIT_OF = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev", "publictest"), "validation"),
    **dict.fromkeys(("test", "testing", "holdout", "privatetest"), "test"),
}


@dataclasses.dataclass
class Draft:
    """An input in the making.

    Attributes:
      count: number of items.
      start: the first item that has what comes later.
      columns: of a table: name -> cell of each row; None is empty.
      images, labels, splits, boxes, masks, roles, unclear, table: as in `Meaning`.
      files, settings, kinds: as in `Case`.
      folder: folder of the images, with a slash at its end; or "".
      prefixes: what the path of each image begins with.
      numbers: pictures that no item has yet.
      declared: column -> the names of its classes, which the schema declares.
    """

    chance: random.Random
    form: str
    count: int
    start: int
    columns: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    images: dict[str, list[int | None]] = dataclasses.field(default_factory=dict)
    labels: list[Label] = dataclasses.field(default_factory=list)
    splits: list[Split] = dataclasses.field(default_factory=list)
    boxes: list[Any] | None = None
    masks: list[int | None] | None = None
    roles: list[Role] = dataclasses.field(default_factory=list)
    files: dict[str, bytes] = dataclasses.field(default_factory=dict)
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    kinds: list[str] = dataclasses.field(default_factory=list)
    unclear: str = ""
    table: str = ""
    folder: str = ""
    prefixes: list[str] = dataclasses.field(default_factory=list)
    numbers: list[int] = dataclasses.field(default_factory=list)
    declared: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    def name(self, names: Sequence[str]) -> str:
        """Draws the name of a column that no other has."""
        taken = {name.lower() for name in self.columns}
        free = [name for name in names if name.lower() not in taken]
        return self.chance.choice(free or [f"{names[0]}_{len(taken)}"])

    def is_free(self, names: Sequence[str]) -> bool:
        """Whether no column has one of these names."""
        return not {name.lower() for name in self.columns} & {name.lower() for name in names}

    def pick_classes(self) -> list[str]:
        """Draws class names."""
        return list(self.chance.choice(words.CLASSES))

    def spread(self, values: Sequence[Any]) -> list[Any]:
        """Draws a value for each row, so that each value occurs at least twice where rows allow."""
        several = [values[n % len(values)] for n in range(self.count)]
        self.chance.shuffle(several)
        return several

    def shorten(self, cells: list[Any]) -> list[Any]:
        """Takes the value from the first rows, if this table has a role that comes later."""
        return [None if row < self.start else cell for row, cell in enumerate(cells)]

    def add_pictures(self) -> list[int]:
        """Returns the numbers of pictures for each row that no other role has."""
        taken, self.numbers = self.numbers[: self.count], self.numbers[self.count :]
        return taken

    def case(self, cells: Mapping[str, Sequence[Any]]) -> Case:
        """Returns the input; `cells` are as in `Meaning`."""
        meaning = Meaning(
            images=self.images,
            labels=self.labels,
            splits=self.splits,
            boxes=self.boxes,
            masks=self.masks,
            roles=self.roles,
            unclear=self.unclear,
            cells=cells,
            table=self.table,
        )
        return Case(self.form, self.files, self.settings, meaning, self.kinds)


def new_draft(chance: random.Random, form: str, count: int, *, start: int = 0) -> Draft:
    """Returns a draft with pictures for several images of each item."""
    draft = Draft(chance, form, count, start)
    coloured = [number for number in range(pictures.COUNT) if not pictures.is_grey(number)]
    draft.numbers = chance.sample(coloured, min(len(coloured), 4 * count))
    return draft
