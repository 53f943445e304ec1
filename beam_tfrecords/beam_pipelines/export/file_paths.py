"""Chooses the paths of the files of each record: by feature, split, class and key; safe on every file system."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

# Separators, controls, what Windows forbids, and what globs and shells expand.
_UNSAFE = re.compile(r'[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028-\u202e\u2066-\u2069/\\:*?"<>|\[\]{}]')
# Names of devices on Windows, with any extension.
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", re.IGNORECASE)
_MOST_BYTES = 150
_DIGITS = 16
_MARKED = re.compile(rf"-[0-9a-f]{{{_DIGITS}}}$")


class FilePaths:
    """Paths of files, relative to the folder of an export.

    Args:
      reserved: names in the folder that are taken.
      columns: columns of paths whose files have a folder of their own; others are in the folder of their split.
      splits: names of the splits.
      class_names: the classes, if images have a folder for each.
      records: split, key and class of each record.
    """

    def __init__(
        self,
        reserved: Sequence[str],
        columns: Sequence[str],
        splits: Iterable[str],
        class_names: Sequence[str],
        records: Iterable[tuple[str, str, str | None]],
    ) -> None:
        self.folders: Mapping[str, str] = name_folders([*reserved, *columns, *splits])
        self._columns = frozenset(columns)
        self._classes = name_folders(class_names)
        self._shared = find_shared(np.fromiter((number_of(self._stem(*record)) for record in records), np.int64))

    def of_record(self, split: str, key: str, label: str | None, column: str) -> str:
        """Returns the path of a file without extension."""
        stem = self._stem(split, key, label)
        folder, _, name = stem.rpartition("/")
        name = distinct(name, key, is_shared=number_of(stem) in self._shared)
        return "/".join([*([self.folders[column]] if column in self._columns else []), folder, name])

    def _stem(self, split: str, key: str, label: str | None) -> str:
        folders = [self.folders[split], *([self._classes[label]] if label in self._classes else [])]
        return "/".join([*folders, stem_of(key, [split, label or ""])])


def safe_name(text: str) -> str:
    """Converts a text to the name of a file or folder: no separators, no leading dot, 150 bytes at most."""
    name = _UNSAFE.sub("_", unicodedata.normalize("NFC", text)).strip(" ")
    name = name.encode()[:_MOST_BYTES].decode(errors="ignore").rstrip(". ")
    if not name or name.startswith((".", "-", "_")) or _DEVICE.match(name):
        name = f"x{name}"
    return name


def name_folders(names: Iterable[str]) -> dict[str, str]:
    """Returns name -> folder; no two folders have names that differ only by case."""
    folders: dict[str, str] = {}
    for name in names:
        folder = safe_name(name)
        taken = {_fold(one) for one in folders.values()}
        folders[name] = _marked(folder, name) if _fold(folder) in taken or _MARKED.search(folder) else folder
    return folders


def stem_of(key: str, folders: Sequence[str]) -> str:
    """Returns the name of a record's files without extension: its key without the folders that the path already has.

    Args:
      key: the key.
      folders: names of split and class, with which a key may start.
    """
    parts = [part for part in key.split("/") if part]
    while len(parts) > 1 and parts[0] in folders:
        del parts[0]
    stem, extension = os.path.splitext("_".join(parts))
    return safe_name(stem if re.fullmatch(r"\.[A-Za-z0-9]{1,5}", extension) else stem + extension)


def number_of(path: str) -> int:
    """Returns a hash of 63 bits; paths that differ only in case have the same one."""
    return int.from_bytes(hashlib.blake2b(_fold(path).encode(), digest_size=8).digest(), "little") >> 1


def find_shared(numbers: np.ndarray) -> frozenset[int]:
    """Returns the numbers that occur more than once."""
    values, counts = np.unique(numbers, return_counts=True)
    return frozenset(values[counts > 1].tolist())


def distinct(stem: str, key: str, *, is_shared: bool) -> str:
    """Returns the stem, with a hash of the key if other records may have the same stem."""
    return _marked(stem, key) if is_shared or _MARKED.search(stem) else stem


def _marked(name: str, text: str) -> str:
    return f"{name}-{hashlib.blake2b(text.encode(errors='surrogateescape'), digest_size=_DIGITS // 2).hexdigest()}"


def _fold(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())
