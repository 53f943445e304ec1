"""Settings that contain paths: inputs, and the folders of images and masks."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.transforms.mapping.user_function import name_of
from beam_tfrecords.transforms.refs.sample_refs import MASK
from beam_tfrecords.transforms.settings import check_unique, input_setting, switch, write_list
from beam_tfrecords.transforms.sources.braces import split_list
from beam_tfrecords.transforms.sources.registry import source_of_file

# An input that is a function: my_steps:rows.
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
# An input with its split: train=photos/.
_NAMED = re.compile("[a-z][a-z0-9_]*=.")


class GivenFunction(str):
    """The name of a function that was passed as input from Python, and the function itself."""

    function: Callable[..., Any]


def names_function(word: str) -> bool:
    """Whether an input is a function, as `module:function`, and not a file."""
    return isinstance(word, GivenFunction) or (bool(_FUNCTION.fullmatch(word)) and not storage.exists(word))


def read_input(word: Any) -> tuple[str, ...]:
    """Reads the inputs of a request: makes paths absolute, and replaces a function by its name."""
    if callable(word):
        name = GivenFunction(name_of(word))
        name.function = word
        return (name,)
    if isinstance(word, Mapping):
        word = [f"{split}={path}" for split, path in word.items()]
    words = word if isinstance(word, (list, tuple)) else [word]
    return tuple(path and _absolute(path) for word in words for path in (_read_list(str(word)) if word else [word]))


def _read_list(word: str) -> list[str]:
    """Splits a list such as `train=a.tar,b.tar` into its files; returns any other value unchanged."""
    split, sign, paths = word.partition("=") if _NAMED.match(word) else ("", "", word)
    parts = split_list(paths)
    if len(parts) < 2 or not all(map(source_of_file, parts)) or storage.exists(paths):
        return [word]
    return [f"{split}{sign}{part}" for part in parts]


def _absolute(word: str) -> str:
    """Returns the absolute path; `train=photos/` keeps its split unless a file of that name exists."""
    if names_function(word):
        return word
    split, _, path = word.partition("=")
    if _NAMED.match(word) and not storage.exists(word):
        return f"{split}={storage.absolute(path)}"
    return storage.absolute(word)


def read_mapping_word(word: Any) -> str:
    """Reads the name of a mapping, or makes the path of its file absolute."""
    return storage.absolute(str(word)) if names_mapping_file(str(word)) else str(word)


def names_mapping_file(word: str) -> bool:
    """Whether a mapping is a file, and neither one of ours nor its YAML."""
    return not holds_mapping(word) and ("/" in word or word.lower().endswith((".yaml", ".yml")))


def holds_mapping(word: str) -> bool:
    """Whether a mapping is its YAML in one line, `{image: …}`."""
    return word.startswith("{")


def read_roots(word: Any) -> tuple[str, ...]:
    """Reads paths, each also with a split as `train=PATH`, and makes them absolute."""
    if isinstance(word, Mapping):
        word = [f"{split}={path}" for split, path in word.items()]
    return tuple(map(_absolute, _read_paths(word)))


def _read_paths(word: Any) -> list[str]:
    paths = [str(path) for path in (word if isinstance(word, (list, tuple)) else [word])]
    plain = [path.partition("=")[2] if _NAMED.match(path) else path for path in paths]
    if any(storage.is_web(path) and storage.shown(path) != path for path in plain):
        # The manifest would record the secret.
        raise ValueError("a URL with a name, password or query; expected one without, and queries in the table")
    return paths


def write_input(paths: tuple[str, ...]) -> Any:
    """Writes inputs in the form that `read_input` reads."""
    return paths[0] if len(paths) == 1 else list(paths)


def write_roots(folders: tuple[str, ...]) -> Any:
    """Writes paths in the form that `read_roots` reads; None for none."""
    return write_input(folders) or None


def _read_images(word: Any) -> tuple[str, ...]:
    if isinstance(word, Mapping):
        word = [f"{name}={path}" for name, path in word.items()]
    pairs = [one.partition("=") for one in (word if isinstance(word, list | tuple) else split_list(str(word)))]
    names = [name for name, _, path in pairs if path and re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name)]
    if len(names) < max(len(pairs), 2):
        raise ValueError("expected two or more folders with names, such as left=DIR,right=DIR")
    if MASK in names:
        raise ValueError("a mask belongs to one image; choose another name for these images")
    check_unique(names)
    return tuple(f"{name}={storage.absolute(path)}" for name, _, path in pairs)


def image_folders(words: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the folders that the setting `images` names."""
    return tuple(word.partition("=")[2] for word in words)


