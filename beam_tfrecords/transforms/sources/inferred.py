"""What sources share whose folders, or a pattern of paths, say class and split."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from beam_tfrecords.errors import Suggestion
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.transforms.sources.detect.inference import ApplyInterpretations, assume_folders, infer_folders
from beam_tfrecords.transforms.sources.detect.interpretation import Interpretation, Request
from beam_tfrecords.transforms.sources.detect.suggestions import find_sidecars
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary, FolderTree
from beam_tfrecords.transforms.sources.inputs import Inputs
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.path_labels import describe_path_columns, find_path_columns
from beam_tfrecords.transforms.sources.source import Source


class InferredSource(Source):
    """A source that infers labels and splits once all samples are listed."""

    is_inferred_later = True
    _inferred: tuple[FolderTree, Request] | None = None

    def other_labels(self) -> tuple[str, Sequence[Suggestion]]:
        """See `Source.other_labels`; those of the last tree."""
        return find_sidecars(*self._inferred) if self._inferred else super().other_labels()

    def _infer(self, tree: FolderTree, request: Request) -> Interpretation:
        """What the folders of an input mean; adds notes on what was recognised.

        Raises:
          RequestError: they may mean several things.
        """
        found, notes = infer_folders(tree, request)
        self.notes += notes
        self._inferred = tree, request
        return found

    def _change(
        self,
        found: Mapping[str, Interpretation],
        trees: Mapping[str, FolderTree],
        inputs: Inputs,
        needs: Needs,
        *,
        pattern: re.Pattern[str] | None,
        folders: FolderSummary,
        splits: Mapping[str, str],
    ) -> ApplyInterpretations | None:
        """What gives the references their labels and splits anew; None if the guess was right for all of them.

        Args:
          found: prefix of keys -> what the folders below it mean, and so `trees` and `splits`.
          pattern: where labels come from; None for folders.
          folders: of all inputs.

        Raises:
          RequestError: an input says its split, and its folders another one.
        """
        change = ApplyInterpretations(found, pattern, needs.splits.fractions is not None, splits)
        change.check_splits(folders, inputs)
        guess = assume_folders(pattern, needs)
        for prefix, tree in trees.items():
            for path, folder in tree.walk():
                at = f"{path}/" if path else ""
                if folder.images and (
                    bool(splits)
                    or bool(found[prefix].lists)
                    or guess.place(at) != found[prefix].place(at)
                    or (found[prefix].has_splits and found[prefix].place(at)[1] is None)
                ):
                    return change
        return None

    def _take_columns(self, pattern: re.Pattern[str] | None, needs: Needs) -> None:
        """Makes columns of the groups of a pattern of paths.

        Raises:
          RequestError: the layout asks for another column.
        """
        self.columns, taken = find_path_columns(pattern, needs)
        self.column_types = dict.fromkeys(self.columns, "bytes") or None
        self.provides |= {Content.COLUMNS} if self.columns else frozenset()
        self.notes += describe_path_columns(self.columns, taken)
