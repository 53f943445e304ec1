"""Selects samples of an input by path (`include`, `exclude`) and by class (`classes`)."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from beam_tfrecords.errors import RequestError
from beam_tfrecords.storage.paths import compile_glob
from beam_tfrecords.transforms.labels import ClassNames, whole_number
from beam_tfrecords.transforms.refs.sample_refs import Scalar
from beam_tfrecords.transforms.settings import input_setting, write_list

OTHER_CLASS = "other class"
# Setting -> why it skips a sample.
SKIPPED = {"exclude": "excluded", "include": "not included"}


def read_globs(word: Any) -> tuple[str, ...]:
    """Reads one glob or a list of them."""
    globs = tuple(str(glob).strip("/") for glob in (word if isinstance(word, (list, tuple)) else [word]))
    if not globs or not all(globs):
        raise ValueError("expected a glob, such as *.png or cat/**")
    return globs


def read_names(word: Any) -> tuple[str, ...]:
    """Reads names from a list or a comma-separated string."""
    words = word.split(",") if isinstance(word, str) else word if isinstance(word, (list, tuple)) else [word]
    names = tuple(str(name).strip() for name in words)
    if not names or not all(names):
        raise ValueError("expected names, separated by commas")
    return names


@dataclasses.dataclass(frozen=True)
class Selection:
    """The samples to convert. The listing skips and counts all others.

    Attributes:
      include: globs of keys to convert; empty for all.
      exclude: globs of keys to skip.
      classes: labels to convert; empty for all. A sample without a label is kept, and fails later.
    """

    include: tuple[str, ...] = input_setting(
        (),
        help="glob of the paths to read; may be repeated",
        read=read_globs,
        write=write_list,
        shown_default="",
        may_repeat=True,
    )
    exclude: tuple[str, ...] = input_setting(
        (),
        help="glob of the paths to skip; may be repeated",
        read=read_globs,
        write=write_list,
        shown_default="",
        may_repeat=True,
    )
    classes: tuple[str, ...] = input_setting(
        (),
        help="the classes to keep, comma-separated; samples and objects of other classes are left out",
        read=read_names,
        write=write_list,
        shown_default="all",
    )

    @property
    def globs(self) -> tuple[str, ...]:
        """All globs."""
        return (*self.include, *self.exclude)

    def skips_path(self, key: str) -> str | None:
        """Returns the name of the setting that skips this key or folder; None if no setting does."""
        if self.exclude and _compile(self.exclude).fullmatch(key):
            return "exclude"
        if self.include and not _compile(self.include).fullmatch(key):
            return "include"
        return None

    def check_globs(self, unmatched: Iterable[str], skipped: Iterable[str]) -> None:
        """Checks that every glob matches something.

        Args:
          unmatched: globs that matched neither a sample nor a file that the listing skipped.
          skipped: keys of some files that were skipped earlier.

        Raises:
          RequestError: a glob matches nothing.
        """
        skipped = list(skipped)
        for setting in ("include", "exclude"):
            nothing = [
                glob
                for glob in getattr(self, setting)
                if glob in set(unmatched) and not any(matches(glob, key) for key in skipped)
            ]
            if nothing:
                raise RequestError(
                    f"`{setting}={nothing[0]}` matches no path below the input; globs with a slash begin there, others "
                    "match the name of a file or folder at any depth",
                    code="unmatched_glob",
                )

    def check_classes(
        self, labels: Mapping[Scalar, int], known: ClassNames | None = None, *, has_others: bool = False
    ) -> None:
        """Checks that every class has a sample.

        Args:
          labels: label -> number of samples.
          known: as for `class_filter`.
          has_others: whether samples of other classes were left out.

        Raises:
          RequestError: a class has no sample, or no sample has a label.
        """
        if self.classes and not has_others and not labels.keys() - {None, ""}:
            raise RequestError(
                f"`classes={','.join(self.classes)}`: the samples have no labels in this layout; expected a layout "
                "with labels or objects",
                code="setting_not_applicable",
            )
        found = [label for label in labels if label is not None and label != ""]
        filters = {name: class_filter((name,), known) for name in self.classes}
        missing = [name for name, wants in filters.items() if not any(map(wants, found))]
        if missing:
            raise RequestError(
                f"`classes={','.join(self.classes)}`: no sample has the class {', '.join(missing)}",
                code="class_without_samples",
            )


EVERYTHING = Selection()


def class_filter(classes: tuple[str, ...], known: ClassNames | None = None) -> Callable[[Scalar], bool]:
    """Returns a function that tells whether a label is of a wanted class; a missing label is kept, and fails later.

    Args:
      classes: names of the wanted classes.
      known: the classes, if labels may be numbers or ids of classes that `classes` names.
    """
    wanted = ClassNames(classes, numbers_are_indices=any(whole_number(name) is not None for name in classes))
    indices = {known.find(name) for name in classes} if known else set()

    def wants(label: Scalar) -> bool:
        if label is None or label == "":
            return True
        if known is not None and (index := known.find(label)) is not None:
            return index in indices
        parts = label.split("\t", 1) if isinstance(label, str) else [label]
        return any(wanted.find(part) is not None for part in parts)

    return wants


def matches(glob: str, key: str) -> bool:
    """Whether a glob matches a key, or a folder in the key."""
    return bool(_compile((glob,)).fullmatch(key))


@functools.lru_cache(maxsize=64)
def _compile(globs: Sequence[str]) -> re.Pattern[str]:
    """Compiles globs. A match may also lie in a matching folder; a glob without `/` matches at any depth."""
    patterns = (("" if "/" in glob else "(?:.*/)?") + compile_glob(glob).pattern for glob in globs)
    return re.compile(f"(?:{'|'.join(patterns)})(?:/.*)?", re.DOTALL)
