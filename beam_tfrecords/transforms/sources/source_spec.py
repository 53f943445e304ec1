"""The settings that say where the samples are and how to read their labels and splits."""

from __future__ import annotations

import bisect
import dataclasses
import enum
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.mapping.user_function import UserFunction, name_of
from beam_tfrecords.transforms.objects.objects import BoxFormat, BoxUnit
from beam_tfrecords.transforms.settings import INPUT, one_of, setting, switch
from beam_tfrecords.transforms.sources.braces import split_list
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary
from beam_tfrecords.transforms.sources.registry import NAMES, source_of_file
from beam_tfrecords.transforms.sources.selection import Selection, matches, read_globs, read_names

# They decide which samples there are, and what their references say.
_setting = functools.partial(setting, group=INPUT, decides_records=False)
_INPUT_HELP = "folder, glob, table or archive; local, gs:// or s3://; or a function of yours, module:function"
# They say where masks are.
MASK_SETTINGS = ("mask_root", "mask_column", "mask_suffix", "image_suffix")
_MOST_KINDS = 100
_MOST_EXAMPLES = 3
# An input that is a function: my_steps:rows.
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
# An input that says its split: train=photos/.
_NAMED = re.compile("[a-z][a-z0-9_]*=.")


class LabelType(str, enum.Enum):
    """What labels are: CLASS names or indices of classes; FLOAT numbers, for regression; TEXT, such as captions."""

    CLASS = "class"
    FLOAT = "float"
    TEXT = "text"


class UnknownLabels(str, enum.Enum):
    """What -1 means beside zeros and ones: REJECT its row, NO or YES. Then an empty cell is no."""

    REJECT = "reject"
    NO = "no"
    YES = "yes"


class Fingerprint(str, enum.Enum):
    """What tells that a file has changed: STAT its size and modification time, CONTENT a hash of its bytes."""

    STAT = "stat"
    CONTENT = "content"


class GivenFunction(str):
    """The name of a function that Python has given as input, with the function."""

    function: Callable[..., Any]


def names_function(word: str) -> bool:
    """Whether an input names a function, as `module:function`, and not a file."""
    return isinstance(word, GivenFunction) or (bool(_FUNCTION.fullmatch(word)) and not storage.exists(word))


def _read_input(word: Any) -> tuple[str, ...]:
    if callable(word):
        name = GivenFunction(name_of(word))
        name.function = word
        return (name,)
    if isinstance(word, Mapping):
        word = [f"{split}={path}" for split, path in word.items()]
    words = word if isinstance(word, (list, tuple)) else [word]
    return tuple(path and _absolute(path) for word in words for path in (_read_list(str(word)) if word else [word]))


def _read_list(word: str) -> list[str]:
    """The files of a list such as `train=a.tar,b.tar`; a word that may be something else as it is."""
    split, sign, paths = word.partition("=") if _NAMED.match(word) else ("", "", word)
    parts = split_list(paths)
    if len(parts) < 2 or not all(map(source_of_file, parts)) or storage.exists(paths):
        return [word]
    return [f"{split}{sign}{part}" for part in parts]


def _absolute(word: str) -> str:
    """The path as an absolute one; `train=photos/` keeps its split, unless that is the name of a file."""
    if names_function(word):
        return word
    split, _, path = word.partition("=")
    if _NAMED.match(word) and not storage.exists(word):
        return f"{split}={storage.absolute(path)}"
    return storage.absolute(word)


def _read_roots(word: Any) -> tuple[str, ...]:
    if isinstance(word, Mapping):
        word = [f"{split}={path}" for split, path in word.items()]
    return tuple(map(_absolute, _read_paths(word)))


def _read_paths(word: Any) -> list[str]:
    paths = [str(path) for path in (word if isinstance(word, (list, tuple)) else [word])]
    plain = [path.partition("=")[2] if _NAMED.match(path) else path for path in paths]
    if any(storage.shown(path) != path for path in plain):
        # The manifest has it.
        raise ValueError("a URL with a name, password or query; expected one without, and queries in the table")
    return paths


def _write_input(paths: tuple[str, ...]) -> Any:
    return paths[0] if len(paths) == 1 else list(paths)


def _write_list(values: tuple[str, ...]) -> Any:
    return list(values) or None


def _read_words(word: Any) -> tuple[str, ...]:
    return read_names(word) if word not in ("", []) else ()


def _read_parts(word: Any) -> tuple[str | int | float, ...]:
    parts = tuple(split_list(word) if isinstance(word, str) else word)
    wrong = next((part for part in parts if not isinstance(part, str | int | float)), None)
    if wrong is not None:
        raise ValueError(f"a part of type {type(wrong).__name__}; expected texts or numbers")
    if len(set(parts)) < len(parts):
        raise ValueError("the same part twice; expected each once")
    return parts


