"""How much of an input a reading explains, and which readings are worth an offer. Pure."""

from __future__ import annotations

import dataclasses
import itertools
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.refs.sample_refs import Range, SampleRef, Scalar, is_mask
from beam_tfrecords.transforms.sources.detect.names import is_split, is_thing, named_split
from beam_tfrecords.transforms.sources.meaning.facts import Facts
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.splits import split_words

MOST_OFFERS = 5
# Of an input with more samples, only some are looked at.
MOST_LISTED = 20_000
_MOST_NAMED = 3
# With fewer labels, each may have a class of its own.
_MANY = 8
# Labels of samples without a label; the last one is that of a split in which none has one.
_NO_LABELS = (None, "", b"")
# Least share of the images that an offer without labels uses.
_LEAST_COVERED = 0.05
# Largest share of rejected samples in a plausible reading.
_MOST_FAILED = 0.01

_Offer = TypeVar("_Offer")


@dataclasses.dataclass(frozen=True)
class Trial:
    """What the first samples of a reading have.

    Attributes:
      contents: contents that the layout needs.
      samples: number of valid samples among those that were looked at.
      labelled: number of samples with a label or an object.
      splits: their splits.
      labels: label or class of an object -> its number.
      classes: file of an image -> label of its sample, if that has exactly one label.
      objects: number of objects.
      repeated: number of objects that their image has had before, with the same class and box.
      images: files of their images.
      num_images: number of images; a file may hold several.
      masks: files of their masks, with the first byte of one in a file of several.
      meaning: a digest of the splits, images, labels and objects of all samples.
      is_whole: whether these are all samples.
      failed: number of samples that would be rejected.
      are_alone: whether each split has a single label, which no other split has.
      lost: fields with boxes that are not stored.
      drawn: classes whose images look like masks, unlike those of others.
      read: tables, lists and documents that were read to find the samples.

    A reading that was not tried has no samples.
    """

    contents: frozenset[Content]
    samples: int
    labelled: int
    splits: frozenset[str]
    labels: Mapping[Scalar, int]
    classes: Mapping[str, Scalar]
    objects: int
    repeated: int
    images: frozenset[str]
    num_images: int
    masks: frozenset[str]
    meaning: int
    is_whole: bool
    failed: int = 0
    are_alone: bool = False
    lost: Sequence[str] = ()
    drawn: Sequence[str] = ()
    read: frozenset[str] = frozenset()

    @property
    def is_bare(self) -> bool:
        """Whether only images, or only columns, are stored."""
        return self.contents in ({Content.IMAGE}, {Content.COLUMNS})

    def says_more_than(self, single: Trial) -> bool:
        """Whether it has several labels or objects, or contents that a reading of a single label lacks."""
        return len(self.labels) > 1 or bool(self.objects or self.masks) or not self.contents <= single.contents

    def has_classes_of(self, other: Trial) -> bool:
        """Whether another reading has the same classes under different names, such as numbers instead of words."""
        pairs = {(label, other.classes.get(image)) for image, label in self.classes.items()}
        names = {name for _, name in pairs} - {None}
        return len(pairs) == len(self.labels) == len(names) == len(other.labels) > 1

    @property
    def are_splits(self) -> bool:
        """Whether all classes have names of splits, as train2017 and val2017, or one is a word for nothing else."""
        names = [label for label in self.labels if isinstance(label, str)]
        found = [named_split(name) for name in names]
        are_all = 1 < len(found) == len(self.labels) and all(says_little for _, says_little in found)
        return are_all or any(is_split(name) and not is_thing(name, names) for name in names)

    @property
    def repeats(self) -> bool:
        """Whether images are in several samples that say something of them."""
        return self.is_whole and self.samples > self.num_images > 0 and not self.is_bare

    @property
    def are_own(self) -> bool:
        """Whether nearly each label has a class of its own."""
        return 2 * len(self.labels) > sum(self.labels.values()) >= _MANY

    @classmethod
    def of(cls, refs: Sequence[SampleRef], contents: frozenset[Content], *, is_whole: bool) -> Trial:
        """Counts the contents that a layout needs and the valid ones of some references have."""
        valid = [ref for ref in refs if ref.failure is None]
        labels: dict[Scalar, int] = {}
        classes: dict[str, Scalar] = {}
        images: set[tuple[str, int]] = set()
        masks: set[str] = set()
        labelled = objects = repeated = 0
        seen = set[tuple[Any, ...]]()
        has_objects, has_label = Content.OBJECTS in contents, Content.LABEL in contents
        for ref in valid:
            found = ref.objects.labels if has_objects and ref.objects else ref.labels if has_label else ()
            named = [label for label in found if label not in _NO_LABELS]
            for label in named:
                labels[label] = labels.get(label, 0) + 1
            labelled += bool(named)
            objects += len(found) if has_objects else 0
            if has_objects and ref.objects:
                boxes = zip(*[iter(ref.objects.boxes)] * 4, strict=True)
                placed = [(image, *one) for one in zip(found, boxes, strict=False) for image in ref.images.values()]
                repeated += len(placed) - len({*placed} - seen)
                seen.update(placed)
            for name, locator in ref.images.items():
                if is_mask(name):
                    masks.add(f"{locator.uri}:{locator.offset}" if isinstance(locator, Range) else locator.uri)
                else:
                    images.add((locator.uri, locator.offset if isinstance(locator, Range) else 0))
                    if len(named) == 1 and not ref.objects:
                        classes[locator.uri] = named[0]
        splits = frozenset(ref.split for ref in valid if ref.split)
        pairs = {(ref.split, label) for ref in valid for label in ref.labels} if has_label else set()
        are_alone = len(pairs) == len(labels) == len(splits) > 1
        every = [
            repr((ref.split, *ref.images.values(), *ref.labels, ref.objects and ref.objects.pack())) for ref in valid
        ]
        used = frozenset(uri for uri, _ in images), len(images), frozenset(masks), hash(frozenset(every))
        counted = contents, len(valid), labelled, splits, labels, classes, objects, repeated
        return cls(*counted, *used, is_whole, are_alone=are_alone)


