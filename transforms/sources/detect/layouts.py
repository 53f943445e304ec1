"""The rule book: what the folders of an input are, judged by their names and by what all of them hold.

The rules look at the summary that the listing makes. In this order:

1. Folders that only wrap others (`images/`, `flower_photos/`, `flowers/flowers/`) are no classes: go on below them.
2. Folders of masks and other annotations beside those of the photos are not classes: refused.
3. Folders that are all named like splits are splits. Some that are, among others, or only look like it: refused.
4. The folders below are the classes if they can be: a split without class folders, splits without a common class,
   classes named `images` or `test`, and folders whose images lie at different depths are refused.

What is refused comes with choices; each is put to the same rules before it is offered. `class_names`, `classes` and
`label_pattern` say what the classes are, `splits` which folders are splits, `include` and `exclude` what belongs to it.
"""

from __future__ import annotations

import dataclasses
import functools
import glob
import re
from collections.abc import Iterable, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.transforms.sources.detect.names import (
    is_annotation,
    is_container,
    is_wrapper,
    normalize,
    split_in_name,
)
from beam_tfrecords.transforms.sources.detect.tree import FolderTree
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.source_spec import SourceSpec
from beam_tfrecords.transforms.splits import SPLIT_NAMES, split_of_folder

_MOST_NAMES = 10
_MOST_DEPTH = 20
_SPLITS = ("train", "validation", "test")
# Splits that are also things that pictures show.
_ALSO_THINGS = frozenset({"train", "tr"})
# How the names of masks end that lie beside their photos: 1.png, 1_mask.png, 1_mask_2.png.
_MASK_ENDING = re.compile(r"([_-](?:mask|seg|gt|label|annotation))(?:[_-]?\d+)?(?=\.[^.]*$)", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Interpretation:
    """What the folders of an input are.

    Attributes:
      bases: path of a folder below the input -> split of the images in it, or None. Its folders are the classes.
      inner_splits: name of a folder in a class folder -> split of the images in it.
      is_nested: whether the whole path below a base is the class.
    """

    bases: Mapping[str, str | None] = dataclasses.field(default_factory=lambda: {"": None})
    inner_splits: Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_nested: bool = False

    @property
    def has_splits(self) -> bool:
        """Whether folders say the split."""
        return bool(self.inner_splits) or any(self.bases.values())

    def place(self, path: str) -> tuple[str | None, str | None]:
        """Class and split of the image at a path below the input; None where its folders say none."""
        folders = path.split("/")[:-1]
        for depth in self._depths:
            base = "/".join(folders[:depth])
            if len(folders) >= depth and base in self.bases:
                below, split = folders[depth:], self.bases[base]
                if self.inner_splits:
                    split = self.inner_splits.get(below[1]) if len(below) > 1 else None
                return ("/".join(below) if self.is_nested else below[0]) if below else None, split
        return None, None

    @functools.cached_property
    def _depths(self) -> Sequence[int]:
        return sorted({base.count("/") + 1 if base else 0 for base in self.bases}, reverse=True)


@dataclasses.dataclass(frozen=True)
class Assumption:
    """What the folders of an input usually are; the listing goes by it until all folders are known.

    Attributes:
      splits: whether first folders that are named like splits are splits.
      needs_class: whether they only are where folders below them can be the classes.
      class_names: as `SourceSpec.class_names`.
    """

    splits: bool
    needs_class: bool
    class_names: tuple[str, ...] = ()

    def place(self, path: str) -> tuple[str | None, str | None]:
        """As `Interpretation.place`."""
        folders = path.split("/")[:-1]
        if not folders:
            return None, None
        split = SPLIT_NAMES.get(folders[0].lower()) if self.splits and folders[0] not in self.class_names else None
        if split is not None and (len(folders) > 1 or not self.needs_class):
            return folders[1] if len(folders) > 1 else None, split
        return folders[0], None


@dataclasses.dataclass(frozen=True)
class Request:
    """What the rules have to know of a request.

    Attributes:
      spec: the request.
      name: of the input, without the folders before it.
      is_only: whether there is no other input.
    """

    spec: SourceSpec
    name: str = ""
    is_only: bool = True

    @property
    def by_folders(self) -> bool:
        """Whether the folders give the labels."""
        return self.spec.needs_label and self.spec.label_pattern is None

    @functools.cached_property
    def named(self) -> frozenset[str]:
        """The classes that the request names."""
        return frozenset(map(normalize, (*self.spec.class_names, *self.spec.classes)))


class UnclearError(Exception):
    """The folders may be several things.

    Attributes:
      found: what was found, for a message.
      kind: which rule says so; it decides what is offered.
      bases: paths of the folders whose content is unclear -> split, or None.
      names: names or paths of the folders or files that are in doubt.
      splits: folder -> split, as it may be meant.
      others: names beside those in doubt.
    """

    def __init__(
        self,
        found: str,
        kind: str,
        *,
        bases: Mapping[str, str | None],
        names: Sequence[str] = (),
        splits: Mapping[str, str] | None = None,
        others: Sequence[str] = (),
    ) -> None:
        super().__init__(found)
        self.found = found
        self.kind = kind
        self.bases = bases
        self.names = names
        self.splits = splits or {}
        self.others = others


def interpret(tree: FolderTree, request: Request) -> tuple[Interpretation, list[str]]:
    """The roles of the folders, and notes on what was recognised.

    Raises:
      UnclearError: they may be several things.
    """
    rules = _Rules(tree, request)
    return rules.find(), rules.notes


class _Rules:
    """One use of the rules."""

    def __init__(self, tree: FolderTree, request: Request) -> None:
        self._tree = tree
        self._request = request
        self.notes: list[str] = []

    def find(self) -> Interpretation:
        """See `interpret`."""
        spec = self._request.spec
        if spec.split_folders is not None:
            named = {folder.strip("/"): split for folder, split in spec.split_folders.items()}
            bases: dict[str, str | None] = {
                folder: split for folder, split in named.items() if self._tree.total(folder)
            }
            if not bases:
                return Interpretation(dict(named))
            self._refuse_annotations("")
        else:
            base = self._peel("") if self._request.by_folders or spec.splits_auto else ""
            self._refuse_annotations(base)
            looks = self._request.by_folders or spec.splits_auto
            splits = self._find_splits(base) if looks else None
            if splits and not spec.splits_auto:
                raise UnclearError(
                    f"`splits` has fractions, but there are the split folders {show_names(list(splits))}, which would "
                    "become classes",
                    "fractions",
                    bases={base: None},
                    names=list(splits),
                    splits=splits,
                )
            bases = {join(base, name): split for name, split in splits.items()} if splits else {base: None}
        if not self._request.by_folders:
            return Interpretation(bases if any(bases.values()) else {"": None})
        return self._find_classes(bases)

    def _note(self, recognised: str) -> None:
        if self._request.by_folders:
            self.notes.append(f"{recognised}; `label_pattern` or `class_names` says otherwise")

    def _peel(self, path: str) -> str:
        """The folder below a path that holds more than one folder or images, behind those that only wrap it."""
        while True:
            name = self._wrapped(path)
            if name is None:
                return path
            path = join(path, name)
            self._note(f"{printable(path)}/ only wraps other folders")

    def _wrapped(self, path: str) -> str | None:
        """The one folder in a folder, if it is around others and no class."""
        name = self._only(path)
        if name is None or normalize(name) in self._request.named:
            return None
        outer = storage.basename(path) if path else self._request.name
        if name == outer or self._only(join(path, name)) == name:
            return name
        if split_in_name(name) is not None and not is_container(name):
            return None
        return name if is_wrapper(name) or self._leads_on(join(path, name)) else None

    def _only(self, path: str) -> str | None:
        names = self._tree.below(path)
        return names[0] if len(names) == 1 and not self._tree.images(path) else None

    def _leads_on(self, path: str) -> bool:
        """Whether a folder, or what it wraps, has split folders with classes, or a folder that wraps the classes."""
        for _ in range(_MOST_DEPTH):
            name = self._only(path)
            if name is None or split_of_folder(name):
                break
            path = join(path, name)
            if is_container(name):
                return bool(self._tree.below(path))
        names = self._tree.below(path)
        splits = [name for name in names if split_of_folder(name)]
        return bool(splits) and len(splits) == len(names) and any(self._tree.below(join(path, one)) for one in names)

    # Annotations

    def _refuse_annotations(self, base: str) -> None:
        """Refuses images that annotate other images, unless the request says which files are wanted."""
        wanted = {name for one in self._request.spec.include for name in one.split("/")} | self._request.named
        found = [path for path in self._annotation_folders() if storage.basename(path) not in wanted]
        if found:
            count = sum(map(self._tree.total, found))
            what = f"the {count:,} images in {show_names(found)} look like masks or annotations"
            if self._request.spec.label_pattern is not None:
                head = "" if self._request.is_only else "*/"
                globs = [f"`exclude={head}{glob.escape(path)}/**`" for path in found[:_MOST_NAMES]]
                self.notes.append(f"{what}; to leave them out, say {' '.join(globs)}")
                return
            raise UnclearError(
                f"{what} of the others",
                "annotations",
                bases={base: None},
                names=found,
            )
        says = bool(self._request.named) or self._request.spec.label_pattern is not None
        ending = None if says else self._mask_ending()
        if ending:
            raise UnclearError(
                f"there are images that end in {ending}, beside images of the same names without it, as masks do",
                "mask files",
                bases={base: None},
                names=[ending],
            )

    def _annotation_folders(self) -> list[str]:
        """The outermost folders of images that annotate those of the folders beside them."""
        found: set[str] = set()
        for path, folder in self._tree.walk():
            parts = path.split("/") if folder.images else []
            for depth, name in enumerate(parts):
                parent = "/".join(parts[:depth])
                if is_annotation(name) and self._annotates(parent, name):
                    found.add(join(parent, name))
                    break
        return sorted(found)

    def _annotates(self, parent: str, name: str) -> bool:
        """Whether the folder of a name that annotations have is beside what they can annotate, and not a class."""
        beside = [one for one in self._tree.below(parent) if not is_annotation(one)]
        if self._tree.images(parent) or any(is_container(one) or split_in_name(one) for one in beside):
            return True
        inner = set(self._tree.below(join(parent, name)))
        if inner and any(inner & set(self._tree.below(join(parent, one))) for one in beside):
            return True
        stems = _stems(self._tree.names([join(parent, name)]))
        others = _stems(self._tree.names(join(parent, one) for one in beside))
        return len(beside) == 1 and bool(stems) and len(stems & others) * 2 > len(stems)

    def _mask_ending(self) -> str | None:
        """The ending by which masks differ from the photos beside them."""
        for _, folder in self._tree.walk():
            endings = [found[1] for _, name in folder.names if (found := _MASK_ENDING.search(name))]
            if 0.15 * len(folder.names) <= len(endings) <= 0.85 * len(folder.names) and endings:
                return max(endings, key=endings.count)
        return None

    # Splits

    def _find_splits(self, base: str) -> dict[str, str] | None:
        """The split folders in a folder; None if there are none."""
        names, named = self._tree.below(base), self._request.named
        known = {name: split for name in names if (split := split_of_folder(name))}
        suspects = {name: split for name in names if (split := split_in_name(name))}
        others = [name for name in names if name not in suspects]
        if not suspects or any(normalize(name) in named for name in names):
            return None
        if len(known) == len(names):
            return known
        alike = [name for name in suspects if name not in known]
        is_majority = len(suspects) > len(others) or len(names) == 2
        if others and not (
            len(known) > 1
            or (is_majority and (bool(known) or len(set(suspects.values())) > 1))
            or self._share_folders(base, suspects, others)
        ):
            self._refuse_split_among_classes(base, list(known))
            return None
        # Of two folders for one split, that with the plain name.
        chosen = {split: name for name, split in [*((one, suspects[one]) for one in reversed(alike)), *known.items()]}
        beside = f", but also images in {show_names(others, quote=True)} beside them" if others else ""
        raise UnclearError(
            f"there are folders that look like splits, {show_names(sorted(suspects))}{beside}",
            "splits",
            bases={base: None},
            names=sorted(suspects),
            splits={chosen[split]: split for split in _SPLITS if split in chosen},
            others=others,
        )

    def _share_folders(self, base: str, suspects: Iterable[str], others: Iterable[str]) -> bool:
        """Whether a folder has folders of the same names as another one, as splits with the same classes do."""
        found = {name for suspect in suspects for name in self._tree.below(join(base, suspect))}
        return any(not found.isdisjoint(self._tree.below(join(base, other))) for other in others)

    def _refuse_split_among_classes(self, base: str, known: Sequence[str]) -> None:
        """Refuses a class called `test`; a train may be among cars."""
        doubtful = [name for name in known if name.lower() not in _ALSO_THINGS or self._tree.below(join(base, name))]
        if self._request.by_folders and doubtful:
            raise UnclearError(
                f"the folder {show_names(doubtful)} beside others with images may be a split or a class",
                "split among classes",
                bases={base: None},
                names=doubtful,
                splits={doubtful[0]: SPLIT_NAMES[doubtful[0].lower()]},
            )

    # Classes

    def _find_classes(self, given: Mapping[str, str | None]) -> Interpretation:
        bases = {self._peel(base): split for base, split in given.items()}
        by_name = self._level_of_named(bases)
        if by_name is not None:
            return Interpretation(by_name)
        flat = [base for base in bases if not self._tree.below(base)]
        if len(flat) == len(bases):
            where = "its split folders" if any(bases.values()) else printable(flat[0]) or "it"
            what = f"the images are directly in {where}, so that no folder names their class"
            if not any(map(self._tree.images, flat)):
                return Interpretation(bases)  # No image at all: the caller counts them and says so.
            raise UnclearError(what, "flat", bases=bases)
        direct, total = sum(map(self._tree.images, bases)), sum(map(self._tree.total, bases))
        if not flat and direct * 2 > total:
            where = ", ".join(printable(base) or "it" for base in list(bases)[:_MOST_NAMES])
            raise UnclearError(
                f"{direct:,} of {total:,} images are directly in {where}, so that no folder names their class",
                "flat",
                bases=bases,
            )
        if flat:
            raise UnclearError(
                f"no folders name the classes of the images in {show_names(flat)}, as those in "
                f"{show_names([base for base in bases if base not in flat])} do",
                "unlabelled",
                bases=bases,
                names=flat,
            )
        self._check_common_classes(bases)
        return self._check_classes(bases)

    def _level_of_named(self, bases: Mapping[str, str | None]) -> dict[str, str | None] | None:
        """The folders that hold a folder named like a class of the request, if one does."""
        level = dict(bases)
        while self._request.named and level:
            names = {normalize(name) for base in level for name in self._tree.below(base)}
            if names & self._request.named:
                return level
            level = {join(base, name): split for base, split in level.items() for name in self._tree.below(base)}
        return None

    def _check_common_classes(self, bases: Mapping[str, str | None]) -> None:
        """Refuses splits without a class that another split has, unless the request names the splits."""
        names: dict[str | None, set[str]] = {}
        for base, split in bases.items():
            names.setdefault(split, set()).update(self._tree.below(base))
        alone = [
            base
            for base, split in bases.items()
            if not any(names[split] & names[other] for other in names if other != split)
        ]
        if len(names) > 1 and alone and self._request.spec.split_folders is None:
            raise UnclearError(
                f"the folders in {show_names(alone)} are others than those in the other split folders, so that they "
                "have no class in common",
                "no common class",
                bases=bases,
                names=[base for base in alone if bases[base] != "train"],
                splits={base: split for base, split in bases.items() if split},
            )

    def _check_classes(self, bases: Mapping[str, str | None]) -> Interpretation:
        """The roles if the folders in the bases are the classes, or only wrap them."""
        tree = self._tree
        paths: dict[str, list[str]] = {}
        for base in bases:
            for name in tree.below(base):
                paths.setdefault(name, []).append(join(base, name))
        names = sorted(paths)
        containers = [name for name in names if is_container(name)]
        inner = {name: sorted({one for path in paths[name] for one in tree.below(path)}) for name in names}
        deep = [name for name in names if inner[name] and not any(map(tree.images, paths[name]))]
        if containers and len(containers) < len(names) and len(deep) < len(names):
            others = [name for name in names if name not in containers]
            raise UnclearError(
                f"{show_names(containers)} does not name a class, but is beside {show_names(others)}",
                "containers",
                bases=bases,
                names=containers,
            )
        if len(containers) == len(names):
            found = {path: split for base, split in bases.items() for path in (join(base, n) for n in tree.below(base))}
            if len(deep) < len(names):
                where = ", ".join(map(printable, list(found)[:_MOST_NAMES]))
                what = f"the images are directly in {where}, so that no folder names their class"
                raise UnclearError(what, "flat", bases=found)
            self._note(f"{show_names(names)} are read as parts, not as classes")
            return self._find_classes(found)
        if len(names) == 1 and deep:
            raise UnclearError(
                f"all images are in the folder {printable(paths[names[0]][0])}, which would be the only class, but it "
                f"holds the folders {show_names(inner[names[0]])}",
                "wrapper",
                bases=bases,
                names=[paths[names[0]][0]],
            )
        if deep:
            return self._nested(bases, names, inner, paths, is_mixed=len(deep) < len(names))
        with_inner = [name for name in names if inner[name]]
        if with_inner:
            self._note(f"images in folders of the class folder {printable(with_inner[0])} are of that class")
        if len(names) == 1 and self._request.is_only:
            self._note(f"all images are of one class, {printable(names[0])}")
        return Interpretation(bases)

    def _nested(
        self,
        bases: Mapping[str, str | None],
        names: Sequence[str],
        inner: Mapping[str, Sequence[str]],
        paths: Mapping[str, Sequence[str]],
        *,
        is_mixed: bool,
    ) -> Interpretation:
        """The roles of folders that hold folders with the images."""
        found = {one for below in inner.values() for one in below}
        splits = {name: split for name in found if (split := split_of_folder(name))}
        inner_paths = (join(path, one) for name in names for path in paths[name] for one in inner[name])
        is_flat = not is_mixed and not any(map(self._tree.below, inner_paths))
        if is_flat and len(splits) == len(found) and not any(bases.values()) and self._request.spec.splits_auto:
            self._note(f"the folders {show_names(sorted(splits))} in the class folders are the splits")
            return Interpretation(bases, inner_splits=splits)
        if is_flat and all(map(is_container, found)):
            self._note(f"the folders {show_names(sorted(found))} in the class folders are no classes")
            return Interpretation(bases)
        if not is_mixed and all(
            len(name) == 1 and all(one[:1].lower() == name.lower() for one in inner[name]) for name in names
        ):
            self._note(f"the folders {show_names(names)} are the first letters of the class folders in them")
            letters = {join(base, name): split for base, split in bases.items() for name in self._tree.below(base)}
            return Interpretation(letters, is_nested=True)
        shared = set.intersection(*(set(inner[name]) for name in names)) if names else set()
        hold = "the same folders" if shared and len(shared) == len(found) else "other folders"
        depths = "the images lie at different depths: " if is_mixed else ""
        raise UnclearError(
            f"{depths}the folders {show_names(names)} hold {hold} ({show_names(sorted(found))}), so that either may be "
            "the classes",
            "nested",
            bases=bases,
            names=names,
        )


def join(base: str, name: str) -> str:
    """The path of a folder in a folder below the input."""
    return f"{base}/{name}" if base else name


def show_names(names: Sequence[str], *, quote: bool = False) -> str:
    """The first few names, for a message."""
    shown = [repr(printable(name)) if quote else printable(name) for name in names[:_MOST_NAMES]]
    return (", ".join(shown) or "no folders") + (", …" if len(names) > _MOST_NAMES else "")


def _stems(names: Iterable[str]) -> set[str]:
    """Names without their extensions and the words that masks have at their ends."""
    return {_MASK_ENDING.sub("", name).rpartition(".")[0].lower() for name in names}
