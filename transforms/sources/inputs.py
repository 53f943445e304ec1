"""The paths of the setting `input`: how messages quote them, their key prefixes, and the files of globs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from transforms.sources.names import is_utf8, printable
from transforms.sources.source_spec import SourceSpec
from transforms.splits import SPLIT_NAMES, split_of_folder

_NAMED_INPUT = re.compile(r"([a-z][a-z0-9_]*)=(.+)", re.DOTALL)
_COLUMN_SETTINGS = (
    "image_column", "label_column", "label_columns", "split_column", "key_column", "group_column", "image_path",
    "image_root", "label_separator", "delimiter", "encoding",
)  # fmt: skip


def name_inputs(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The paths of inputs, and path -> split of those that say theirs (`train=photos/`).

    Raises:
      RequestError: some say their split and others do not, or a path is not valid UTF-8.
    """
    # A path is absolute here, so that no name is part of it.
    found = [_NAMED_INPUT.fullmatch(word) for word in words]
    paths = [input_path(match[2] if match else word) for word, match in zip(words, found, strict=True)]
    splits = {path: SPLIT_NAMES.get(match[1], match[1]) for path, match in zip(paths, found, strict=True) if match}
    if splits and len(splits) < len(words):
        one = next(path for path in paths if path not in splits)
        raise RequestError(f"some inputs say their split and {quote_input(one)} does not; expected train={one}")
    return paths, splits


def split_of_file(path: str) -> str | None:
    """The split that the name of a file says, such as `train.csv` or `labels_val.csv`; None if it says none or two."""
    words = re.split(r"[\W_]+", storage.basename(path).lower())
    splits = {SPLIT_NAMES[word] for word in words if word in SPLIT_NAMES}
    return splits.pop() if len(splits) == 1 else None


def input_path(word: str) -> str:
    """The absolute path that an input names; `file://` URIs become local paths.

    Raises:
      RequestError: it is not valid UTF-8.
    """
    if word.startswith("file://"):
        word = unquote(word.removeprefix("file://").removeprefix("localhost"))
    path = storage.absolute(word)
    _require_utf8(path)
    return path.rstrip("/") if storage.has_scheme(path) else path


def has_wildcards(path: str) -> bool:
    """Whether the path is a glob, and not a file or folder of that name."""
    return storage.is_glob(path) and not storage.exists(path) and not storage.is_folder(path)


def quote_input(path: str) -> str:
    """The setting with this path, as messages quote it."""
    return f"`input={printable(path)}`"


def key_prefixes(paths: Sequence[str], *, always: bool = False, splits: Mapping[str, str] | None = None) -> list[str]:
    """The prefix of the keys of each path: empty for a single path, else its last component and `/`.

    Args:
      paths: the paths.
      always: whether a single path has a prefix too.
      splits: path -> its split, which is then its prefix; empty if the request names none.

    Raises:
      RequestError: two paths have the same last component.
    """
    if len(paths) == 1 and not always:
        return [""]
    taken: dict[str, str] = {}
    for path in paths:
        split = (splits or {}).get(path)
        is_alone = split is not None and list((splits or {}).values()).count(split) == 1
        prefix = f"{split if is_alone else storage.basename(path)}/"
        if prefix in taken:
            raise RequestError(
                f"{quote_input(taken[prefix])} and {quote_input(path)} have the same last component, which is the "
                "prefix of their keys; rename one of them, or convert them separately"
            )
        taken[prefix] = path
    return list(taken)


def find_files(paths: Sequence[str], splits: Mapping[str, str] | None = None) -> dict[str, storage.FileEntry]:
    """The files that paths and globs name, by their key prefixes.

    Args:
      paths: files and globs.
      splits: as in `key_prefixes`.

    Raises:
      RequestError: a glob matches no file, or something that is not a file.
    """
    files: list[storage.FileEntry] = []
    for path in paths:
        if not has_wildcards(path):
            files.append(storage.stat(path))
            continue
        found = sorted(storage.list_files(path, special=True), key=lambda file: file.path)
        if not found:
            raise RequestError(f"{quote_input(path)} matches no file")
        files += found
    for file in files:
        _require_utf8(file.path)
        if file.size < 0:
            raise RequestError(f"{quote_input(file.path)} is not a regular file, or is a broken link")
    # A glob may match more files tomorrow: its keys have a prefix from the start.
    always = any(map(has_wildcards, paths))
    prefixes = key_prefixes([file.path for file in files], always=always, splits=splits)
    return dict(zip(prefixes, files, strict=True))


def refuse_split_names(paths: Sequence[str]) -> None:
    """Refuses several inputs that are named like splits, which would all become one split."""
    names = [storage.basename(path) for path in paths]
    splits = {split_of_folder(name.partition(".")[0]) for name in names}
    if len(splits) > 1 and None not in splits:
        raise RequestError(
            f"the inputs {', '.join(map(printable, names[:5]))} are named like splits, but all would become one; give "
            "the folder that holds them or a table with a split column, or say that they are one "
            "(`splits=train=1`, or other fractions)"
        )


def refuse_columns(spec: SourceSpec) -> None:
    """Refuses settings and layouts that name columns, for a source that has none."""
    where = f"{quote_input(spec.input[0])} is read as {spec.source}, which has no columns"
    for name in _COLUMN_SETTINGS:
        value = getattr(spec, name)
        if value not in (None, ()):
            shown = ",".join(value) if isinstance(value, tuple) else value
            raise RequestError(f"`{name}={shown}`: {where}; leave `{name}` out or give a table as `input`")
    if spec.columns:
        raise RequestError(
            f"`layout` asks for column.{min(spec.columns)}, but {where}; give a table as `input` or another `layout`"
        )


def _require_utf8(path: str) -> None:
    if not is_utf8(path):
        raise RequestError(f"{quote_input(path)} is not valid UTF-8, so that it cannot be a URI; rename it")
