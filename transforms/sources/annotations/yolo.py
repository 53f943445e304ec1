"""YOLO's labels: a text file per image, with a row per object; a YAML file names the splits and the classes.

Format: https://docs.ultralytics.com/datasets/detect/. A row is the number of the class, from 0, then centre, width and
height of the box as shares of the image's size; or the number and the points of a polygon.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.transforms.objects import Objects
from beam_tfrecords.transforms.refs import SampleRef
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.sources.annotations.annotated import (
    reference,
    refuse_folders_as_splits,
    rejected,
)
from beam_tfrecords.transforms.sources.annotations.yolo_labels import LabelFiles, read_objects, read_text
from beam_tfrecords.transforms.sources.inputs import quote_input, split_of_word
from beam_tfrecords.transforms.sources.names import has_extension, is_utf8, printable, skipped_kind
from beam_tfrecords.transforms.sources.path_rule import resolve, shorten
from beam_tfrecords.transforms.sources.source import MakeSource, Source
from beam_tfrecords.transforms.sources.source_spec import SourceSpec
from beam_tfrecords.transforms.splits import SPLIT_NAMES

_SPLITS = ("train", "val", "valid", "validation", "test")
# Labels and caches are beside the images in some datasets.
_NO_IMAGES = (".txt", ".cache", ".npy", ".yaml", ".yml")
_THREADS = 16


def open_input(spec: SourceSpec) -> MakeSource:
    """Opens a data file.

    Raises:
      RequestError: it is not one of YOLO's form, or what it names is not there.
    """
    refuse_folders_as_splits(spec)
    shown = quote_input(spec.input[0])
    if len(spec.input) > 1 or spec.input_splits:
        raise RequestError(f"{shown}: a data file of YOLO names its splits itself; expected one file as `input`")
    if len(spec.image_root) > 1 or any(split_of_word(word)[0] for word in spec.image_root):
        raise RequestError(
            f"{shown}: `image_root` is the folder that the paths in a data file are relative to; give one"
        )
    data = _read_data(spec.input[0])
    names = _read_names(data, shown)
    root = _find_root(data, spec)
    splits: dict[str, list[str]] = {}
    for word in _SPLITS:
        values = data.get(word) or []
        values = values if isinstance(values, list) else [values]
        if not all(isinstance(path, str) and "\0" not in path for path in values):
            raise RequestError(f"{shown}: `{word}` is no path; expected a folder, a file that lists images, or several")
        paths = [_find(path, root, spec) for path in values]
        if paths:
            splits.setdefault(SPLIT_NAMES[word], []).extend(paths)
    return functools.partial(YoloSource, root, splits, names, _count_keypoints(data))


@dataclasses.dataclass(frozen=True)
class _Image:
    """An image, and the split and the file that it comes from."""

    uri: str
    key: str
    split: str
    found: storage.FileEntry | None = None
    failure: SampleError | None = None


class YoloSource(Source):
    """Lists the images of a data file, with their objects.

    Args:
      root: the folder that its paths are relative to.
      splits: split -> folders with images, and files that list them.
      names: class number -> name.
      keypoints: numbers in a row after the box.
      spec: the request.
    """

    provides = Source.provides | {Content.OBJECTS, Content.OUTLINES}

    def __init__(
        self,
        root: str,
        splits: Mapping[str, list[str]],
        names: Mapping[int, str],
        keypoints: int,
        spec: SourceSpec,
    ) -> None:
        super().__init__()
        self.name = spec.source
        self.class_names = tuple(dict.fromkeys(names[number] for number in sorted(names)))
        self._root = root
        self._splits = splits
        self._names = names
        self._keypoints = keypoints
        self._spec = spec
        self._label_files = LabelFiles((root, *spec.image_root, storage.dirname(spec.input[0])))

    def samples(self) -> Iterator[SampleRef]:
        """The images in the order of the splits; one that several splits name is in the first.

        Raises:
          RequestError: several folders may have the labels, or masks are asked for, and there is no polygon.
        """
        images, background, listed, without = 0, 0, 0, 0
        self.notes, self.unmatched = [], []
        is_remote = storage.has_scheme(self._root)
        found = self._images()
        labelled = (
            map_in_threads(self._with_labels, found, threads=_THREADS) if is_remote else map(self._with_labels, found)
        )
        for image, objects in labelled:
            images += 1
            background += objects is None
            if isinstance(objects, SampleError):
                yield rejected(image.key, objects, split=image.split, uri=image.uri)
            else:
                objects = objects or Objects(is_normalized=True)
                listed += len(objects.outlines)
                without += objects.outlines.count(b"")
                yield reference(image.key, image.uri, objects, self._spec, split=image.split, found=image.found)
        self.unmatched = self._label_files.unmatched(images - background)
        self.notes += [*self._label_files.notes(), *(one.note for one in self.unmatched)]
        if background:
            self.notes.append(f"{background:,} of {images:,} images have no label file, and are background")
        if without and without == listed:
            raise RequestError(
                f"{quote_input(self._spec.input[0])}: none of its {listed:,} objects has a polygon, from which masks "
                "are drawn; say `layout=detection`"
            )
        if without:
            self.notes.append(f"{without:,} of {listed:,} objects have no polygon, and their masks are empty")

    def _images(self) -> Iterator[_Image]:
        seen: set[str] = set()
        for split, paths in self._splits.items():
            repeated = 0
            for path in paths:
                listed = self._lines(path, split) if _is_list(path) else self._files(path, split)
                for image in listed:
                    # A split that is another's too, as in Ultralytics' small datasets, would be a leak.
                    if image.uri in seen:
                        repeated += 1
                        continue
                    seen.add(image.uri)
                    yield image
            if repeated:
                self.notes.append(f"{repeated:,} images of {split} are named before, and are left out there")

    def _files(self, folder: str, split: str) -> Iterator[_Image]:
        """The images in a folder."""
        start = len(folder.rstrip("/")) + 1
        for entry in storage.list_files(folder, literal=True):
            relative = entry.path[start:]
            kind = skipped_kind(relative) or ("" if has_extension(relative) else "not an image")
            key = self._key(entry.path, split)
            if kind:
                if not kind.endswith(_NO_IMAGES):
                    self.skipped.add(kind, printable(key))
            elif is_utf8(entry.path):
                yield _Image(entry.path, key, split, entry)
            else:
                error = SampleError(Stage.LIST, FailureReason.UNREADABLE, "the name is not valid UTF-8")
                yield _Image(printable(entry.path), printable(key), split, failure=error)

    def _lines(self, path: str, split: str) -> Iterator[_Image]:
        """The images that a file lists, relative to its own folder."""
        for number, line in enumerate(read_text(path).splitlines(), 1):
            name = line.strip()
            if not name:
                continue
            try:
                uri = _lead(name, storage.dirname(path), self._spec)
            except SampleError as error:
                yield _Image(name, f"{storage.basename(path)} line {number:09d}", split, failure=error)
            else:
                yield _Image(uri, self._key(uri, split), split)

    def _key(self, uri: str, split: str) -> str:
        below = f"{self._root.rstrip('/')}/"
        return uri.removeprefix(below) if uri.startswith(below) else f"{split}/{storage.basename(uri)}"

    def _with_labels(self, image: _Image) -> tuple[_Image, Objects | SampleError | None]:
        """The objects of an image; None without a label file."""
        if image.failure:
            return image, image.failure
        path = self._label_files.path_of(image.uri)
        try:
            text = retry_faults(path, lambda: read_text(path))
            needs_outlines = self._spec.needs_outlines
            return image, read_objects(text, self._names, keypoints=self._keypoints, needs_outlines=needs_outlines)
        except OSError:
            # Only local ones say by their kind that there is no such file.
            if storage.is_file(path):
                raise
            return image, None
        except SampleError as error:
            detail = f"{printable(storage.basename(path))}, {error.detail}"
            return image, SampleError(error.stage, error.reason, detail)


def _error(reason: FailureReason, detail: str) -> SampleError:
    return SampleError(Stage.LIST, reason, detail)


def _read_data(path: str) -> dict[str, Any]:
    try:
        data = yaml.safe_load(read_text(path))
    except (yaml.YAMLError, RecursionError, SampleError) as error:
        why = error.detail if isinstance(error, SampleError) else " ".join(str(error).split())
        raise RequestError(f"{quote_input(path)} cannot be read as YAML: {why}") from error
    if not isinstance(data, dict) or not any(data.get(word) for word in _SPLITS):
        raise RequestError(
            f"{quote_input(path)} is not a data file of YOLO: expected `train`, `val` or `test` with a folder of "
            "images or a file that lists them, and `names`"
        )
    return data


def _read_names(data: Mapping[str, Any], shown: str) -> dict[int, str]:
    found = data.get("names")
    pairs: Iterable[tuple[Any, Any]] = (
        found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    )
    names: dict[int, str] = {}
    for number, name in pairs:
        if type(number) is not int or number < 0 or isinstance(name, bool) or not isinstance(name, str | int | float):
            raise RequestError(
                f"{shown}: YAML reads an entry of `names` as {type(number).__name__} and {type(name).__name__}; "
                "expected numbers from 0, and names in quotes, such as 'no'"
            )
        names[number] = str(name)
    if not names:
        raise RequestError(f"{shown}: `names` is missing; expected the class names, as a list or as number: name")
    return names


def _count_keypoints(data: Mapping[str, Any]) -> int:
    """Numbers in a row after the box: `kpt_shape` is [points, 2 or 3] in a dataset of poses."""
    shape = data.get("kpt_shape")
    is_shape = isinstance(shape, list) and len(shape) == 2 and all(type(side) is int for side in shape)
    return shape[0] * shape[1] if is_shape and shape else 0


def _find_root(data: Mapping[str, Any], spec: SourceSpec) -> str:
    """The folder that the splits are relative to: `image_root`, or the file's `path`, or that of the file."""
    own = storage.dirname(spec.input[0])
    if spec.image_root:
        return spec.image_root[0]
    path = data.get("path")
    if not isinstance(path, str):
        return own
    try:
        named = _lead(path, own, spec)
    except SampleError:
        if storage.has_scheme(path) or storage.is_folder(storage.join(own, path)):
            raise _refuse(path, [], spec, leads_outside=True) from None
        return own
    # Ultralytics means a folder of its own settings, so the name may lead nowhere.
    return named if storage.is_folder(named) else own


