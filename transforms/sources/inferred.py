"""What sources share whose folders, or a pattern of paths, say class and split."""

from __future__ import annotations

import re
from collections.abc import Sequence

from beam_tfrecords.errors import Suggestion
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.transforms.sources.detect.inference import infer_folders
from beam_tfrecords.transforms.sources.detect.interpretation import Interpretation, Request
from beam_tfrecords.transforms.sources.detect.suggestions import find_sidecars
from beam_tfrecords.transforms.sources.detect.tree import FolderTree
from beam_tfrecords.transforms.sources.path_labels import describe_path_columns, find_path_columns
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.source_spec import SourceSpec


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

    def _take_columns(self, pattern: re.Pattern[str] | None, spec: SourceSpec) -> None:
        """Makes columns of the groups of a pattern of paths.

        Raises:
          RequestError: the layout asks for another column.
        """
        self.columns, taken = find_path_columns(pattern, spec)
        self.column_types = dict.fromkeys(self.columns, "bytes") or None
        self.provides |= {Content.COLUMNS} if self.columns else frozenset()
        self.notes += describe_path_columns(self.columns, taken)
