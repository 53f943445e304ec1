"""Decisions: what a whole listing decides about each of its references."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Protocol

from beam_tfrecords.transforms.labels import UNLABELLED, ClassNames
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import Value
from beam_tfrecords.transforms.sources.selection import class_filter
from beam_tfrecords.transforms.splits import Splits, assign_splits


class RowDecision(Protocol):
    """A decision about each reference: a frozen value that workers receive."""

    @property
    def by_group(self) -> bool:
        """Whether it decides all samples of a group alike, and leaves out none."""
        ...

    @property
    def by_key(self) -> bool:
        """Whether it looks at nothing but key, split and group, which the shuffle has of oversized rows."""
        ...

    @property
    def is_large(self) -> bool:
        """Whether it has a value for every sample, so that workers must not receive it."""
        ...

    def apply(self, refs: RefColumns) -> RefColumns:
        """Returns the references as the decision changes them."""
        ...


@dataclasses.dataclass(frozen=True)
class Decisions:
    """The decisions about a listing, in the order in which they apply. Chunk files hold the references without them.

    Attributes:
      folders: labels and splits from the folders in the paths.
      split_words: drops the samples whose word for the split is not a split, if the request's condition excludes it.
      splits: splits by the request's rule.
      path_splits: splits from the words in the paths.
      classes: the samples and objects of the requested classes.
      unlabelled: labels of the splits without labels.
      strata: splits by class.
    """

    folders: RowDecision | None = None
    split_words: RowDecision | None = None
    splits: RowDecision | None = None
    path_splits: RowDecision | None = None
    classes: RowDecision | None = None
    unlabelled: RowDecision | None = None
    strata: RowDecision | None = None

    def apply(self, refs: RefColumns) -> RefColumns:
        """Returns the references with all decisions, without those that are left out."""
        for step in self:
            refs = step.apply(refs)
        return refs

    def __iter__(self) -> Iterator[RowDecision]:
        every = (getattr(self, field.name) for field in dataclasses.fields(self))
        return (step for step in every if step is not None)

    def __bool__(self) -> bool:
        return any(True for _ in self)


UNDECIDED = Decisions()


@dataclasses.dataclass(frozen=True)
class AssignSplits:
    """Assigns splits by a rule; see `assign_splits`."""

    splits: Splits
    seed: int

    by_key, is_large = True, False

    @property
    def by_group(self) -> bool:
        """See `RowDecision.by_group`."""
        return self.splits.fractions is None

    def apply(self, refs: RefColumns) -> RefColumns:
        """See `RowDecision.apply`."""
        return assign_splits(refs, splits=self.splits, seed=self.seed)


@dataclasses.dataclass(frozen=True)
class LeaveSplits:
    """Leaves out the samples with some words for their split."""

    words: frozenset[str]

    by_group, by_key, is_large = False, True, False

    def apply(self, refs: RefColumns) -> RefColumns:
        """See `RowDecision.apply`."""
        return refs.take([place for place, word in enumerate(refs.each("split")) if word not in self.words])


@dataclasses.dataclass(frozen=True)
class SelectClasses:
    """Leaves out the samples and objects of other classes.

    Attributes:
      classes: the wanted classes.
      known: as in `class_filter`.
    """

    classes: tuple[str, ...]
    known: ClassNames | None

    by_group = by_key = is_large = False

    def apply(self, refs: RefColumns) -> RefColumns:
        """See `RowDecision.apply`."""
        return self.select(refs)[0]

    def select(self, refs: RefColumns) -> tuple[RefColumns, Sequence[str], int]:
        """Returns the references that stay, the keys of the others, and the number of objects that are left out."""
        wants = class_filter(self.classes, self.known)
        kept, left, objects, left_objects = list[int](), list[str](), [*refs.each("objects")], 0
        rows = zip(refs.keys, refs.all_labels(), refs.each("failure"), objects, strict=True)
        for place, (key, labels, failure, packed) in enumerate(rows):
            wanted = [number for number, label in enumerate(labels) if wants(label)]
            left_objects += 0 if packed is None else len(labels) - len(wanted)
            if failure is None and labels and not (wanted if packed is not None else len(wanted) == len(labels)):
                left.append(key)
                continue
            kept.append(place)
            if packed is not None and len(wanted) < len(labels):
                objects[place] = list(Objects.unpack(packed).select(wanted).pack())
        if left_objects:
            refs = refs.replace(objects=objects)
        return refs.take(kept) if left else refs, left, left_objects


@dataclasses.dataclass(frozen=True)
class MarkUnlabelled:
    """Gives the samples of splits without labels the label that stands for none.

    Attributes:
      splits: the splits.
      has_one: whether a sample of the layout has one label.
    """

    splits: frozenset[str]
    has_one: bool

    by_group, by_key, is_large = True, True, False

    def apply(self, refs: RefColumns) -> RefColumns:
        """See `RowDecision.apply`."""
        none: Value = UNLABELLED if self.has_one else []
        known = zip(refs.labels, refs.each("split"), strict=True)
        return dataclasses.replace(refs, labels=[none if split in self.splits else label for label, split in known])
