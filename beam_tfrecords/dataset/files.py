"""The names of all files of a dataset; no other module contains them."""

from __future__ import annotations

import dataclasses
import re
from typing import TypeAlias

MANIFEST = "manifest.json"
# List of the shards of a dataset with very many; otherwise the manifest lists them.
SHARDS = "shards.parquet"
FAILURES = "failures.jsonl"
DUPLICATES = "duplicates.jsonl"
CHANGES = "changes.json"
LABEL_MAP = "label_map.pbtxt"
REPORT = "report.html"
CARD = "README.md"
CROISSANT = "croissant.json"
DATASET_INFO = "dataset_info.json"
FEATURES = "features.json"
LATEST = "LATEST"
# Contains the version that LATEST must keep naming.
PINNED = "PINNED"
# Says when the last run found nothing new.
UNCHANGED = "UNCHANGED"
SUCCESS = "_SUCCESS"
# Marks a version that is being removed; contains the names of its files.
REMOVED = "_REMOVED"
INDEX_FOLDER = "index"
# Names of version folders.
VERSION_NAME = re.compile(r"[0-9]{8}T[0-9]{6}Z")
# All files except shards, label files, and files in folders.
_FIXED = frozenset(
    {
        CARD, CHANGES, CROISSANT, DATASET_INFO, DUPLICATES, FAILURES, FEATURES, LABEL_MAP, MANIFEST, REMOVED, REPORT,
        SHARDS, SUCCESS,
    }
)  # fmt: skip
_LABELS = ".labels.txt"
# Folder -> suffix of its files.
FOLDERS = {INDEX_FOLDER: ".parquet"}


def label_file(feature: str) -> str:
    """Returns the file with the class names of a feature, as TFDS names it."""
    return f"{feature.replace('/', '-')}{_LABELS}"


def is_dataset_file(name: str) -> bool:
    """Whether a file, relative to the folder of a dataset, has a name of a dataset's files.

    These are the names that a build writes, and all names that readers find with globs such as `*.tfrecord*`.
    """
    folder, _, file = name.rpartition("/")
    if folder:
        return folder in FOLDERS and file.endswith(FOLDERS[folder])
    return name in _FIXED or ".tfrecord" in name or name.endswith(_LABELS)


# (split, number, of)
ShardKey: TypeAlias = "tuple[str, int, int]"


@dataclasses.dataclass(frozen=True)
class ShardNames:
    """File names of shards and their indices, as in TFDS.

    Attributes:
      folder: folder of the dataset.
      prefix: the name before the split.
      staging: folder for unfinished files.
    """

    folder: str
    prefix: str
    staging: str

    def shard(self, key: ShardKey) -> str:
        """Returns the file name of a shard."""
        split, number, of = key
        stem = "-".join(word for word in (self.prefix, split) if word)
        return f"{stem}.tfrecord-{number:05d}-of-{of:05d}"

    def is_shard(self, name: str) -> bool:
        """Whether a file without a split has the name of a shard with any number."""
        return re.fullmatch(rf"{re.escape(self.prefix)}\.tfrecord-\d{{5,}}-of-\d{{5,}}", name) is not None

    def index(self, key: ShardKey) -> str:
        """Returns the name of a shard's index file, relative to the dataset's folder."""
        split, number, of = key
        return f"{INDEX_FOLDER}/{self.prefix}-{split}-{number:05d}-of-{of:05d}.parquet"