def _read_unknown(word: Any) -> Any:
    # YAML reads yes and no as true and false.
    return one_of(UnknownLabels)({True: "yes", False: "no"}.get(word, word) if isinstance(word, bool) else word)


def _read_delimiter(word: Any) -> str:
    delimiter = {"tab": "\t", "\\t": "\t"}.get(str(word), str(word))
    if len(delimiter) != 1 or delimiter in '"\r\n' or (not delimiter.isprintable() and delimiter != "\t"):
        raise ValueError("expected one character, or tab")
    return delimiter


def _read_payer(word: Any) -> str | None:
    payer = str(word)
    if payer.lower() in ("true", "false"):
        return "true" if payer.lower() == "true" else None
    if re.fullmatch(r"[a-z][a-z0-9.:-]*[a-z0-9]", payer):
        return payer
    raise ValueError("expected true, false, or the project of Google Cloud that pays")


def _read_encoding(word: Any) -> str:
    try:
        "a".encode(str(word))
    except LookupError:
        raise ValueError("unknown encoding; expected one such as utf-8, utf-16, cp1252 or shift_jis") from None
    return str(word)


@dataclasses.dataclass(frozen=True)
class SourceSpec:
    """Where the samples are and how to read their labels and splits.

    Attributes:
      input: folders, tables, archives or globs of them, as absolute paths. With several, the last component
        of each path is the prefix of its keys, which keeps them unique.
      image_column: column with the image's path, or columns with those of several images, separated by commas; None:
        `image` if the table has it, else the samples have no images.
      label_column: column with the label; None: `label` if the table has it.
      label_type: what the labels of a table are.
      group_rows: whether the rows with the same key are one sample, with the labels and objects of all.
      label_columns: columns of zeros and ones, one for each class; empty if a column has the labels.
      split_column: column with the split; None: one of a usual name, "" for none.
      key_column: column with the key; None: the image's path as written, else the number of the row.
      allow_outside_root: whether a file may name others outside its own folder, or outside `image_root`.
      allow_private_addresses: whether a table may name URLs of this machine and of private networks.
      trust_annotations: whether annotations are meant that match no image, or whose boxes do not fit their images.
      image_path: pattern of the images' paths over a table's columns, such as `train/{id}.jpg`.
      image_root: folders that the images' paths in a table are relative to, also as train=PATH; empty: the table's
        folder.
      mask_root: folders of the masks: one for each input or split, also as train=PATH, or one for all; in a table,
        what the masks' paths are relative to.
      mask_column: column with the mask's path; None: one of a usual name.
      mask_suffix: what the name of a mask has at its end, before the extension, and that of its image has not.
      image_suffix: what the name of an image has there, and that of its mask has not.
      label_separator: what separates several labels in one cell; None: a cell is one label.
      unknown_labels: what -1 and empty cells mean beside zeros and ones; None: -1 in the first rows is refused.
      missing_values: words that mean an empty cell, in columns that are not features.
      delimiter: between the cells of a csv file; None to detect it.
      encoding: of a csv or jsonl file; None to detect it.
      include: globs of the keys that are wanted; empty for all.
      exclude: globs of the keys that are not wanted.
      classes: labels that are wanted; empty for all.
      group_column: column whose equal values keep samples in one split, where splits are fractions.
      box_columns: columns of a box in each row; empty for those of usual names.
      box_format: what their numbers are, and `box_unit` what they count.
      fingerprint: what tells that a file has changed.
      requester_pays: who pays for requests to buckets whose owner does not, as in `storage.StorageOptions`.
      join: table whose columns join the records of a dataset of ours; None for none.
      join_key: its column with their keys.
      parts: what a function that is the input is called with, once for each.
      function: the input, if it is a function of the user.
      layout_has_objects: whether the request names a layout with annotated objects.
      input_splits: path of an input -> its split, where the request says it for each (`train=photos/`).
      split_folders: folder below the root, or word of the split column -> split, where the request names them; else
        None.
      splits_auto: whether splits come from folders such as train and test, or from a column `split`.
      columns: columns that the layout asks for; None for all.
      all_columns: whether samples have all columns, because a function of the user is given them.
      boxes_are_columns: whether columns of boxes are no objects unless `box_columns` names them, because only that
        function may need them.
      images: name of an image -> the column with its path, "" to find it, where the layout or the source names several.
      needs_image: whether the layout has an image; otherwise only a column `image` is taken for one.
      needs_label: whether the layout has a label; an input that cannot have labels is then refused.
      needs_objects: whether it has annotated objects.
      needs_outlines: whether it has masks of annotated objects.
      needs_keypoints: whether it has keypoints of them.
      needs_mask: whether it has masks of images.
      class_names: the classes that the request names; empty if it names none. Folders of these names are classes.
    """

    input: tuple[str, ...] = _setting(
        help=f"{_INPUT_HELP}; may be repeated, also as train=PATH",
        read=_read_input,
        write=_write_input,
        decides_bytes=False,
        may_repeat=True,
    )
    source: str = _setting("auto", help=f"auto, {', '.join(NAMES)}")
    parts: tuple[str | int | float, ...] = _setting(
        (),
        help="what a function that is the input is called with, once for each, such as a,b,c",
        read=_read_parts,
        write=_write_list,
        shown_default="",
    )
    label_pattern: str | None = _setting(
        None, help="regular expression with a group named `label`, searched in the key"
    )
    image_column: str | None = _setting(
        None,
        help="column with the image's path, or the columns of several images with commas between them",
        read=lambda word: ",".join(map(str, word)) if isinstance(word, list | tuple) else str(word),
        shown_default="image",
    )
    label_column: str | None = _setting(None, help="column with the label", shown_default="label")
    label_type: LabelType = setting(
        LabelType.CLASS,
        group=INPUT,
        help="what the labels of a table are: class, float (regression) or text (captions)",
        read=one_of(LabelType),
        decides_records=False,
    )
    group_rows: bool = _setting(
        False,
        help="rows of a table with the same image are one sample, with the labels and objects of all",
        read=switch,
    )
    label_columns: tuple[str, ...] = _setting(
        (),
        help="columns of zeros and ones, one for each class, comma-separated",
        read=read_names,
        write=_write_list,
        shown_default="",
    )
    split_column: str | None = _setting(None, help="column with the split", shown_default="split")
    key_column: str | None = _setting(None, help="column with the key", shown_default="the image's path")
    allow_outside_root: bool = _setting(False, help="a file may name others outside its own folder", read=switch)
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
        help="annotations are meant as they are, even if most match no image or their boxes do not fit the images",
        read=switch,
        decides_bytes=False,
    )
    image_path: str | None = _setting(None, help="pattern of the images' paths over columns, such as train/{id}.jpg")
    image_root: tuple[str, ...] = _setting(
        (),
        help="folder that the images' paths in a table are relative to; may be repeated, also as train=PATH",
        read=_read_roots,
        write=lambda folders: _write_input(folders) or None,
        shown_default="the table's folder",
        may_repeat=True,
    )
    mask_root: tuple[str, ...] = _setting(
        (),
        help="folder with the masks of the images, of the same names; may be repeated, also as train=PATH",
        read=_read_roots,
        write=lambda folders: _write_input(folders) or None,
        shown_default="",
        may_repeat=True,
    )
    mask_column: str | None = _setting(None, help="column with the mask's path", shown_default="mask")
    mask_suffix: str | None = _setting(
        None, help="what the name of a mask has at its end, and that of its image has not, such as _mask"
    )
    image_suffix: str | None = _setting(
        None, help="what the name of an image has at its end, and that of its mask has not, such as _sat"
    )
    label_separator: str | None = _setting(None, help="separates several labels in one cell")
    unknown_labels: UnknownLabels | None = setting(
        None,
        group=INPUT,
        decides_records=False,
        help="what -1 is beside zeros and ones: reject (its row), no or yes; an empty cell then is no",
        read=_read_unknown,
        shown_default="refused",
    )
    missing_values: tuple[str, ...] = _setting(
        ("NaN", "nan", "N/A", "None", "null", "NULL", "?"),
        help="words in a table's columns of labels, splits, groups, keys and images that mean an empty cell",
        read=_read_words,
        write=list,
        shown_default="NaN,nan,N/A,None,null,NULL,?",
    )
    delimiter: str | None = _setting(
        None, help="separates the cells of a csv file", read=_read_delimiter, shown_default="detected"
    )
    encoding: str | None = _setting(
        None, help="encoding of a csv or jsonl file", read=_read_encoding, shown_default="detected"
    )
    include: tuple[str, ...] = _setting(
        (),
        help="glob of the paths that are wanted; may be repeated",
        read=read_globs,
        write=_write_list,
        shown_default="",
        may_repeat=True,
    )
    exclude: tuple[str, ...] = _setting(
        (),
        help="glob of the paths that are skipped; may be repeated",
        read=read_globs,
        write=_write_list,
        shown_default="",
        may_repeat=True,
    )
    classes: tuple[str, ...] = _setting(
        (),
        help="the classes that are wanted, comma-separated; samples of others are skipped",
        read=read_names,
        write=_write_list,
        shown_default="all",
    )
    group_column: str | None = _setting(
        None, help="column whose equal values stay in one split (with fractions in `splits`)"
    )
    box_columns: tuple[str, ...] = _setting(
        (),
        help="columns with the sides of a box in each row, such as x1,y1,x2,y2, or one with lists of them",
        read=read_names,
        write=_write_list,
        shown_default="",
    )
    box_format: BoxFormat = setting(
        BoxFormat.AUTO,
        group=INPUT,
        decides_records=False,
        help="what the sides of boxes in a table are: xyxy (two corners), xywh (corner, size) or cxcywh (center, size)",
        read=one_of(BoxFormat),
    )
    box_unit: BoxUnit = setting(
        BoxUnit.AUTO,
        group=INPUT,
        decides_records=False,
        help="what the sides of boxes in a table count: pixels, or shares of the image's size",
        read=one_of(BoxUnit),
    )
    join: str | None = _setting(
        None,
        help="table whose columns join a dataset of ours by key: its images are taken over",
        read=lambda word: storage.absolute(str(word)),
    )
    join_key: str = _setting("key", help="column of this table with the keys")
    fingerprint: Fingerprint = setting(
        Fingerprint.STAT,
        group=INPUT,
        help="what tells that a file has changed: stat (size and modification time) or content (every file is read)",
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
    function: UserFunction | None = None
    layout_has_objects: bool = False
    input_splits: Mapping[str, str] = dataclasses.field(default_factory=dict)
    split_folders: Mapping[str, str] | None = None
    splits_auto: bool = True
    columns: frozenset[str] | None = frozenset()
    all_columns: bool = False
    boxes_are_columns: bool = False
    images: Mapping[str, str] = dataclasses.field(default_factory=dict)
    needs_image: bool = True
    needs_label: bool = True
    needs_objects: bool = True
    needs_mask: bool = False
    needs_outlines: bool = False
    needs_keypoints: bool = False
    class_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.input or not all(self.input):
            raise RequestError(f"`input` is missing; expected {_INPUT_HELP}")

    def storage_options(self) -> storage.StorageOptions:
        """How stores are reached: as the command said, and this request says."""
        return dataclasses.replace(
            storage.current_options(),
            requester_pays=self.requester_pays,
            allow_private_addresses=self.allow_private_addresses,
        )

    @property
    def selection(self) -> Selection:
        """Which samples are wanted."""
        return Selection(self.include, self.exclude, self.classes)


@dataclasses.dataclass(frozen=True)
class Damage:
    """A container that could not be read to its end: nobody knows how many samples it has lost.

    Attributes:
      uri: the file.
      samples: listed before the damage.
      detail: where it is, and what was found.
    """

    uri: str
    samples: int
    detail: str


@dataclasses.dataclass
class Skipped:
    """What is not listed. Files that are not samples are counted by kind, with a few keys of each kind.

    It is the same however the input is listed.

    Attributes:
      counts: kind ("hidden", or an extension in lower case such as ".txt") -> number of files. After a
        hundred kinds all others are "other", which bounds the memory.
      examples: kind -> the first few keys, sorted.
      folders: the folders that the files are in; not merged.
      damaged: the containers that could not be read to their end.
      unmatched: the globs of the request that match no file so far; not merged.
    """

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    examples: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    folders: FolderSummary = dataclasses.field(default_factory=FolderSummary)
    damaged: list[Damage] = dataclasses.field(default_factory=list)
    unmatched: set[str] = dataclasses.field(default_factory=set)

    def see(self, key: str) -> None:
        """Looks which globs match a file, or a sample."""
        if self.unmatched:
            self.unmatched -= {glob for glob in self.unmatched if matches(glob, key)}

    def add(self, kind: str, key: str) -> None:
        """Counts one file."""
        self.see(key)
        self._count(kind, 1, [key])
        self.folders.add_other(key)

    def merge(self, other: Skipped) -> None:
        """Adds the counts of another listing, such as that of one container."""
        for kind, count in other.counts.items():
            self._count(kind, count, other.examples[kind])
        self.damaged += other.damaged

    def _count(self, kind: str, count: int, keys: Iterable[str]) -> None:
        if kind not in self.counts and len(self.counts) >= _MOST_KINDS:
            kind = "other"
        self.counts[kind] += count
        examples = self.examples.setdefault(kind, [])
        for key in keys:
            if len(examples) < _MOST_EXAMPLES or key < examples[-1]:
                bisect.insort(examples, key)
                del examples[_MOST_EXAMPLES:]
