"""What is asked of a source: the part of a build's spec that the source modules need."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping

_MOST_KINDS = 100


@dataclasses.dataclass(frozen=True)
class SourceSpec:
    """Where the samples are and how to read their labels and splits.

    Attributes:
      input: folder, glob or manifest; local or with a scheme (`gs://`). Several: keys then begin with
        the last component of each root, so that they stay unique.
      source: name of the source, or "auto".
      label_pattern: regular expression with a named group `label`, searched in the key.
      image_column: manifest column with the image's path; None: `image` if the manifest has it, else
        the manifest has no images.
      label_column: manifest column with the label; None: `label` if there.
      split_column: manifest column with the split; None: `split` if there.
      key_column: manifest column with the key; None: the image's path as written, else the row's number.
      split_folders: folder name below the root -> split name, for explicit splits by folder; None for
        `auto` (see `splits_auto`) or for splits that do not come from folders.
      splits_auto: find the splits from the folders train, val, validation and test.
      columns: manifest columns that the layout asks for; None for all.
      needs_label: whether the layout has a label feature (a source without labels is refused if so).
      allow_outside_root: a manifest may name files outside its own folder.
    """

    input: tuple[str, ...]
    source: str = "auto"
    label_pattern: str | None = None
    image_column: str | None = None
    label_column: str | None = None
    split_column: str | None = None
    key_column: str | None = None
    split_folders: Mapping[str, str] | None = None
    splits_auto: bool = True
    columns: frozenset[str] | None = frozenset()
    needs_label: bool = True
    allow_outside_root: bool = False


@dataclasses.dataclass
class Skipped:
    """Files that were seen but are no samples: counted by kind, with a few names, never silent.

    Attributes:
      counts: kind ("hidden", or a lower-case extension such as ".txt") -> number of files. Beyond the
        first hundred kinds all others are "other", so that a million odd extensions take no memory.
      examples: kind -> the first few keys.
    """

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    examples: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    def add(self, kind: str, key: str, *, most_examples: int = 3) -> None:
        """Counts one file."""
        if kind not in self.counts and len(self.counts) >= _MOST_KINDS:
            kind = "other"
        self.counts[kind] += 1
        examples = self.examples.setdefault(kind, [])
        if len(examples) < most_examples:
            examples.append(key)
