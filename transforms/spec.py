"""What a build is asked to do: one immutable value, checked before anything starts."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Mapping
from typing import Any

from transforms.examples.layouts import Layout
from transforms.images.spec import ImageSpec
from transforms.sources.spec import SourceSpec
from transforms.tfrecord import Compression

_NAME = re.compile(r"[a-z][a-z0-9_]*")
NAME_RULE = "lower-case letters, digits and underscores, beginning with a letter"


@dataclasses.dataclass(frozen=True)
class Splits:
    """The rule that gives every sample its split.

    Attributes:
      fractions: split -> share of the samples, cut from a hash of the key; or None.
      folders: folder below the root -> split; or None.
        With neither, the source's own words are the splits, and what has none is `train`.
    """

    fractions: Mapping[str, float] | None = None
    folders: Mapping[str, str] | None = None


class Duplicates(str, enum.Enum):
    """What happens to images with the same bytes: KEEP all, DROP all but one, or FAIL the build."""

    KEEP = "keep"
    DROP = "drop"
    FAIL = "fail"


@dataclasses.dataclass(frozen=True)
class BuildSpec:
    """Everything that decides the content of a dataset.

    Attributes:
      source: where samples come from.
      output: folder of the dataset.
      name: the dataset's name, the first part of its files' names.
      class_names: classes in index order, or None for those found.
      splits: how samples get their split.
      image: how images are converted.
      layout: features of an example; None for a table's own columns.
      shard_size: bytes of a shard that shards come near to.
      num_shards: fixed number of shards per split, or None for `shard_size` to decide.
      compression: "none" or "gzip".
      seed: of the order and of fractions of splits.
      max_failures: share of the samples that may fail.
      max_file_size: bytes of the largest source file that is read.
      image_timeout: seconds that one image may take.
      duplicates: what happens to images with the same bytes.
      overwrite: whether a finished dataset may be replaced.
    """

    source: SourceSpec
    output: str
    name: str
    class_names: tuple[str, ...] | None = None
    splits: Splits = dataclasses.field(default_factory=Splits)
    image: ImageSpec = dataclasses.field(default_factory=ImageSpec)
    layout: Layout | None = None
    shard_size: int = 150 * 10**6
    num_shards: int | None = None
    compression: Compression = "none"
    seed: int = 0
    max_failures: float = 0.01
    max_file_size: int = 10**9
    image_timeout: int = 60
    duplicates: Duplicates = Duplicates.KEEP
    overwrite: bool = False

    def to_json(self) -> dict[str, Any]:
        """The spec in the words of a spec file, defaults filled in."""
        source, image, splits = self.source, self.image, self.splits
        by_folder = splits.folders and {split: folder for folder, split in splits.folders.items()}
        return {
            "input": source.input[0] if len(source.input) == 1 else list(source.input),
            "source": source.source,
            "output": self.output,
            "name": self.name,
            "label_pattern": source.label_pattern,
            "class_names": list(self.class_names) if self.class_names is not None else None,
            "image_column": source.image_column,
            "label_column": source.label_column,
            "split_column": source.split_column,
            "key_column": source.key_column,
            "splits": dict(splits.fractions or by_folder or {}) or "auto",
            "image_size": "{}x{}".format(*image.size) if image.size else None,
            "resize_mode": image.resize_mode.value,
            "resample": image.resample.value,
            "upscale": image.upscale,
            "image_encoding": image.encoding.value,
            "codec": image.codec.value,
            "jpeg_quality": image.jpeg_quality,
            "channels": image.channels or "keep",
            "check": image.check.value,
            "layout": self.layout.to_json() if self.layout else None,
            "shard_size": self.shard_size,
            "num_shards": self.num_shards,
            "compression": self.compression,
            "seed": self.seed,
            "max_failures": self.max_failures,
            "max_pixels": image.max_pixels,
            "max_file_size": self.max_file_size,
            "image_timeout": self.image_timeout,
            "allow_truncated": image.allow_truncated,
            "duplicates": self.duplicates.value,
            "allow_outside_root": source.allow_outside_root,
        }


def is_name(word: str) -> bool:
    """Whether a word can name a dataset or a split: TFDS takes nothing else."""
    return bool(_NAME.fullmatch(word))
