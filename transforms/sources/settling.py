"""Settles labels and splits once all files are listed: what the folders are, and what that changes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from beam_tfrecords.errors import FailureReason
from transforms.refs import SampleRef
from transforms.sources.folder_advice import Place, refusal
from transforms.sources.folder_roles import Guess, Request, Roles, UnclearError, find_roles
from transforms.sources.folder_tree import FolderTree
from transforms.sources.path_labels import compile_pattern, named_split_folders, path_label
from transforms.sources.source_spec import SourceSpec
from transforms.sources.tables_beside import list_tables

_BESIDE_SPLITS = (FailureReason.UNKNOWN_SPLIT.value, "beside the split folders, not in one of them")
_MOST_TABLES = 3


@dataclasses.dataclass(frozen=True)
class Relabel:
    """Gives a reference the label and the split that its folders turned out to mean.

    Attributes:
      roles: prefix of keys -> roles of the folders below it. With a single entry "*", keys begin with the name of some
        archive.
      pattern: where labels come from; None for folders.
      keeps_splits: whether splits are fractions, which the listing has cut.
    """

    roles: Mapping[str, Roles]
    pattern: re.Pattern[str] | None
    keeps_splits: bool

    def __call__(self, ref: SampleRef) -> SampleRef:
        """The reference as it goes into the listing."""
        prefix = next(prefix for prefix in self.roles if prefix == "*" or ref.key.startswith(prefix))
        path = ref.key.partition("/")[2] if prefix == "*" else ref.key[len(prefix) :]
        label, split = self.roles[prefix].place(path)
        if self.pattern is not None:
            label = path_label(ref.key, self.pattern)
        failure = ref.failure
        if split is None and self.roles[prefix].has_splits:
            failure = failure or _BESIDE_SPLITS
        if self.keeps_splits:
            split = ref.split
        return SampleRef(ref.key, ref.images, ref.size, ref.fingerprint, label, split, ref.columns, failure)


def guess_roles(spec: SourceSpec) -> Guess | Roles:
    """What the folders are taken for while they are listed."""
    named = named_split_folders(spec)
    if named is not None:
        return Roles(named)
    by_folders = spec.label_pattern is None and spec.needs_label
    return Guess(splits=spec.splits_auto, needs_class=by_folders, class_names=spec.class_names)


def settle_roles(tree: FolderTree, spec: SourceSpec, place: Place, *, name: str) -> tuple[Roles, list[str]]:
    """The roles of the folders of one input, and notes on what was recognised.

    Args:
      tree: the folders.
      spec: the request.
      place: where they are.
      name: of the input.

    Raises:
      RequestError: they may be several things; says what to say.
    """
    request = Request(spec, name, is_only=not place.key_prefix)
    try:
        roles, found = find_roles(tree, request)
    except UnclearError as error:
        raise refusal(error, tree, request, place) from None
    notes = [f"{place.where}: {one}" for one in found]
    if request.by_folders:
        tables = list_tables(tree)
        if tables:
            more = ", …" if len(tables) > _MOST_TABLES else ""
            notes.append(
                f"{place.where}: the folders give the labels; not read: {', '.join(tables[:_MOST_TABLES])}{more}"
            )
    return roles, notes


def relabel(roles: Mapping[str, Roles], trees: Mapping[str, FolderTree], spec: SourceSpec) -> Relabel | None:
    """What gives the references their labels and splits anew; None if the guess was right for all of them."""
    guess = guess_roles(spec)
    for prefix, tree in trees.items():
        for path, folder in tree.walk():
            at = f"{path}/" if path else ""
            if folder.images and (
                guess.place(at) != roles[prefix].place(at)
                or (roles[prefix].has_splits and roles[prefix].place(at)[1] is None)
            ):
                return Relabel(roles, compile_pattern(spec), not spec.splits_auto and spec.split_folders is None)
    return None