def _write_images(words: tuple[str, ...]) -> Any:
    return dict(word.split("=", 1) for word in words) or None


def _read_mask_classes(word: Any) -> tuple[str, ...]:
    words = [f"{name}={part}" for name, part in word.items()] if isinstance(word, Mapping) else word
    words = [one.strip() for one in (words.split(",") if isinstance(words, str) else words)]
    pairs = [[part.strip() for part in one.partition("=")[::2]] for one in words]
    if not all(name and part.strip("/") for name, part in pairs) or len(dict(pairs)) < len(pairs):
        raise ValueError("expected a folder or a suffix for each class, such as cat=cat/,dog=dog/ or cat=_cat,dog=_dog")
    check_unique([part for _, part in pairs])
    return tuple("=".join(pair) for pair in pairs)


@dataclasses.dataclass(frozen=True)
class PathSettings:
    """Folders of the images that tables and annotations name, and of masks.

    Attributes:
      image_root: folders that image paths are relative to, also as train=PATH; empty for the table's folder.
      images: name of an image of a sample and folder of these images, as left=PATH; empty for other inputs.
      allow_outside_root: whether a file may name files outside its own folder, or outside `image_root`.
      mask_root: folders of masks, also as train=PATH: one for each input or split, or one for all. The mask paths in a
        table are relative to it.
      mask_suffix: suffix of a mask's name, with or without the extension, which its image's name lacks.
      image_suffix: suffix of an image's name before the extension, which its mask's name lacks.
      mask_classes: CLASS=FOLDER/ or CLASS=SUFFIX of the masks of each class; empty if a mask has all classes.
    """

    image_root: tuple[str, ...] = input_setting(
        (),
        help="folder that the images' paths in a table are relative to; may be repeated, also as train=PATH",
        read=read_roots,
        write=write_roots,
        shown_default="the table's folder",
        may_repeat=True,
        paths="input",
    )
    images: tuple[str, ...] = input_setting(
        (),
        help="folders or globs whose images of the same names are one sample, as left=DIR,right=DIR; replaces `input`",
        read=_read_images,
        write=_write_images,
        shown_default="",
        paths="input",
    )
    allow_outside_root: bool = input_setting(False, help="let a file name files outside its own folder", read=switch)
    mask_root: tuple[str, ...] = input_setting(
        (),
        help="folder with the masks of the images, of the same names, or of their objects; may be repeated, also as "
        "train=PATH",
        read=read_roots,
        write=write_roots,
        shown_default="",
        may_repeat=True,
        paths="input",
    )
    mask_suffix: str | None = input_setting(
        None, help="ending of a mask's name that its image's name lacks, such as _mask or .png"
    )
    image_suffix: str | None = input_setting(
        None, help="ending of an image's name that its mask's name lacks, such as _sat"
    )
    mask_classes: tuple[str, ...] = input_setting(
        (),
        help="for one mask of each class: the folder below `mask_root`, or the end of the name, of each class's masks, "
        "such as cat=cat/,dog=dog/ or cat=_cat,dog=_dog",
        read=_read_mask_classes,
        write=write_list,
        shown_default="",
    )

    @property
    def class_masks(self) -> Mapping[str, str]:
        """Class -> folder or suffix of its masks."""
        return dict(word.split("=", 1) for word in self.mask_classes)