def _find(path: str, root: str, spec: SourceSpec) -> str:
    """A folder or a list that the file names."""
    # Roboflow writes `../train/images` beside a folder `train`, and Ultralytics reads it so.
    words = [path, path[3:]] if path.startswith("../") else [path]
    bases = (root, storage.dirname(spec.input[0]))
    tried = dict[str, None]()
    leads_outside = False
    for base, word in itertools.product(bases, words):
        try:
            tried[_lead(word, base, spec)] = None
        except SampleError:
            leads_outside = True
    for one in tried:
        if storage.is_folder(one) or (_is_list(one) and storage.is_file(one)):
            return one
    raise _refuse(path, tried, spec, leads_outside=leads_outside)


def _is_list(path: str) -> bool:
    return path.lower().endswith(".txt")


def _lead(path: str, base: str, spec: SourceSpec) -> str:
    """Where a path that a file names leads, from a folder.

    Raises:
      SampleError: as `resolve`, or it is a URL, beside which there is no label file.
    """
    word = path.removeprefix("./").rstrip("/") or path
    if storage.is_web(word):
        raise _error(FailureReason.UNREADABLE, f"a URL, where files have no labels: {shorten(path)}")
    root = next((one for one in _roots(spec) if storage.is_inside(base, one)), base)
    outside = spec.allow_outside_root
    return base if word == "." else resolve(word, base=base, root=root, allow_outside_root=outside)


def _roots(spec: SourceSpec) -> tuple[str, ...]:
    """The folders that a request names; what its files name is below them."""
    return (*spec.image_root, storage.dirname(spec.input[0]))


def _refuse(path: str, tried: Iterable[str], spec: SourceSpec, *, leads_outside: bool) -> RequestError:
    """The refusal of a data file that names what is not there, or is outside of the folders that a request names."""
    problems = [f"there is no {' or '.join(map(printable, tried))}"] if tried else []
    problems += [f"nothing outside of {' and '.join(dict.fromkeys(_roots(spec)))} is read"] if leads_outside else []
    # No suggestion: it would have to be listed, which is what the rule forbids.
    either = ", or `allow_outside_root` if all that it names may be read" if leads_outside else ""
    return RequestError(
        f"{quote_input(spec.input[0])} names {shorten(path)}, and {', and '.join(problems)}; say the folder that it "
        f"is in with `image_root`{either}"
    )
