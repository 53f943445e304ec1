"""Extracts labels, groups and columns from keys with a regular expression."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from beam_tfrecords.errors import RequestError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.splits import Splits

OUTSIDE_SPLITS = "outside the split folders"


@dataclasses.dataclass(frozen=True)
class PathPattern:
    """The setting `label_pattern`, whose groups match parts of keys. Picklable.

    Attributes:
      pattern: the compiled pattern; None if the setting is not set.
      taken: groups that the layout takes as columns.
    """

    pattern: re.Pattern[str] | None
    taken: Sequence[str] = ()

    @classmethod
    def of(cls, label_pattern: str | None, needs: Needs) -> PathPattern:
        """Compiles the setting.

        Raises:
          RequestError: the setting is not a regular expression with a group `label`, or with other groups if the layout
            needs no label; or the layout needs a column that the pattern has no group for.
        """
        found = cls(_compile(label_pattern, needs))
        wanted = found.columns if needs.takes_all else sorted(needs.columns or ())
        missing = next((name for name in wanted if name not in found.columns), None)
        if found.columns and missing is not None:
            raise RequestError(
                f"`layout` asks for column.{missing}, which `label_pattern` has no group for; it has: "
                f"{', '.join(found.columns)}",
                code="missing_group",
            )
        return cls(found.pattern, [name for name in wanted if name in found.columns])

    @property
    def columns(self) -> Sequence[str]:
        """Named groups other than those of the label and of the group of samples."""
        return [name for name in (self.pattern.groupindex if self.pattern else ()) if name not in ("label", "group")]

    @property
    def contents(self) -> frozenset[Content]:
        """Contents that the groups provide."""
        found = {Content.COLUMNS} if self.columns else set[Content]()
        return frozenset(found | ({Content.LABEL} if self.pattern and "label" in self.pattern.groupindex else set()))

    def describe(self) -> dict[str, Any]:
        """Returns fields of a source's description."""
        return {"columns": self.columns, "column_types": dict.fromkeys(self.columns, "bytes") or None}

    @property
    def notes(self) -> list[str]:
        """Note on groups that the layout does not use."""
        unused = [name for name in self.columns if name not in self.taken]
        if not unused:
            return []
        return [f"groups of `label_pattern` not used: {', '.join(unused)}; a layout takes such as column.{unused[0]}"]

    def find(self, key: str) -> dict[str, Any]:
        """Returns label, group and columns of a sample, as in `SampleRef`; None for groups without a match."""
        if self.pattern is None:
            return {}
        match = self.pattern.search(key)
        found = match.groupdict() if match else {}
        columns = {name: found.get(name) for name in self.taken}
        return {"label": found.get("label") or None, "group": found.get("group"), "columns": columns}


def _compile(label_pattern: str | None, needs: Needs) -> re.Pattern[str] | None:
    if label_pattern is None:
        return None
    try:
        pattern = re.compile(label_pattern)
    except (re.error, OverflowError) as error:
        raise RequestError(
            f"`label_pattern={label_pattern}` is not a regular expression: {error}", code="invalid_value"
        ) from error
    names = PathPattern(pattern).columns
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
