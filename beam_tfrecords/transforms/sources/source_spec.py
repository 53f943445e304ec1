"""The settings of the input."""

from __future__ import annotations

import dataclasses
import enum
import re
from typing import Any, ClassVar

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.settings import (
    INPUT,
    input_setting,
    one_of,
    setting,
    switch,
    write_list,
)
from beam_tfrecords.transforms.sources.braces import split_list
from beam_tfrecords.transforms.sources.input_settings import (
    PathSettings,
    image_folders,
    read_input,
    read_mapping_word,
    read_roots,
    write_input,
    write_roots,
)
from beam_tfrecords.transforms.sources.registry import NAMES, find_source
from beam_tfrecords.transforms.sources.selection import Selection, read_names
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings

_INPUT_HELP = "folder, glob, table or archive; local, gs:// or s3://; or a function of yours, module:function"
_MASK_SETTINGS = ("mask_root", "mask_column", "mask_suffix", "image_suffix", "mask_classes")


class Window(str, enum.Enum):
    """Numbers of a scan that are black and white: those that its file says, or FULL for the smallest and largest."""

    FILE = "file"
    FULL = "full"


class Fingerprint(str, enum.Enum):
    """How to detect changed files: STAT by size and modification time, CONTENT by a hash of the bytes."""

    STAT = "stat"
    CONTENT = "content"


def _read_parts(word: Any) -> tuple[str | int | float, ...]:
    parts = tuple(split_list(word) if isinstance(word, str) else word)
    wrong = next((part for part in parts if not isinstance(part, str | int | float)), None)
    if wrong is not None:
        raise ValueError(f"a part of type {type(wrong).__name__}; expected texts or numbers")
    if len(set(parts)) < len(parts):
        raise ValueError("the same part twice; expected each once")
    return parts


def _read_payer(word: Any) -> str | None:
    payer = str(word)
    if payer.lower() in ("true", "false"):
        return "true" if payer.lower() == "true" else None
    if re.fullmatch(r"[a-z][a-z0-9.:-]*[a-z0-9]", payer):
        return payer
    raise ValueError("expected true, false, or the project of Google Cloud that pays")


def _read_source(word: Any) -> str:
    """Reads the name of a source."""
    return "auto" if word == "auto" else find_source(str(word), f"`source={word}`").name


@dataclasses.dataclass(frozen=True)
class SourceSpec(Selection, PathSettings, TableSettings):
    """Settings of the input: the location of the samples, and how to read labels and splits.

    Attributes:
      order: the settings in the order of the help and of the manifest.
      input: absolute paths of folders, tables, archives or globs. With several inputs, keys begin with the shortest
        end of each path that tells the inputs apart, usually its last component.
      source: name of the source, or auto.
      mapping: where things are in documents: name of a mapping of ours, or path of a file. None for other sources.
      save_mapping: path of the file for a mapping that is drafted from the documents, and read from then on.
      parts: arguments of the input function, which is called once for each.
      label_pattern: regular expression that finds the label in a key; None if folders or columns give the labels.
      allow_private_addresses: whether a table may contain URLs of this machine and of private networks.
      trust_annotations: whether to accept annotations that match no image, or whose boxes do not fit their images.
      window: which numbers of DICOM and NIfTI files are black and white.
      join: tables whose columns are joined to the samples, and lists of the samples of a split, as train=LIST.
      join_key: columns of these tables with the keys of the samples.
      fingerprint: how to detect changed files.
      requester_pays: payer for requests to requester-pays buckets, as in `storage.StorageOptions`.
    """

    order: ClassVar = (
        "input", "source", "mapping", "save_mapping", "parts", "label_pattern", "image_column", "label_column",
        "label_type", "group_rows", "label_columns", "split_column", "key_column", "allow_outside_root",
        "allow_private_addresses", "trust_annotations", "images", "image_path", "image_root", "mask_root",
        "mask_column", "mask_suffix", "image_suffix", "mask_classes", "pixels", "label_separator", "unknown_labels",
        "missing_values", "delimiter", "encoding", "include", "exclude", "classes", "group_column", "box_columns",
        "box_format", "box_unit", "run_order", "window", "join", "join_key", "fingerprint", "requester_pays",
    )  # fmt: skip

    input: tuple[str, ...] = input_setting(
        (),
        shown_default="",
        help=f"{_INPUT_HELP}; may be repeated, also as train=PATH",
        read=read_input,
        write=write_input,
        decides_bytes=False,
        may_repeat=True,
        paths="input",
    )
    source: str = input_setting("auto", help=f"auto, {', '.join(NAMES)}", read=_read_source)
    mapping: str | None = input_setting(
        None,
        help="where the annotations are in documents: a file of YAML, its text, or a name such as labelme, kitti, cvat",
        read=read_mapping_word,
        paths="other",
    )
    save_mapping: str | None = input_setting(
        None,
        help="YAML file for a mapping that is drafted from the documents; if the file exists, it is read",
        read=lambda word: storage.absolute(str(word)),
        paths="other",
    )
    parts: tuple[str | int | float, ...] = input_setting(
        (),
        help="arguments for an input that is a function, which is called once for each, such as a,b,c",
        read=_read_parts,
        write=write_list,
        shown_default="",
    )
    label_pattern: str | None = input_setting(
        None, help="regular expression with a group named `label`, or groups that the layout takes, searched in the key"
    )
    allow_private_addresses: bool = setting(
        False,
        group=INPUT,
        help="a table may name URLs of this machine and of private networks",
        read=switch,
        decides_bytes=False,
    )
    trust_annotations: bool = setting(
        False,
        group=INPUT,
        help="accept the annotations, even if most match no image or their boxes do not fit the images",
        read=switch,
        decides_bytes=False,
    )
    window: Window = input_setting(
        Window.FILE,
        help="numbers of DICOM and NIfTI that are black and white: file (the window in it) or full (all of its range)",
        read=one_of(Window),
    )
    join: tuple[str, ...] = input_setting(
        (),
        help="table whose columns join the samples, by a key or the image's name; may be repeated; or the list of a "
        "split, train=LIST",
        read=read_roots,
        write=write_roots,
        shown_default="",
        may_repeat=True,
        paths="input",
    )
    join_key: tuple[str, ...] = input_setting(
        ("key",),
        help="columns of these tables with the keys; a table without them joins by the names that it shares",
        read=read_names,
        write=lambda names: names[0] if len(names) == 1 else list(names),
    )
    fingerprint: Fingerprint = setting(
        Fingerprint.STAT,
        group=INPUT,
        help="how a changed file is detected: stat (size and modification time) or content (every file is read)",
        read=one_of(Fingerprint),
        decides_bytes=False,
    )
    requester_pays: str | None = setting(
        None,
        group=INPUT,
        help="pay for the requests to a bucket whose owner does not: the project that pays (gs://), or true",
        read=_read_payer,
        decides_bytes=False,
        in_spec=False,
    )

    def __post_init__(self) -> None:
        if not self.input:
            object.__setattr__(self, "input", image_folders(self.images))
        if not self.input or not all(self.input):
            raise RequestError(f"`input` is missing; expected {_INPUT_HELP}", code="missing_setting")

    def storage_options(self) -> storage.StorageOptions:
        """Returns the current storage options with the settings of this request."""
        return dataclasses.replace(
            storage.current_options(),
            requester_pays=self.requester_pays,
            allow_private_addresses=self.allow_private_addresses,
        )

    @property
    def mask_settings(self) -> list[str]:
        """Names of the mask settings that the request sets."""
        return [name for name in _MASK_SETTINGS if getattr(self, name)]
