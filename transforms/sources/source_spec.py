"""The settings that say where the samples are and how to read their labels and splits."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from transforms import storage
from transforms.errors import RequestError
from transforms.settings import INPUT, setting, switch
from transforms.sources.registry import NAMES

_INPUT_HELP = "folder, glob, table or archive; local, gs:// or s3://"
_MOST_KINDS = 100
_MOST_EXAMPLES = 3


def _read_input(word: Any) -> tuple[str, ...]:
    paths = word if isinstance(word, (list, tuple)) else [word]
    return tuple(path and storage.absolute(str(path)) for path in paths)


def _write_input(paths: tuple[str, ...]) -> Any:
    return paths[0] if len(paths) == 1 else list(paths)


@dataclasses.dataclass(frozen=True)
class SourceSpec:
    """Where the samples are and how to read their labels and splits.

    Attributes:
      input: folders, tables, archives or globs of them, as absolute paths. With several, the last component
        of each path is the prefix of its keys, which keeps them unique.
      source: name of the source, or "auto".
      label_pattern: regular expression with a group named `label`, searched in the key.
      image_column: column with the image's path; None: `image` if the table has it, else the samples have
        no images.
      label_column: column with the label; None: `label` if the table has it.
      split_column: column with the split; None: `split` if the table has it.
      key_column: column with the key; None: the image's path as written, else the number of the row.
      allow_outside_root: whether a table may name files outside its own folder.
      split_folders: folder below the root -> split, where the request names the folders; else None.
      splits_auto: whether splits come from the folders train, val, validation and test, or a column `split`.
      columns: columns that the layout asks for; None for all.
      needs_label: whether the layout has a label; an input that cannot have labels is then refused.

    Raises:
      RequestError: `input` is empty.
    """

    input: tuple[str, ...] = setting(
        help=_INPUT_HELP, group=INPUT, read=_read_input, write=_write_input, decides_bytes=False
    )
    source: str = setting("auto", help=f"auto, {', '.join(NAMES)}", group=INPUT)
    label_pattern: str | None = setting(
        None, help="regular expression with a group named `label`, searched in the key", group=INPUT
    )
    image_column: str | None = setting(None, help="column with the image's path", group=INPUT, shown_default="image")
    label_column: str | None = setting(None, help="column with the label", group=INPUT, shown_default="label")
    split_column: str | None = setting(None, help="column with the split", group=INPUT, shown_default="split")
    key_column: str | None = setting(None, help="column with the key", group=INPUT, shown_default="the image's path")
    allow_outside_root: bool = setting(
        False, help="a table may name files outside its own folder", group=INPUT, read=switch
    )
    split_folders: Mapping[str, str] | None = None
    splits_auto: bool = True
    columns: frozenset[str] | None = frozenset()
    needs_label: bool = True

    def __post_init__(self) -> None:
        if not self.input or not all(self.input):
            raise RequestError(f"`input` is missing; expected {_INPUT_HELP}")


@dataclasses.dataclass
class Skipped:
    """Files that are not samples, counted by kind, with the first few keys of each kind.

    Attributes:
      counts: kind ("hidden", or an extension in lower case such as ".txt") -> number of files. After a
        hundred kinds all others are "other", which bounds the memory.
      examples: kind -> the first few keys.
    """

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    examples: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    def add(self, kind: str, key: str) -> None:
        """Counts one file."""
        self._count(kind, 1, [key])

    def merge(self, other: Skipped) -> None:
        """Adds the counts of another listing, such as that of one container."""
        for kind, count in other.counts.items():
            self._count(kind, count, other.examples[kind])

    def _count(self, kind: str, count: int, keys: Iterable[str]) -> None:
        if kind not in self.counts and len(self.counts) >= _MOST_KINDS:
            kind = "other"
        self.counts[kind] += count
        examples = self.examples.setdefault(kind, [])
        examples.extend(list(keys)[: _MOST_EXAMPLES - len(examples)])
