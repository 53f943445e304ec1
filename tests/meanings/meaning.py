"""What the maker of an input means by it."""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
      kind: "label", "split", "box", "mask", "image", "names", "text", "vector", "group", …
      words: names of the columns or files that hold it; naming one is naming it.
      numbers: field of an image -> number of the picture of each item, of a further image.
    """

    kind: str
    words: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Meaning:
    """The meaning of an input.

    Attributes:
      images: field -> number of the picture of each item, or None; the first is the one that is meant, if one is.
      labels: what may be the label.
      splits: what may be the split.
      boxes: for each item, its boxes in pixels: xmin, ymin, xmax, ymax; None if there are none.
      masks: value of each item's mask; None if there are none.
      roles: what has to be stored or named.
      unclear: why no reader can know what is meant; "" if one can.
      cells: column -> its values, for what a suggestion may name.
      table: file beside the images that holds all this, if the input is the folder of both; naming it is enough where
        it is not read.
    """

    images: Mapping[str, Sequence[int | None]]
    labels: Sequence[Label] = ()
    splits: Sequence[Split] = ()
    boxes: Sequence[Sequence[tuple[float, ...]]] | None = None
    masks: Sequence[int | None] | None = None
    roles: Sequence[Role] = ()
    unclear: str = ""
    cells: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    table: str = ""

    @property
    def count(self) -> int:
        """Number of items."""
        return len(next(iter(self.images.values())))


@dataclasses.dataclass
class Case:
    """An input.

    Attributes:
      form: its form, such as "csv".
      files: path below the input's folder -> content.
      settings: those of the request; "{root}" stands for the folder.
      meaning: what it means.
      kinds: the roles that it was drawn with, for people.
    """

    form: str
    files: dict[str, bytes]
    settings: dict[str, Any]
    meaning: Meaning
    kinds: list[str]

    def write(self, root: Path) -> dict[str, Any]:
        """Writes the files; returns the settings of the request."""
        folders: set[str] = set()
        for name, data in self.files.items():
            path = f"{root}/{name}"
            folder = path.rpartition("/")[0]
            if folder not in folders:
                Path(folder).mkdir(parents=True, exist_ok=True)
                folders.add(folder)
            with open(path, "wb") as file:
                file.write(data)
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
