"""Extracts labels, groups and columns from keys with a regular expression."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from beam_tfrecords.errors import RequestError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.refs.sample_refs import Value
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.splits import Splits

OUTSIDE_SPLITS = "outside the split folders"


def path_label(key: str, pattern: re.Pattern[str]) -> str | None:
    """Returns the text that the pattern's group `label` matches in a key; None without a match."""
    match = pattern.search(key)
    return (match["label"] or None) if match and "label" in pattern.groupindex else None


def path_group(key: str, pattern: re.Pattern[str] | None) -> str | None:
    """Returns the text that the pattern's group `group` matches in a key; None without a match."""
    if pattern is None or "group" not in pattern.groupindex:
        return None
    match = pattern.search(key)
    return match["group"] if match else None


def path_columns(key: str, pattern: re.Pattern[str] | None, names: Collection[str]) -> dict[str, Value]:
    """Returns group name -> text that the group matches in a key, or None without a match."""
    match = pattern.search(key) if pattern is not None and names else None
    return {name: match[name] if match else None for name in names}


def find_path_columns(pattern: re.Pattern[str] | None, needs: Needs) -> tuple[Sequence[str], Sequence[str]]:
    """Returns the named groups of a pattern that are columns, and which of them the layout uses.

    Raises:
      RequestError: the layout needs a column that the pattern has no group for.
    """
    names = tuple(name for name in (pattern.groupindex if pattern else ()) if name not in ("label", "group"))
    wanted = sorted(needs.columns or ()) if not needs.takes_all else names
    missing = next((name for name in wanted if name not in names), None)
    if names and missing is not None:
        raise RequestError(
            f"`layout` asks for column.{missing}, which `label_pattern` has no group for; it has: {', '.join(names)}",
            code="missing_group",
        )
    return names, [name for name in wanted if name in names]


def describe_path_columns(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Returns a note on groups of a pattern that the layout does not use."""
    unused = [name for name in names if name not in taken]
    if not unused:
        return []
    return [f"groups of `label_pattern` not used: {', '.join(unused)}; a layout takes such as column.{unused[0]}"]


def compile_pattern(label_pattern: str | None, needs: Needs) -> re.Pattern[str] | None:
    """Compiles the setting `label_pattern`; returns None if it is not set.

    Raises:
      RequestError: the setting is not a regular expression with a group `label`, or with other groups if the layout
        needs no label.
    """
    if label_pattern is None:
        return None
    try:
        pattern = re.compile(label_pattern)
    except (re.error, OverflowError) as error:
        raise RequestError(
            f"`label_pattern={label_pattern}` is not a regular expression: {error}", code="invalid_value"
        ) from error
    names = [name for name in pattern.groupindex if name not in ("label", "group")]
    if "label" not in pattern.groupindex and (Content.LABEL in needs.contents or not names):
        columns = f", or take its groups without a label: `layout=image,{names[0]}:class`" if names else ""
        raise RequestError(
            f"`label_pattern={label_pattern}` has no group named label; "
            f"use, for example, `label_pattern=(?P<label>cat|dog)`{columns}",
            code="missing_group",
        )
    return pattern


def named_split_folders(splits: Splits) -> dict[str, str] | None:
    """Returns folder -> split; None if the request names no split folders."""
    if splits.folders is None:
        return None
    return {folder.strip("/"): split for folder, split in splits.folders.items()}
