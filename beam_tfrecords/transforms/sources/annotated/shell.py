"""The shell of all sources of annotated images: a format yields `Annotated`, and the shell makes references of them."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError, SampleError
from beam_tfrecords.features.contents import OUTLINES, Content
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs.sample_refs import File, SampleRef, Scalar, Value, one_image
from beam_tfrecords.transforms.sources.image_files import look, with_mask_file, with_masks
from beam_tfrecords.transforms.sources.inputs import Inputs, quote_input
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.tally import Tally

_THREADS, _MOST_SHOWN = 16, 3
_One = TypeVar("_One")
_Other = TypeVar("_Other")


class Annotated(NamedTuple):
    """An annotated image, as a format finds it.

    Attributes:
      key: key of the sample.
      image: path or URI of the image; "" if there is none.
      found: the listed file of the image; None if the shell looks at it.
      split: split of the image, or None.
      objects: objects of the image; None in a format without objects.
      label: label of the image.
      columns: column -> value.
      masks: name in the images of the sample -> file of a mask, or its path or URI.
      failure: why the image or its annotations cannot be read; None if they can.
    """

    key: str
    image: str = ""
    found: storage.FileEntry | None = None
    split: str | None = None
    objects: Objects | None = None
    label: Value = None
    columns: Mapping[str, Value] = {}
    masks: Mapping[str, storage.FileEntry | str] = {}
    failure: SampleError | None = None


class AnnotatedSource(Source, abc.ABC):
    """Lists annotated images.

    Args:
      inputs: inputs of the request.
      needs: requested contents.
    """

    # Whether the format itself counts the objects without a polygon.
    _counts_outlines = False

    def __init__(self, inputs: Inputs, needs: Needs) -> None:
        super().__init__()
        self._shown, self._needs = quote_input(inputs.paths[0]), needs

    @abc.abstractmethod
    def annotated(self, tally: Tally) -> Iterator[Annotated]:
        """Yields the annotated images of the input, and then adds the format's notes to the tally."""

    def read(self, partition: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef]:
        """Yields the references to the annotated images.

        Raises:
          RequestError: an annotation file is damaged, or none of the objects has a polygon that the layout needs.
          BuildError: a service fault.
        """
        needs_outlines = OUTLINES & self._needs.contents & self.description.provides and not self._counts_outlines
        total = bare = 0
        for one in self.annotated(tally):
            if needs_outlines and one.objects is not None:
                count = len(one.objects.labels)
                total, bare = total + count, bare + (one.objects.polygons.count(b"") if one.objects.polygons else count)
            yield self._reference(one)
        if bare and bare == total:
            raise RequestError(
                f"{self._shown}: none of its {total:,} objects has a polygon; use `layout=detection`",
                code="no_polygons",
            )
        if bare:
            tally.notes.append(describe_bare(bare, total, self._needs.contents))

    def _classes(self, objects: Objects) -> Value:
        """Returns the classes in an image, for layouts that use these as its labels; else None."""
        is_needed = Content.LABEL in self._needs.contents
        return list[Scalar](sorted(set(map(str, objects.labels)))) if is_needed else None

    def _reference(self, one: Annotated) -> SampleRef:
        key, uri, found, split = one.key, one.image, one.found, one.split
        try:
            if one.failure is not None:
                raise one.failure
            size, fingerprint, version = (found.size, found.fingerprint, found.version) if found else look(uri)
            kept = one.objects if Content.OBJECTS in self._needs.contents else None
            image = one_image(File(uri, version))
            ref = SampleRef(key, image, size, fingerprint, one.label, split, one.columns, objects=kept)
            for name, mask in one.masks.items():
                ref = with_mask_file(ref, name, mask) if isinstance(mask, str) else with_masks(ref, {name: mask})
            return ref
        except SampleError as error:
            failure = (error.reason.value, error.detail)
            return SampleRef(key, one_image(File(uri) if uri else None), split=split, failure=failure)


def read_each(read: Callable[[_One], _Other], several: Iterable[_One], *, are_remote: bool) -> Iterable[_Other]:
    """Returns what a function reads of each value, in order; remote files are read in threads."""
    return map_in_threads(read, several, threads=_THREADS) if are_remote else map(read, several)


def refuse_folders_as_splits(inputs: Inputs, source: str, needs: Needs) -> None:
    """Checks that the request has no `splits=train=FOLDER`, which annotations cannot use.

    Raises:
      RequestError: `splits` names folders.
    """
    if needs.splits.folders is not None:
        raise RequestError(
            f"`splits` names folders, and {quote_input(inputs.paths[0])} is read as {source}, which says the splits "
            "itself; leave `splits` out, or give fractions",
            code="input_has_splits",
        )


def describe_namesakes(names: Mapping[Any, str], what: str) -> Iterator[str]:
    """Describes the classes that have one name, and so are one.

    Args:
      names: id or number -> name.
      what: what messages call the ids.
    """
    alike: dict[str, list[str]] = {}
    for one, name in names.items():
        alike.setdefault(name, []).append(str(one))
    for name, several in alike.items():
        if len(several) > 1:
            yield f"{what} {', '.join(several[:_MOST_SHOWN])} have the name {name!r}: one class"


def describe_bare(count: int, total: int, contents: frozenset[Content]) -> str:
    """Returns a note on objects without a polygon, where polygons or masks are needed."""
    get = "get the corners of their boxes" if Content.POLYGONS in contents else "their masks are empty"
    return f"{count:,} of {total:,} objects have no polygon, and {get}"
