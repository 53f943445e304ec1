"""Images in folders: the class is the first folder's name, or what a pattern finds in the path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from transforms import storage
from transforms.errors import FailureReason
from transforms.sources.names import is_utf8, printable, skipped_kind
from transforms.sources.roots import Root
from transforms.sources.spec import Skipped
from transforms.values import SampleRef

OUTSIDE_SPLITS = "outside the split folders"
_BESIDE_SPLITS = (FailureReason.UNKNOWN_SPLIT.value, "lies beside the split folders, not in one")


class ImageFolder:
    """Lists the images below one or more roots.

    Attributes:
      name: "image_folder", or "filename_pattern" if labels come from a pattern.
      skipped: files seen that are no samples; complete when `samples` has ended.
      columns: none.
      column_types: none.
      has_images: always.
    """

    columns: Sequence[str] = ()
    column_types: Mapping[str, str] | None = None
    has_images = True

    def __init__(self, roots: Sequence[Root], *, label_pattern: re.Pattern[str] | None = None) -> None:
        self.name = "image_folder" if label_pattern is None else "filename_pattern"
        self.skipped = Skipped()
        self._roots = roots
        self._label_pattern = label_pattern

    def samples(self) -> Iterator[SampleRef]:
        """One reference per image, in the order in which the storage lists them; to be iterated once."""
        for root in self._roots:
            start = root.start
            for entry in storage.list_files(root.listing, special=True):
                relative = entry.path[start:]
                kind = skipped_kind(relative)
                top, below, rest = relative.partition("/")
                split = root.splits.get(top) if root.splits is not None and below else None
                if kind is None and split is None and root.only_splits:
                    kind = OUTSIDE_SPLITS
                key = root.key_prefix + relative
                if kind is not None:
                    self.skipped.add(kind, printable(key))
                    continue
                failure = _failure(entry)
                if failure is None and split is None and root.splits is not None:
                    failure = _BESIDE_SPLITS
                if failure is not None and not is_utf8(entry.path):
                    yield SampleRef(key=printable(key), uri=printable(entry.path), split=split, failure=failure)
                    continue
                if self._label_pattern is not None:
                    label = find_label(self._label_pattern, key)
                else:
                    label = class_folder(relative if split is None else rest)
                yield SampleRef(key, entry.path, max(entry.size, 0), entry.fingerprint, label, split, {}, failure)


def class_folder(relative: str) -> str | None:
    """The first folder of a path; None for a file that lies in none."""
    folder, slash, _ = relative.partition("/")
    return folder if slash else None


def find_label(pattern: re.Pattern[str], key: str) -> str | None:
    """What the group `label` matches where the pattern first fits; None if it does not fit or is empty."""
    match = pattern.search(key)
    return (match["label"] or None) if match else None


def _failure(entry: storage.FileEntry) -> tuple[str, str] | None:
    if not is_utf8(entry.path):
        return (FailureReason.UNREADABLE.value, "the file's name is not valid UTF-8; rename it")
    if entry.size < 0:
        return (FailureReason.UNREADABLE.value, "no regular file, or a link that leads nowhere")
    return None
