"""What the folders of a listing mean for the labels and splits of its references."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from beam_tfrecords.errors import FailureReason, Reading, RequestError
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.sources.detect.interpretation import Interpretation
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary, find_prefix
from beam_tfrecords.transforms.sources.inputs import Inputs
from beam_tfrecords.transforms.sources.names import printable

_BESIDE_SPLITS = (FailureReason.UNKNOWN_SPLIT.value, "beside the split folders, not in one of them")


@dataclasses.dataclass(frozen=True)
class FolderMeaning:
    """The labels and splits that folders give: a decision about each reference of a listing.

    Attributes:
      found: key prefix -> interpretation of the folders below it.
      label_pattern: pattern that finds the label in the names of archives; "" if the folders give it.
      keeps_labels: whether references have their labels already, from `label_pattern` of the request.
      keeps_splits: whether to keep splits, because the listing assigned them by fractions.
      splits: key prefix -> split of all samples below it, if the inputs state their splits.
    """

    found: Mapping[str, Interpretation]
    label_pattern: str
    keeps_labels: bool
    keeps_splits: bool
    splits: Mapping[str, str]

    by_group = by_key = True

    @property
    def is_large(self) -> bool:
        """See `Decision.is_large`: lists name the label of each image."""
        return any(one.lists for one in self.found.values())

    def apply(self, refs: RefColumns) -> RefColumns:
        """Returns the references with labels, and with splits in the words of their folders."""
        places: dict[str, tuple[str | None, str | None, bool]] = {}
        is_large, found = self.is_large, []
        for key in refs.keys:
            at = key if is_large or "/" not in key else key[: key.rindex("/") + 1]
            if at not in places:
                places[at] = self._place(at)
            found.append(places[at])
        failures = [
            failure or ([*_BESIDE_SPLITS] if lacks_split else None)
            for failure, (*_, lacks_split) in zip(refs.each("failure"), found, strict=True)
        ]
        refs = refs.replace(failure=failures)
        if not self.keeps_splits:
            refs = refs.replace(split=[split for _, split, _ in found])
        return refs if self.keeps_labels else dataclasses.replace(refs, labels=[label for label, *_ in found])

    def _place(self, key: str) -> tuple[str | None, str | None, bool]:
        """Returns label and split of a key, and whether it lacks a split."""
        meaning, path, said = self._find(key)
        label, split = meaning.place(path)
        split = split or said
        if self.label_pattern:
            match = re.match(self.label_pattern, key)
            label = match["label"] if match else None
        return label, split, split is None and meaning.has_splits

    def check_splits(self, folders: FolderSummary, inputs: Inputs) -> None:
        """Checks that the folders of an input do not contradict its stated split.

        Raises:
          RequestError: a folder has another split.
        """
        for key, folder in folders.folders.items() if self.splits else ():
            meaning, path, said = self._find(f"{key}/")
            split = meaning.place(path)[1]
            if folder.images and split not in (None, said):
                by_folders = Reading("the splits of the folders", {"input": list(inputs.paths)})
                raise RequestError(
                    f"an input is declared as {said}, but its folder {printable(key)} looks like {split}; expected one "
                    "split in each input",
                    [by_folders] if inputs.splits else [],
                    code="contradicting_splits",
                )

    def _find(self, key: str) -> tuple[Interpretation, str, str | None]:
        """Returns the interpretation for a key, the path to interpret, and the split that its input states."""
        # The key of an unreadable archive is its prefix, without the slash.
        prefix = find_prefix(f"{key}/", self.found)
        return self.found.get(prefix, Interpretation()), key[len(prefix) :], self.splits.get(prefix)
