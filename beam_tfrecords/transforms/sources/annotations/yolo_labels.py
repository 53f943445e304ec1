"""YOLO's label files: which is that of an image, and the objects in its rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.transforms.objects.objects import Objects, check_count
from beam_tfrecords.transforms.objects.polygons import pack_polygons
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.path_rule import is_inside
from beam_tfrecords.transforms.sources.source import Unmatched

# In lower case: folders of images, beside which `labels` is.
_IMAGES = frozenset({"images", "image", "imgs", "img", "jpegimages"})
# Files beside labels that are none.
_NO_LABELS = frozenset(
    {
        "classes.txt",
        "obj.names.txt",
        "labels.txt",
        "notes.txt",
        "readme.txt",
        "readme.roboflow.txt",
        "readme.dataset.txt",
        "train.txt",
        "val.txt",
        "valid.txt",
        "test.txt",
        "predefined_classes.txt",
    }
)
_MOST_BYTES = 16 << 20
# Files that are looked at to find out whether a folder has labels.
_MOST_FILES = 1000


class LabelFiles:
    """The label files of images. The labels of the images in one folder are in one folder.

    That is `labels` in the place of the last `images` of the input, or the folder of the images, as Ultralytics has it;
    where there are no labels, another folder that looks like theirs.

    Args:
      roots: the folders that labels may be in.
    """

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = roots
        # Folder of images -> that of their labels.
        self._folders: dict[str, str] = {}

    def path_of(self, image: str) -> str:
        """The label file of an image, which may not be there.

        Raises:
          RequestError: several folders may have it.
        """
        folder, _, name = image.rpartition("/")
        if folder not in self._folders:
            self._folders[folder] = retry_faults(folder, lambda: self._find(folder))
        return storage.join(self._folders[folder], f"{_stem(name)}.txt")

    def notes(self) -> Iterator[str]:
        """Says which labels are in another folder than Ultralytics looks in."""
        for images, labels in sorted(self._folders.items()):
            if labels != self._usual(images):
                yield f"the labels of {printable(images)} are read from {printable(labels)}"

    def unmatched(self, matched: int) -> list[Unmatched]:
        """The label files that belong to no image.

        Args:
          matched: images that have one.
        """
        folders = sorted(set(self._folders.values()))
        total = sum(1 for folder in folders for _ in _label_names(folder))
        if total <= matched:
            return []
        where = ", ".join(map(printable, folders[:3]))
        note = f"{total - matched:,} of {total:,} label files belong to no image, in {where}"
        return [Unmatched(note, total - matched, total)]

    def _find(self, images: str) -> str:
        usual = self._usual(images)
        if _has_labels(usual):
            return usual
        for group in _other_folders(images):
            wanted = [one for one in group if any(is_inside(one, root) for root in self._roots)]
            found = [one for one in dict.fromkeys(wanted) if _has_labels(one)]
            if len(found) > 1:
                raise RequestError(
                    f"the labels of the images in {printable(images)} may be in {' or '.join(map(printable, found))}; "
                    f"expected them in {printable(usual)}: rename the right folder, or link it there"
                )
            if found:
                return found[0]
        return usual

    def _usual(self, images: str) -> str:
        """The folder in which Ultralytics looks for the labels of the images in a folder.

        An `images` that a root lies in names no images: all that is read would be beside the roots.
        """
        head, folder, tail = f"{images}/".rpartition("/images/")
        roots = [root for root in self._roots if is_inside(images, root)]
        is_above = roots and not any(is_inside(f"{head}/images", root) for root in roots)
        return f"{head}/labels/{tail}".rstrip("/") if folder and not is_above else images


def _other_folders(images: str) -> Iterator[list[str]]:
    """Folders that may have the labels of the images in a folder, the likeliest first."""
    parts = images.split("/")
    for place in reversed(range(1, len(parts))):
        if parts[place].lower() in _IMAGES:
            head, tail = "/".join(parts[:place]), parts[place + 1 :]
            yield ["/".join([head, name, *tail]) for name in _label_folders(head)]
    yield [images]
    yield [f"{images}/{name}" for name in _label_folders(images)]
    parent, _, last = images.rpartition("/")
    yield [f"{parent}/{name}/{last}" for name in _label_folders(parent)]
    yield [f"{parent}/{name}" for name in _label_folders(parent)]


def _label_folders(folder: str) -> list[str]:
    try:
        return [name for name in storage.list_folders(folder) if name.lower().startswith(("label", "annotation"))]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _label_names(folder: str) -> Iterator[str]:
    """The names of the label files directly in a folder."""
    start = len(folder.rstrip("/")) + 1
    try:
        for entry in storage.list_files(folder, literal=True):
            name = entry.path[start:]
            if name.endswith(".txt") and "/" not in name and name.lower() not in _NO_LABELS:
                yield name
    except (FileNotFoundError, NotADirectoryError):
        return


def _has_labels(folder: str) -> bool:
    return any(True for _ in itertools.islice(_label_names(folder), 1))


def _stem(name: str) -> str:
    stem, dot, _ = name.rpartition(".")
    return stem if dot else name


def read_objects(text: str, names: Mapping[int, str], *, keypoints: int = 0, needs_polygons: bool = False) -> Objects:
    """The objects in the rows of a label file.

    Args:
      names: class number -> name.
      keypoints: numbers in a row after the box, in a dataset of poses.
      needs_polygons: whether polygons are wanted, and not only their boxes.

    Raises:
      SampleError: a row is not one of YOLO's, or has the number of no class.
    """
    boxes: list[float] = []
    labels: list[str] = []
    polygons: list[bytes] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words:
            continue
        try:
            values = [float(word) for word in words]
        except ValueError:
            values = []
        if len(values) in (5, 5 + keypoints) or _is_pose(values):
            x, y, width, height = values[1:5]
            boxes += (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            polygons += [b""] if needs_polygons else []
        elif len(values) >= 7 and len(values) % 2:
            boxes += (min(values[1::2]), min(values[2::2]), max(values[1::2]), max(values[2::2]))
            polygons += [pack_polygons([values[1:]])] if needs_polygons else []
        else:
            raise _error(FailureReason.INVALID_ROW, f"line {number}: {line.strip()[:80]!r} is neither box nor polygon")
        if not math.isfinite(values[0]) or int(values[0]) != values[0] or int(values[0]) not in names:
            detail = f"line {number}: class {words[0][:20]}; the data file names {min(names)} to {max(names)}"
            raise _error(FailureReason.UNKNOWN_CLASS, detail)
        labels.append(names[int(values[0])])
        check_count(len(labels))
    return Objects(tuple(boxes), tuple(labels), is_normalized=True, polygons=tuple(polygons))


def _is_pose(values: Sequence[float]) -> bool:
    """Whether a row is a box and points with their visibility (0 to 2), of which those that are labelled lie in it.

    A polygon may have as many numbers.
    """
    if len(values) < 8 or (len(values) - 5) % 3:
        return False
    x, y, width, height = values[1:5]
    points = list(zip(values[5::3], values[6::3], values[7::3], strict=True))
    labelled = [(right, down) for right, down, visibility in points if visibility]
    return (
        bool(labelled)
        and all(visibility in (0, 1, 2) for _, _, visibility in points)
        and all(abs(right - x) <= 0.55 * width and abs(down - y) <= 0.55 * height for right, down in labelled)
    )


def _error(reason: FailureReason, detail: str) -> SampleError:
    return SampleError(Stage.LIST, reason, detail)


def read_text(path: str) -> str:
    """A text of bounded size.

    Raises:
      SampleError: it is larger, or not UTF-8.
    """
    with storage.open_read(path) as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise _error(FailureReason.INVALID_ROW, f"more than {_MOST_BYTES >> 20} MiB of labels")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _error(FailureReason.INVALID_ROW, "not valid UTF-8") from None
