"""Inputs in the making, and what their makers mean by them."""

from __future__ import annotations

import dataclasses
import random
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.meanings import pictures, words
from tests.writers import save

# Fields of the label that is the rest of a line, behind the image.
REST = ("rest",)


@dataclasses.dataclass(frozen=True)
class Label:
    """One thing of an input that may be what samples are labelled with.

    Attributes:
      fields: columns or other names of what holds it; a message names it by any of them.
      values: the label of each item, in their order: class names or numbers as text, floats, or texts; empty without.
      kind: "class", "float" or "text".
      names: value -> the name that it stands for, from another column or a file.
      rows: the class of each row or object of each item, where objects have classes.
      is_first: whether a reader may take it without a question.
    """

    fields: tuple[str, ...]
    values: Sequence[Sequence[Any]]
    kind: str = "class"
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    rows: Sequence[Sequence[str]] = ()
    is_first: bool = True


@dataclasses.dataclass(frozen=True)
class Split:
    """One thing of an input that may say the splits: the fields that hold it, and the split of each item, or None."""

    fields: tuple[str, ...]
    values: Sequence[str | None]


@dataclasses.dataclass(frozen=True)
class Role:
    """Something recognisable that has to be stored or named.

    Attributes:
      kind: "label", "split", "box", "mask", "image", "names", "text", "vector", …
      words: names of the columns or files that hold it; naming one is naming it.
    """

    kind: str
    words: tuple[str, ...]


@dataclasses.dataclass
class Meaning:
    """An input and its meaning.

    Attributes:
      chance: draws what is in it.
      form: its form, such as "csv".
      count: number of items.
      start: the first item that has what comes later.
      images: field -> number of the picture of each item, or None; the first is the one that is meant, if one is.
      labels: what may be the label.
      splits: what may be the split.
      boxes: for each item, its boxes in pixels: xmin, ymin, xmax, ymax; None if there are none.
      masks: value of each item's mask; None if there are none.
      roles: what has to be stored or named.
      unclear: why no reader can know what is meant; "" if one can.
      columns: column -> its cells, for what an offer may name; None is empty.
      table: file beside the images that holds all this, if the input is the folder of both; naming it is enough where
        it is not read.
      files: path below the input's folder -> content.
      settings: those of the request; "{root}" stands for the folder.
      kinds: what it was drawn with, for people.
      folder: folder of the images, with a slash at its end; or "".
      prefixes: what the path of each image begins with.
      numbers: pictures that no item has yet.
      declared: column -> the names of its classes, which the schema declares.
    """

    chance: random.Random
    form: str
    count: int
    start: int = 0
    images: dict[str, list[int | None]] = dataclasses.field(default_factory=dict)
    labels: list[Label] = dataclasses.field(default_factory=list)
    splits: list[Split] = dataclasses.field(default_factory=list)
    boxes: Sequence[Sequence[tuple[float, ...]]] | None = None
    masks: list[int] | None = None
    roles: list[Role] = dataclasses.field(default_factory=list)
    unclear: str = ""
    columns: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    table: str = ""
    files: dict[str, bytes] = dataclasses.field(default_factory=dict)
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    kinds: list[str] = dataclasses.field(default_factory=list)
    folder: str = ""
    prefixes: list[str] = dataclasses.field(default_factory=list)
    numbers: list[int] = dataclasses.field(default_factory=list)
    declared: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.set_count(self.count)

    def set_count(self, count: int) -> None:
        """Sets the number of items, before any has a picture."""
        self.count = count
        colored = [number for number in range(pictures.COUNT) if not pictures.is_gray(number)]
        self.numbers = self.chance.sample(colored, min(len(colored), 4 * self.count))

    def name(self, names: Sequence[str]) -> str:
        """Draws the name of a column that no other has."""
        free = [name for name in names if self.is_free([name])]
        return self.chance.choice(free or [f"{names[0]}_{len(self.columns)}"])

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

    def add_pictures(self, field: str) -> list[int | None]:
        """Gives each item a picture that no other role has; returns their numbers."""
        self.images[field], self.numbers = [*self.numbers[: self.count]], self.numbers[self.count :]
        return self.images[field]

    def add_label(self, field: str, values: Sequence[Any], *role: str, said: Sequence[str] = (), **others: Any) -> None:
        """Adds a label with a value for each item, None or a list of values.

        Args:
          role: its kind, if that is not "label".
          said: words that name it; by default its field.
          others: attributes of `Label`.
        """
        is_class = others.get("kind", "class") == "class"
        lists = [one if isinstance(one, list) else [] if one is None else [one] for one in values]
        lists = [[canonical(one) for one in several] if is_class else several for several in lists]
        self.labels.append(Label((field,), lists, **{"rows": lists if is_class else (), **others}))
        self.roles.append(Role(*(role or ("label",)), tuple(said) or (field,)))

    def add_split(self, field: str, cells: Sequence[Any], *said: str) -> None:
        """Adds a split that words say; `said` names it, by default its field."""
        self.splits.append(Split((field,), [cell and words.SPLIT_OF[cell.lower()] for cell in cells]))
        self.roles.append(Role("split", (field, *said)))

    def write(self, root: Path) -> dict[str, Any]:
        """Writes the files; returns the settings of the request."""
        for name, data in self.files.items():
            save(root / name, data)
        return {name: fill(value, root) for name, value in self.settings.items()}


def fill(value: Any, root: Path) -> Any:
    """Returns a value of a setting with the folder for "{root}"."""
    if isinstance(value, list):
        return [fill(one, root) for one in value]
    return value.replace("{root}", str(root)) if isinstance(value, str) else value


def canonical(value: Any) -> str:
    """Returns a label as the name of a class: `3.0` is 3, and spaces around it do not count."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return unicodedata.normalize("NFC", str(value).strip())
