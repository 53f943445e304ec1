"""The source for YOLO labels: a text file per image with a row per object; a YAML file with the splits and classes.

Format: https://docs.ultralytics.com/datasets/detect/. A row is the class number, from 0, followed by the center, width
and height of the box as fractions of the image size, or by the points of a polygon: four of an oriented box. Keypoints
follow the box of a pose.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.features.contents import CLASSES, OUTLINES, Content
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs.sample_refs import Scalar
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.sources.annotated.shell import (
    Annotated,
    AnnotatedSource,
    describe_namesakes,
    read_each,
    refuse_folders_as_splits,
)
from beam_tfrecords.transforms.sources.annotated.yolo_data import (
    YoloData,
    YoloPaths,
    is_list,
    read_data,
    without_folders,
)
from beam_tfrecords.transforms.sources.annotated.yolo_labels import (
    KEYPOINT_VALUES,
    NO_LABELS,
    OUTLINE_VALUES,
    LabelFiles,
    count_keypoints,
    read_objects,
    read_text,
)
from beam_tfrecords.transforms.sources.description import KEYPOINTS, OUTLINE, Description, Labels
from beam_tfrecords.transforms.sources.inputs import Inputs, quote_input, split_of_word
from beam_tfrecords.transforms.sources.names import has_extension, is_utf8, printable, skipped_kind
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest
from beam_tfrecords.transforms.sources.tally import Tally

_NO_OBJECTS = Objects(is_normalized=True)
_counting = threading.Lock()
# Number of images whose labels tell poses from polygons.
_FIRST_IMAGES = 64
# Number of lines of a list for finding the image folder.
_MOST_LINES = 5


def open_input(request: OpenRequest) -> MakeSource:
    """Opens a data file, or a folder with a data file or a class list.

    Raises:
      RequestError: the input is not in YOLO's format, or a file or folder that it names does not exist.
    """
    inputs, paths, needs = request.inputs, request.spec, request.needs
    refuse_folders_as_splits(inputs, "yolo", needs)
    shown = quote_input(inputs.paths[0])
    if not inputs.is_alone:
        raise RequestError(
            f"{shown}: a data file of YOLO names its splits itself; expected one file as `input`", code="several_inputs"
        )
    if len(paths.image_root) > 1 or any(split_of_word(word)[0] for word in paths.image_root):
        raise RequestError(
            f"{shown}: `image_root` is the folder that the paths in a data file are relative to; give one",
            code="unmatched_roots",
        )
    places = YoloPaths(inputs.paths[0], paths)
    return functools.partial(YoloSource, read_data(places), places, inputs)


class YoloSource(AnnotatedSource):
    """Lists the images of a data file, with their objects.

    Args:
      data: contents of the data file.
      places: location of the data file, and the folders that it may name.
      inputs: the input of the request.
      needs: requested contents.
    """

    description = Description(
        provides=frozenset({Content.IMAGE, *CLASSES, *OUTLINES, Content.KEYPOINTS}),
        uses={OUTLINE_VALUES: OUTLINE, KEYPOINT_VALUES: KEYPOINTS},
    )

    def __init__(self, data: YoloData, places: YoloPaths, inputs: Inputs, needs: Needs) -> None:
        super().__init__(inputs, needs)
        names = tuple(dict.fromkeys(data.names[number] for number in sorted(data.names)))
        numbers: dict[Scalar, int] = {name: number for number, name in data.names.items()}
        self._describe(labels=Labels(names, {data.file: numbers}, may_be_indices=not names))
        shown = printable(storage.basename(data.file))
        self.notes += [f"{shown}: {one}" for one in describe_namesakes(data.names, "classes")]
        self._data = data
        self._places = places
        self._keypoints, self._has_visibility = data.keypoints, data.has_visibility
        self._numbers: set[int] = set()
        self._label_files = LabelFiles((data.root, *places.roots))
        if not storage.is_folder(inputs.paths[0]):
            self.folders = [path for paths in data.splits.values() for path in paths if not is_list(path)]

    def annotated(self, tally: Tally) -> Iterator[Annotated]:
        """Yields the images in split order; an image that several splits name belongs to the first.

        Raises:
          RequestError: the label folder is ambiguous, no row has the needed keypoints, or class numbers count from 1.
        """
        images = background = 0
        self._numbers.clear()
        self._fields = fields = Counter[str]()
        found = self._images(tally)
        first = list(itertools.islice(found, _FIRST_IMAGES))
        if not self._data.keypoints:
            self._keypoints, self._has_visibility = count_keypoints(self._read_texts(first))
        if Content.KEYPOINTS in self._needs.contents and not self._keypoints:
            raise RequestError(
                f"{self._shown}: the rows of its label files are boxes or polygons, without keypoints; `kpt_shape: "
                "[17, 3]` in the data file says how many follow a box; use `layout=detection`",
                code="no_keypoints",
            )
        are_remote = storage.has_scheme(self._data.root)
        for one in read_each(self._with_labels, itertools.chain(first, found), are_remote=are_remote):
            images += 1
            is_background = one.objects is None and one.failure is None
            background += is_background
            yield one._replace(objects=_NO_OBJECTS, label=self._classes(_NO_OBJECTS)) if is_background else one
        self._refuse_numbers_from_one()
        for field, count in fields.items():
            tally.see_field("*.txt", field, count)
        for key in self._data.others:
            tally.see_field(printable(storage.basename(self._data.file)), key)
        if not (self._data.names or self._needs.class_names or self.description.found_classes):
            tally.notes.append("there is no list of the classes, so that they are numbers; `class_names` names them")
        self._label_files.count(images - background, tally)
        if background:
            tally.notes.append(f"{background:,} of {images:,} images have no label file, and are background")

    def has_read(self, path: str) -> bool:
        """See `Source.has_read`; the listing counts label files without an image."""
        if path.lower().endswith((".yaml", ".yml")):
            return path == self._data.file
        folder, name = storage.dirname(path), storage.basename(path).lower()
        is_label = name.endswith(".txt") and name not in NO_LABELS and folder in self._label_files.folders.values()
        return is_label or super().has_read(path) or any(path in paths for paths in self._data.splits.values())

    def _refuse_numbers_from_one(self) -> None:
        """Checks that class numbers count from 0: refuses 1 to the number of names."""
        names = self._data.names
        if names and min(names) == 0 and max(names) + 1 == max(self._numbers, default=0) and 0 not in self._numbers:
            raise RequestError(
                f"{self._shown}: the labels have classes up to {max(self._numbers):,} and none "
                f"has 0, but the names count from 0 to {max(names):,}; if the labels count from 1, write the number of "
                f"each name beside it, such as 1: {printable(names[0])}",
                code="first_class_number",
            )

    def _images(self, tally: Tally) -> Iterator[Annotated]:
        seen: set[str] = set()
        for split, paths in self._data.splits.items():
            repeated = 0
            for path in paths:
                listed = self._lines(path, split, tally) if is_list(path) else self._files(path, split)
                for image in listed:
                    # Splits may share images, as in Ultralytics' small datasets; keeping both copies would leak data.
                    if image.image in seen:
                        repeated += 1
                        continue
                    seen.add(image.image)
                    yield image
            if repeated:
                tally.notes.append(f"{repeated:,} images of {split} are named before, and are left out there")

    def _files(self, folder: str, split: str) -> Iterator[Annotated]:
        """Yields the images in a folder."""
        start = len(folder.rstrip("/")) + 1
        for entry in storage.list_files(folder, literal=True):
            relative = entry.path[start:]
            key = self._key(entry.path, split)
            if skipped_kind(relative) is not None or not has_extension(relative):
                continue
            if is_utf8(entry.path):
                yield Annotated(key, entry.path, entry, split)
            else:
                error = SampleError(Stage.LIST, FailureReason.UNREADABLE, "the name is not valid UTF-8")
                yield Annotated(printable(key), printable(entry.path), split=split, failure=error)

    def _lines(self, path: str, split: str, tally: Tally) -> Iterator[Annotated]:
        """Yields the images in a list file, relative to the file's folder."""
        lines = read_text(path).splitlines()
        first = [line.strip() for line in lines if line.strip()][:_MOST_LINES]
        dropped = self._find_dropped(path, first, tally)
        for number, line in enumerate(lines, 1):
            name = line.strip()
            if not name:
                continue
            try:
                uri = self._places.lead(without_folders(name, dropped), storage.dirname(path))
            except SampleError as error:
                yield Annotated(f"{storage.basename(path)} line {number:09d}", name, split=split, failure=error)
            else:
                yield Annotated(self._key(uri, split), uri, split=split)

    def _find_dropped(self, path: str, names: Sequence[str], tally: Tally) -> int:
        """Returns how many leading folders to drop from the paths in a list, so that its first lines name files."""
        for dropped in range(max((name.count("/") for name in names), default=0) + 1):
            try:
                uris = [self._places.lead(without_folders(name, dropped), storage.dirname(path)) for name in names]
            except SampleError:
                continue
            there = [storage.is_file(uri) for uri in uris]
            if any(there) and (all(there) or not dropped):
                if dropped:
                    note = (
                        f"{printable(storage.basename(path))}: {printable(names[0])} is taken for {printable(uris[0])}"
                    )
                    tally.notes.append(note)
                return dropped
        return 0

    def _key(self, uri: str, split: str) -> str:
        below = f"{self._data.root.rstrip('/')}/"
        return uri.removeprefix(below) if uri.startswith(below) else f"{split}/{storage.basename(uri)}"

    def _read_texts(self, images: Iterable[Annotated]) -> Iterator[str]:
        """Yields the readable label files of some images."""
        for image in images:
            if not image.failure:
                with contextlib.suppress(SampleError, FileNotFoundError):
                    path = self._label_files.path_of(image.image)
                    if storage.is_file(path):
                        yield retry_faults(path, functools.partial(read_text, path))

    def _with_labels(self, image: Annotated) -> Annotated:
        """Returns an image with its objects; None instead of objects without a label file."""
        if image.failure:
            return image
        path = self._label_files.path_of(image.image)
        fields: Counter[str] = Counter()
        try:
            text = retry_faults(path, lambda: read_text(path))
            objects = read_objects(
                text,
                self._data.names,
                keypoints=self._keypoints,
                has_visibility=self._has_visibility,
                needs_polygons=bool(OUTLINES & self._needs.contents),
                needs_keypoints=Content.KEYPOINTS in self._needs.contents,
                fields=fields,
                numbers=self._numbers,
            )
            return image._replace(objects=objects, label=self._classes(objects))
        except OSError:
            # Only local file systems raise a specific error for a missing file.
            if storage.is_file(path):
                raise
            return image
        except SampleError as error:
            detail = f"{printable(storage.basename(path))}, {error.detail}"
            return image._replace(failure=SampleError(error.stage, error.reason, detail))
        finally:
            # The counts are part of the manifest, which must not depend on the threads.
            with _counting:
                self._fields.update(fields)