@dataclasses.dataclass(frozen=True)
class Coverage:
    """What of an input a reading uses, and what it leaves.

    Attributes:
      trial: what the samples have.
      total: number of images in the input; 0 if it is unknown.
      implausible: what a right reading would hardly give; "" for nothing.
      left: files of the input that the reading leaves, in words.
      leaves_texts: whether tables, lists or documents are among these, or belong to one image each.
    """

    trial: Trial
    total: int
    implausible: str
    left: Sequence[str]
    leaves_texts: bool

    @property
    def is_a_little(self) -> bool:
        """Whether it uses only a small share of the images, without labels."""
        is_few = self.trial.num_images < _LEAST_COVERED * self.total
        return self.trial.is_whole and self.trial.is_bare and is_few

    def is_within(self, other: Coverage) -> bool:
        """Whether another reading has all images of this one too, and neither has anything else."""
        mine, others = self.trial, other.trial
        are_bare = mine.is_bare and others.is_bare and mine.is_whole and bool(mine.images)
        return are_bare and mine.images <= others.images and mine.splits <= others.splits

    def is_part_of(self, other: Coverage) -> bool:
        """Whether another reading has everything that this one has, the same classes, and more images or splits."""
        mine, others = self.trial, other.trial
        return (
            mine.is_whole
            and mine.images <= others.images
            and mine.splits <= others.splits
            and (mine.images, mine.splits) != (others.images, others.splits)
            and len(mine.masks) <= len(others.masks)
            and mine.contents - {Content.LABEL} <= others.contents
            and (mine.labels.keys() == others.labels.keys() or mine.has_classes_of(others))
            and mine.labelled * others.samples <= others.labelled * mine.samples
            # An image that is listed twice, as in the folds of a dataset, counts once.
            and (mine.samples > mine.num_images or others.samples <= others.num_images)
        )


def measure(facts: Facts, trial: Trial, named: Sequence[str] = ()) -> Coverage:
    """Compares what a reading uses with the files of the input.

    Args:
      facts: the files of the input.
      trial: what the samples have.
      named: the files that the reading names.
    """
    images = facts.images
    # Of a part of the samples, only whole folders are known to be left. Members of archives have their archive's path.
    is_known = trial.is_whole and facts.is_whole and trial.images <= images
    left = _name_left(facts, trial.images | trial.masks) if is_known else []
    texts = {**{one: one for one in facts.texts}, **facts.texts_of_images}
    known = {*trial.read, *trial.images, *named}
    outside = [shown for shown, one in texts.items() if one not in known]
    left += [printable(_below(one, facts.roots)) for one in outside]
    total = len(images - trial.masks) if is_known else 0
    implausible = "; ".join(filter(None, (_find_implausible(trial), _find_mixed(trial, facts.roots))))
    return Coverage(trial, total, implausible, left, bool(outside or facts.texts_of_images))


def decide(tried: Sequence[tuple[_Offer, Coverage]]) -> list[_Offer]:
    """Returns the best offers: labeled ones first, whole ones before those that are a part of another, plausible ones.

    Args:
      tried: offers and their coverage, in the order that decides between equals.
    """

    def rank(one: tuple[_Offer, Coverage]) -> tuple[bool, ...]:
        coverage = one[1]
        is_part = any(coverage.is_part_of(other) for _, other in tried)
        are_no_classes = bool(coverage.trial.drawn) or coverage.trial.are_splits or coverage.trial.are_own
        are_no_classes |= coverage.trial.repeats and coverage.trial.objects > 0
        is_single = len(coverage.trial.labels) == 1 and not (coverage.trial.objects or coverage.trial.masks)
        # What annotates the images says more than one class of all.
        is_guess = is_single and coverage.leaves_texts
        says_less = is_single and any(other.trial.says_more_than(coverage.trial) for _, other in tried)
        are_few = coverage.implausible != "" or says_less
        # Pairs say less than objects, and more than words in names.
        are_pairs = has_objects and coverage.trial.contents == {Content.IMAGE, Content.IMAGES}
        return are_no_classes, is_guess, coverage.trial.is_bare or are_pairs, is_part, are_few

    tried = [(offer, coverage) for offer, coverage in tried if not coverage.is_a_little]
    masks = {path for _, coverage in tried for path in coverage.trial.masks}
    has_objects = any(coverage.trial.objects for _, coverage in tried)
    offers: list[tuple[_Offer, Coverage]] = []
    for offer, coverage in sorted(tried, key=rank):
        are_masks = coverage.trial.is_bare and not coverage.trial.images.isdisjoint(masks)
        if not (are_masks or any(coverage.is_within(other) for _, other in offers)):
            offers.append((offer, coverage))
    return [offer for offer, _ in offers[:MOST_OFFERS]]


