"""The paths of the setting `input`: how messages quote them, their key prefixes, and the files that globs match."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from beam_tfrecords import storage
from beam_tfrecords.dataset.split_names import SPLIT_NAMES
from beam_tfrecords.errors import Reading, RequestError
from beam_tfrecords.transforms.sources.braces import braces_as_glob, expand_braces, has_braces
from beam_tfrecords.transforms.sources.detect.names import split_in_name
from beam_tfrecords.transforms.sources.input_settings import names_function
from beam_tfrecords.transforms.sources.names import is_utf8, printable

_NAMED_INPUT = re.compile(r"([a-z][a-z0-9_]*)=(.+)", re.DOTALL)
_MOST_NAMES = 5


@dataclasses.dataclass(frozen=True)
class Inputs:
    """The inputs of a request.

    Attributes:
      paths: folders, files and globs; `photos.zip#/train` is a folder in an archive.
      splits: path -> split, if the request names the split of each input (`train=photos/`).
    """

    paths: Sequence[str]
    splits: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def is_alone(self) -> bool:
        """Whether there is one input, without a split."""
        return len(self.paths) == 1 and not self.splits


def name_inputs(words: Sequence[str]) -> Inputs:
    """Parses raw values such as `photos/` and `train=photos/`.

    Raises:
      RequestError: only some inputs have a split, or a path is not valid UTF-8.
    """
    # Paths are absolute here, so they cannot be mistaken for `split=path`.
    found = [(split, _without_mark(path)) for split, path in map(split_of_word, words)]
    paths = [path for _, path in found]
    splits = {path: split for split, path in found if split}
    if splits and len(splits) < len(words):
        one = next(path for path in paths if path not in splits)
        said = [f"{splits.get(path) or _guess(path, splits)}={path}" for path in paths]
        raise RequestError(
            f"some inputs name their split, but {quote_input(one)} does not",
            [Reading("a split for each input", {"input": said})],
            code="input_without_split",
        )
    return Inputs(paths, splits)


def split_of_word(word: str) -> tuple[str | None, str]:
    """Returns the split, or None, and the path of a raw value such as `train=/photos`.

    Raises:
      RequestError: the path is not valid UTF-8.
    """
    match = _NAMED_INPUT.fullmatch(word)
    return (SPLIT_NAMES.get(match[1], match[1]), input_path(match[2])) if match else (None, input_path(word))


def splits_of_names(paths: Sequence[str]) -> list[str | None]:
    """Returns the splits in the names of several inputs, such as `train.csv` and `labels_val.csv`.

    Returns None for each input unless every name has a split and there are at least two different splits.
    """
    names = [storage.basename(path) for path in paths]
    splits = [split_in_name(name) or split_in_name(name.partition(".")[0]) for name in names]
    is_said = None not in splits and len(set(splits)) > 1
    return splits if is_said else [None] * len(paths)


def describe_splits(splits: Mapping[str, str | None], inputs: Inputs) -> list[str]:
    """Returns a note on splits, by path, that come only from the names of the inputs."""
    if inputs.splits or not any(splits.values()):
        return []
    shown = [f"{printable(storage.basename(path))} is {split}" for path, split in splits.items()]
    more = [f"and {len(shown) - _MOST_NAMES:,} more"] if len(shown) > _MOST_NAMES else []
    return [f"splits from the names of the inputs: {', '.join([*shown[:_MOST_NAMES], *more])}"]


def describe_divided(inputs: Inputs, found: Mapping[str, Mapping[str, int]], unit: str, *, divides: bool) -> list[str]:
    """Returns a note if the request divides the splits of an input again.

    Args:
      inputs: the inputs.
      found: path of an input -> split that its files or metadata say -> number of its units.
      unit: "record", "file" or "image".
      divides: whether the request has fractions.

    Raises:
      RequestError: an input that is declared as one split has several.
    """
    for path, own in found.items():
        said = inputs.splits.get(path)
        if said and len(own) > 1:
            paths, is_one = list(inputs.paths), len({*inputs.splits.values()}) == 1
            whole = [Reading(f"all {unit}s as {said}", {"input": paths, "splits": f"{said}=1"})] if is_one else []
            raise RequestError(
                f"{quote_input(path)} is declared as {said}, but it has the splits {_count_each(own, unit)}; expected "
                "one split in each input",
                [Reading("the splits as they are", {"input": paths}), *whole],
                code="contradicting_splits",
            )
    total = sum(map(Counter[str], found.values()), Counter[str]())
    if not divides or len(total) < 2:
        return []
    return [f"the input has the splits {_count_each(total, unit)}, and `splits` divides them again"]


def _count_each(own: Mapping[str, int], unit: str) -> str:
    return ", ".join(f"{split} ({count:,} {unit}{'s' * (count > 1)})" for split, count in sorted(own.items()))


def input_path(word: str) -> str:
    """Returns the absolute path of an input; `file://` URIs become local paths.

    Raises:
      RequestError: the path is not valid UTF-8.
    """
    if word.startswith("file://"):
        word = unquote(word.removeprefix("file://").removeprefix("localhost"))
    if names_function(word):
        return word
    path = storage.absolute(word)
    require_utf8(path)
    return path.rstrip("/") if storage.has_scheme(path) else path


def has_wildcards(path: str) -> bool:
    """Whether the path is a glob, and no file or folder of that name exists."""
    return storage.is_glob(path) and not _is_there(path)


def names_several(path: str) -> bool:
    """Whether the path is a glob or has braces, and no file or folder of that name exists."""
    return (storage.is_glob(path) or has_braces(path)) and not _is_there(path)


def name_of_input(path: str) -> str:
    """Returns the name of a folder or file, or of the last folder before the wildcards of a glob; "" of a function."""
    return "" if names_function(path) else storage.basename(folder_of_input(path))


def folder_of_input(path: str) -> str:
    """Returns the last folder before the wildcards of a glob; any other path as it is."""
    return re.split(r"[*?[{]", path, maxsplit=1)[0].rpartition("/")[0] if names_several(path) else path


def quote_input(path: str) -> str:
    """Returns the setting with this path, as messages quote it."""
    return f"`input={printable(_without_mark(path))}`"


def key_prefixes(paths: Sequence[str], *, always: bool = False, splits: Sequence[str | None] = ()) -> list[str]:
    """Returns each path's key prefix: the shortest end of the paths that tells them apart, and `/`.

    Usually this is the last component. A single path has an empty prefix.

    Args:
      paths: the paths.
      always: whether a single path has a prefix too.
      splits: splits of the paths, if the request states them. A split with a single path is the path's prefix.

    Raises:
      RequestError: two paths are equal.
    """
    if len(paths) == 1 and not always:
        return [""]
    splits = splits or [None] * len(paths)
    counts = Counter(splits)
    parts = [(path.partition("://")[2] or path).strip("/").split("/") for path in map(_without_mark, paths)]
    for depth in range(1, max(map(len, parts)) + 1):
        ends = ["/".join(part[-depth:]) for part in parts]
        prefixes = [split if split and counts[split] == 1 else end for split, end in zip(splits, ends, strict=True)]
        if _are_apart(prefixes):
            return [f"{prefix}/" for prefix in prefixes]
    twice = next(path for path, prefix in zip(paths, prefixes, strict=True) if prefixes.count(prefix) > 1)
    raise RequestError(
        f"two inputs read {quote_input(twice)}, so that their keys would be equal; give one input for both",
        code="duplicate_key_prefix",
    )


def find_entries(path: str) -> list[storage.FileEntry]:
    """Returns the file of a path, the sorted files of a glob, or the files of a path with braces in their order.

    Raises:
      RequestError: a glob matches no file, or a file that the braces name does not exist.
    """
    if not names_several(path):
        return [storage.stat(path)]
    if not has_braces(path):
        found = sorted(storage.list_files(path, special=True), key=lambda file: file.path)
        if not found:
            raise RequestError(f"{quote_input(path)} matches no file", code="not_found")
        return found
    names = expand_braces(path)
    if any(map(storage.is_glob, names)):
        return [file for name in names for file in find_entries(name)]
    # One listing request returns a thousand names; a stat would cost one request per name.
    wanted = set(names)
    listed = storage.list_files(braces_as_glob(path), special=True)
    entries = {file.path: file for file in listed if file.path in wanted}
    missing = [name for name in names if name not in entries]
    if missing:
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise RequestError(
            f"{quote_input(path)}: of {len(names):,} files, {printable(missing[0])}{more} do not exist",
            code="not_found",
        )
    return [entries[name] for name in dict.fromkeys(names)]


def keep_inputs(error: RequestError, inputs: Inputs) -> RequestError:
    """Returns the error with readings that replace one input and keep the other inputs and all splits."""
    suggestions = [_keep_inputs(reading, inputs) for reading in error.suggestions]
    return RequestError(
        error.message,
        [reading for reading in suggestions if reading],
        code=error.code,
        traceback=error.traceback,
    )


def _keep_inputs(reading: Reading, inputs: Inputs) -> Reading | None:
    """Returns the reading with all inputs; None if a reading cannot express them."""
    given = reading.settings.get("input")
    if not isinstance(given, str):
        return reading
    if given not in inputs.paths:
        splits = [*inputs.splits.values()] or splits_of_names(inputs.paths)
        if "join" in reading.settings and None not in splits:
            joined = [f"{split}={path}" for split, path in zip(splits, inputs.paths, strict=True)]
            return dataclasses.replace(reading, settings={**reading.settings, "join": joined})
        return reading if inputs.is_alone and not names_several(inputs.paths[0]) else None
    said = [f"{inputs.splits[path]}={path}" if inputs.splits else path for path in inputs.paths]
    return dataclasses.replace(reading, settings={**reading.settings, "input": said})


def folder_of_archive(path: str) -> str:
    """Returns the folder of the members of an archive; any other path as it is."""
    folder = f"{path}#"
    return folder if storage.archive_of(folder) == path and not names_several(path) else path


def _without_mark(path: str) -> str:
    """Returns the archive whose members are in a folder; any other path as it is."""
    return path[:-1] if path.endswith("#") and storage.archive_of(path) else path


def _are_apart(prefixes: Sequence[str]) -> bool:
    """Whether no prefix is another one, or a folder of another one."""
    found = set(prefixes)
    outer = {prefix[: slash.start()] for prefix in prefixes for slash in re.finditer("/", prefix)}
    return len(found) == len(prefixes) and found.isdisjoint(outer)


def _guess(path: str, splits: Mapping[str, str]) -> str:
    """Guesses the split of an input, given the inputs with a stated split."""
    unused = (split for split in ("train", "validation", "test") if split not in splits.values())
    return split_in_name(storage.basename(path)) or next(unused, "train")


def _is_there(path: str) -> bool:
    return storage.exists(path) or storage.is_folder(path)


def require_utf8(path: str) -> None:
    """Checks that a path can be a URI.

    Raises:
      RequestError: the path is not valid UTF-8.
    """
    if not is_utf8(path):
        raise RequestError(f"{quote_input(path)} is not valid UTF-8 and cannot be a URI; rename it", code="not_utf8")
