"""Base class of the sources that take class and split from folders or from a pattern of paths."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.sources.detect.folder_meaning import FolderMeaning
from beam_tfrecords.transforms.sources.detect.inference import infer_folders
from beam_tfrecords.transforms.sources.detect.interpretation import Interpretation, Request
from beam_tfrecords.transforms.sources.detect.suggestions import find_sidecars
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary, FolderTree
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.path_labels import compile_pattern, describe_path_columns, find_path_columns
from beam_tfrecords.transforms.sources.source import Finish, OpenRequest, Source
from beam_tfrecords.transforms.sources.tally import Tally


class InferredSource(Source):
    """A source that infers labels and splits after all samples are listed."""

    _needs: Needs
    _pattern: re.Pattern[str] | None
    _joined: Sequence[str]

    def _names_paths(self) -> bool:
        """Whether the request has settings that only apply to this input or to paths below it."""
        folders = self._needs.splits.folders
        return bool(self._spec.globs or folders or self._pattern or self._inputs.splits)

    def _leave_joined(self, folders: FolderSummary, tally: Tally, roots: Mapping[str, str]) -> None:
        """Removes the files that the request joins from the files that nothing reads.

        Args:
          folders: folders of all inputs.
          tally: counts of the listing.
          roots: key prefix -> folder of an input.
        """
        for path, (prefix, root) in itertools.product(self._joined, roots.items()):
            key = prefix + path.removeprefix(f"{root}/")
            if path.startswith(f"{root}/") and (left := folders.remove_other(key)) is not None:
                tally.remove(key, left)

    def _infer(self, tree: FolderTree, request: Request, tally: Tally) -> Interpretation:
        """Interprets the folders of an input, and adds notes on the result.

        Raises:
          RequestError: the folders are ambiguous.
        """
        found, notes = infer_folders(tree, request)
        tally.notes += notes
        self._describe(other_labels=functools.partial(find_sidecars, tree, request))
        return found

    def _decide(
        self, found: Mapping[str, Interpretation], *, folders: FolderSummary, splits: Mapping[str, str]
    ) -> Finish:
        """Returns the labels and splits that the folders give.

        Args:
          found: key prefix -> interpretation of the folders below it.
          folders: folders of all inputs.
          splits: key prefix -> split that an input states.

        Raises:
          RequestError: an input states its split, but its folders state another.
        """
        keeps_splits = self._needs.splits.fractions is not None
        meaning = FolderMeaning(found, "", self._pattern is not None, keeps_splits, splits)
        meaning.check_splits(folders, self._inputs)
        return Finish(self.description, meaning)

    def _take_request(self, request: OpenRequest, needs: Needs, prefixes: Iterable[str]) -> None:
        """Stores a request and the key prefixes, and turns the named groups of `label_pattern` into columns.

        Raises:
          RequestError: the layout needs a column that is not among these groups.
        """
        self._inputs, self._spec, self._needs = request.inputs, request.spec, needs
        self._joined = [file.path for one in request.joined for file in one.files]
        self._pattern = compile_pattern(request.spec.label_pattern, needs)
        columns, taken = find_path_columns(self._pattern, needs)
        self._describe(
            provides=self.description.provides | ({Content.COLUMNS} if columns else frozenset()),
            columns=columns,
            column_types=dict.fromkeys(columns, "bytes") or None,
            prefix_depth=max(prefix.count("/") for prefix in prefixes),
        )
        self.notes += describe_path_columns(columns, taken)