def describe_coverage(coverage: Coverage) -> str:
    """Says what a reading uses and what it leaves, such as `6 of 8 images, 2 classes; leaves valid`."""
    trial, left = coverage.trial, coverage.left
    of = f" of {coverage.total:,}" if coverage.total > trial.num_images else ""
    words = [f"{trial.num_images:,}{of} {_plural('image', coverage.total or trial.num_images)}"]
    at_least = "" if trial.is_whole else "at least "
    if not trial.is_whole:
        words = [f"more than {MOST_LISTED:,} samples"]
    elif not trial.num_images:
        words = [f"{trial.samples:,} {_plural('sample', trial.samples)}"]
    if not trial.samples:
        return ""
    if len(trial.splits) > 1:
        words[0] += f" in {len(trial.splits)} splits"
    if trial.is_whole:
        words += [f"{trial.objects:,} {_plural('object', trial.objects)}"] * bool(trial.objects)
        words += [f"{len(trial.masks):,} {_plural('mask', len(trial.masks))}"] * bool(trial.masks)
    count = len(trial.labels)
    words += [f"{at_least}{count:,} {'class' if count == 1 else 'classes'}"] * bool(count)
    shown = f"leaves {', '.join(left[:_MOST_NAMED])}{', …' if len(left) > _MOST_NAMED else ''}" if left else ""
    return "; ".join(filter(None, (", ".join(words), coverage.implausible, shown)))


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _find_implausible(trial: Trial) -> str:
    lost = f"loses {', '.join(map(printable, trial.lost[:_MOST_NAMED]))}" if trial.lost and not trial.is_bare else ""
    if trial.failed > _MOST_FAILED * (trial.samples + trial.failed):
        of = " of those looked at" * (not trial.is_whole)
        rejected = f"{trial.failed:,} {_plural('sample', trial.failed)}{of} would be rejected"
        return "; ".join(filter(None, (rejected, lost)))
    if trial.drawn:
        return f"the images of {', '.join(map(printable, trial.drawn[:_MOST_NAMED]))} look like masks"
    if lost:
        return lost
    if trial.are_splits:
        return "the classes look like splits"
    if trial.is_whole and trial.are_alone:
        return "each split has a class of its own"
    if trial.repeats:
        return f"images are in several samples, {trial.samples:,} in all"
    if 2 * trial.repeated >= trial.objects > 0:
        return "images have the same objects twice"
    if trial.are_own:
        return "nearly each has a class of its own"
    return ""


def _find_mixed(trial: Trial, roots: Sequence[str]) -> str:
    """Says which splits folders name that a reading does not tell apart."""
    if len(trial.splits) > 1:
        return ""
    folders = {*map(posixpath.dirname, trial.images)}
    # The folders above the input say nothing.
    below = {_below(one, roots) for one in folders if any(f"{one}/".startswith(f"{root}/") for root in roots)}
    splits = {split for folder in below for split in split_words(folder).values()}
    return f"{' and '.join(sorted(splits))} are one split" if len(splits) > 1 else ""


def _name_left(facts: Facts, used: frozenset[str]) -> list[str]:
    """Names the images that a reading does not use: whole folders, or files by their common ending."""
    folders = {""}
    for folder in {_below(posixpath.dirname(path), facts.roots) for path in used}:
        while folder not in folders:
            folders.add(folder)
            folder = posixpath.dirname(folder)
    left = []
    for group in facts.groups:
        unused = sorted(group.paths - used)
        folder = _below(group.folder, facts.roots)
        if unused and folder in folders:
            glob = posixpath.join(folder, _glob_of([posixpath.basename(path) for path in unused]))
            others = (path for path in group.paths & used if path.endswith(glob.rpartition("*")[2]))
            left.append(f"{len(unused):,} of {glob}" if "*" in glob and any(others) else glob)
        elif unused:
            while posixpath.dirname(folder) not in folders:
                folder = posixpath.dirname(folder)
            left.append(folder)
    return [printable(one) for one in dict.fromkeys(left)]


def _glob_of(names: Sequence[str]) -> str:
    """Returns a name, or a glob for several names."""
    backwards = [name[::-1] for name in names]
    common = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(min(backwards), max(backwards), strict=False))
    ending = "".join(one for one, _ in common)[::-1]
    return names[0] if len(names) == 1 else f"*{ending}"


def _below(folder: str, roots: Sequence[str]) -> str:
    """Returns the path of a folder below the root that has it."""
    root = next((one for one in roots if folder == one or folder.startswith(f"{one}/")), "")
    return folder[len(root) :].strip("/")
