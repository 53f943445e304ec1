"""Finds the YOLO label file of an image, and reads its objects."""

from __future__ import annotations

import array
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.transforms.objects.objects import Objects, check_count
from beam_tfrecords.transforms.objects.polygons import pack_polygons
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.sources.names import printable, stem_of
from beam_tfrecords.transforms.sources.path_rule import is_inside
from beam_tfrecords.transforms.sources.tables.box_cells import MOST_SHARE
from beam_tfrecords.transforms.sources.tables.cells import invalid_row
from beam_tfrecords.transforms.sources.tally import Tally

# Names of image folders, in lower case, with a sibling folder `labels`.
_IMAGES = frozenset({"images", "image", "imgs", "img", "jpegimages"})
# Text files next to labels that are not labels.
NO_LABELS = frozenset(
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
# Parts of objects, for which the rows have no names.
OUTLINE_VALUES, KEYPOINT_VALUES = "outlines of objects", "keypoints"
_MOST_BYTES = 16 << 20
_MOST_ROWS = 20
# Least number of rows that show points without visibility, and least share of a side of the box that these spread over.
_LEAST_POSES, _LEAST_SPREAD = 3, 0.3
_ROUNDING = 0.01
# Number of files to inspect to find out whether a folder has labels.
_MOST_FILES = 1000


class LabelFiles:
    """Finds the label files of images. All images in a folder have their labels in one folder.

    As in Ultralytics, this is the path with the last `images` replaced by `labels`, or the image folder itself. If it
    has no labels, the finder looks for another folder that may contain them.

    Args:
      roots: folders that may contain labels.
    """

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = roots
        # Image folder -> label folder.
        self.folders: dict[str, str] = {}

    def path_of(self, image: str) -> str:
        """Returns the path of an image's label file, which may not exist.

        Raises:
          RequestError: several folders may contain the labels.
        """
        folder, _, name = image.rpartition("/")
        if folder not in self.folders:
            self.folders[folder] = retry_faults(folder, lambda: self._find(folder))
        return storage.join(self.folders[folder], f"{stem_of(name)}.txt")

    def _notes(self) -> Iterator[str]:
        """Yields notes on labels in folders where Ultralytics does not look."""
        for images, labels in sorted(self.folders.items()):
            if labels != self._usual(images):
                yield f"the labels of {printable(images)} are read from {printable(labels)}"

    def count(self, matched: int, tally: Tally) -> None:
        """Counts the label files without an image, and adds notes.

        Args:
          matched: number of images with a label file.
        """
        tally.notes += self._notes()
        folders = sorted(set(self.folders.values()))
        total = sum(1 for folder in folders for _ in _label_names(folder))
        if total <= matched:
            return
        where = ", ".join(map(printable, folders[:3]))
        note = f"{total - matched:,} of {total:,} label files belong to no image, in {where}"
        tally.add_unmatched(note, total - matched, total)
        tally.notes.append(note)

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
                    f"expected them in {printable(usual)}: rename the right folder, or link it there",
                    code="misplaced_labels",
                )
            if found:
                return found[0]
        return usual

    def _usual(self, images: str) -> str:
        """Returns the folder in which Ultralytics looks for the labels of an image folder.

        Ignores an `images` above the roots, because its sibling `labels` would be outside the roots.
        """
        head, folder, tail = f"{images}/".rpartition("/images/")
        roots = [root for root in self._roots if is_inside(images, root)]
        is_above = roots and not any(is_inside(f"{head}/images", root) for root in roots)
        return f"{head}/labels/{tail}".rstrip("/") if folder and not is_above else images


def _other_folders(images: str) -> Iterator[list[str]]:
    """Yields groups of folders that may contain the labels of an image folder, the most likely first."""
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
    """Yields the names of the label files directly in a folder."""
    start = len(folder.rstrip("/")) + 1
    try:
        for entry in storage.list_files(folder, literal=True):
            name = entry.path[start:]
            if name.endswith(".txt") and "/" not in name and name.lower() not in NO_LABELS:
                yield name
    except (FileNotFoundError, NotADirectoryError):
        return


def _has_labels(folder: str) -> bool:
    return any(True for _ in itertools.islice(_label_names(folder), 1))


def read_objects(
    text: str,
    names: Mapping[int, str],
    *,
    keypoints: int = 0,
    has_visibility: bool = True,
    needs_polygons: bool = False,
    needs_keypoints: bool = False,
    fields: Counter[str] | None = None,
    numbers: set[int] | None = None,
) -> Objects:
    """Reads the objects in a label file.

    Args:
      text: content of the file.
      names: class number -> name; empty to return the numbers.
      keypoints: number of keypoint values in a row after the box, in a pose dataset.
      has_visibility: whether a keypoint has three values; without visibility, it is visible unless x or y is negative.
      needs_polygons: whether to return polygons in addition to boxes.
      needs_keypoints: whether to return keypoints in addition to boxes.
      fields: counts the objects with an outline or keypoints.
      numbers: receives the class numbers.

    Raises:
      SampleError: a row is not in YOLO's format, or has an unknown class number.
    """
    boxes: list[float] = []
    labels: list[str | int] = []
    polygons: list[bytes] = []
    points: list[bytes] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("," if "," in line else None)
        if not words:
            continue
        try:
            values = [float(word) for word in words]
        except ValueError:
            values = []
        if len(values) in (5, 5 + keypoints):
            x, y, width, height = values[1:5]
            boxes += (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            polygons += [b""] if needs_polygons else []
            if needs_keypoints:
                points.append(_pack_keypoints(values[5:], keypoints, has_visibility=has_visibility))
            if fields is not None and len(values) > 5:
                fields[KEYPOINT_VALUES] += 1
        elif len(values) >= 7 and len(values) % 2 and not keypoints:
            boxes += (min(values[1::2]), min(values[2::2]), max(values[1::2]), max(values[2::2]))
            polygons += [pack_polygons([values[1:]])] if needs_polygons else []
            if fields is not None:
                fields[OUTLINE_VALUES] += 1
        else:
            what = f"no box with {keypoints} values of keypoints" if keypoints else "neither box nor polygon"
            what += "; remove a number such as a confidence" if len(values) == 6 else ""
            raise invalid_row(f"line {number}: {line.strip()[:80]!r} is {what}")
        is_whole = math.isfinite(values[0]) and int(values[0]) == values[0]
        if is_whole and numbers is not None:
            numbers.add(int(values[0]))
        if not is_whole or (names and int(values[0]) not in names):
            known = f"the data file names {min(names)} to {max(names)}" if names else "expected a number"
            raise SampleError(Stage.LIST, FailureReason.UNKNOWN_CLASS, f"line {number}: class {words[0][:20]}; {known}")
        labels.append(names[int(values[0])] if names else int(values[0]))
        check_count(len(labels))
    return Objects(tuple(boxes), tuple(labels), is_normalized=True, polygons=tuple(polygons), keypoints=tuple(points))


def _pack_keypoints(values: Sequence[float], count: int, *, has_visibility: bool) -> bytes:
    """Packs keypoints in the format of `Objects`; those of a row that is only a box are not labeled."""
    if not has_visibility:
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [side for x, y in pairs for side in (x, y, 2.0 if x >= 0 and y >= 0 else 0.0)]
        count = count // 2 * 3
    return array.array("f", [*values, *[0.0] * (count - len(values))]).tobytes()


def holds_shares(data: bytes) -> bool:
    """Whether the start of a file has rows as YOLO writes them: a class number, and a box or polygon in shares."""
    lines = data.decode(errors="replace").splitlines()[:_MOST_ROWS]
    try:
        objects = read_objects("\n".join(lines), {})
    except SampleError:
        return False
    return bool(objects.labels) and all(-MOST_SHARE < side < MOST_SHARE for side in objects.boxes)


def count_keypoints(texts: Iterable[str]) -> tuple[int, bool]:
    """Returns the number of keypoint values in a row after the box, and whether these have a visibility.

    Some label files decide. The number is 0 if rows may be polygons.

    In a pose dataset, all rows have the same number of values: a box, and keypoints with or without their visibility (0
    to 2). Labeled keypoints are in the box. Several rows decide, because a single polygon may look like a pose.
    """
    rows = [line.split() for text in texts for line in text.splitlines() if line.strip()]
    lengths = {len(row) for row in rows}
    try:
        values = [[*map(float, row)] for row in rows]
    except ValueError:
        return 0, True
    if len(lengths) != 1:
        return 0, True
    found = [_count_labelled(row) for row in values]
    if None not in found and any(found):
        return lengths.pop() - 5, True
    are_points = len(values) >= _LEAST_POSES and all(map(_has_points, values))
    return (lengths.pop() - 5, False) if are_points else (0, True)


def _count_labelled(values: Sequence[float]) -> int | None:
    """Returns the number of labeled keypoints in a row; None if the row is not a pose."""
    if len(values) < 8 or (len(values) - 5) % 3:
        return None
    points = list(zip(values[5::3], values[6::3], values[7::3], strict=True))
    labelled = [(right, down) for right, down, visibility in points if visibility]
    is_pose = all(visibility in (0, 1, 2) for _, _, visibility in points) and _are_inside(labelled, values)
    return len(labelled) if is_pose else None


def _has_points(values: Sequence[float]) -> bool:
    """Whether a row has a box inside the image, and points without visibility that spread over the box.

    Read so, the corners of an outline lie beyond such a box, or near one another.
    """
    if len(values) < 9 or len(values) % 2 == 0:
        return False
    x, y, width, height = values[1:5]
    points = list(zip(values[5::2], values[6::2], strict=True))
    is_box = 0 < width <= 2 * min(x, 1 - x) + _ROUNDING and 0 < height <= 2 * min(y, 1 - y) + _ROUNDING
    sides = [max(one) - min(one) for one in zip(*points, strict=True)]
    return is_box and _are_inside(points, values) and max(sides[0] / width, sides[1] / height) >= _LEAST_SPREAD


def _are_inside(points: Sequence[tuple[float, float]], values: Sequence[float]) -> bool:
    """Whether points lie in the box of a row, or hardly outside."""
    x, y, width, height = values[1:5]
    return all(abs(right - x) <= 0.55 * width and abs(down - y) <= 0.55 * height for right, down in points)


def read_text(path: str) -> str:
    """Reads a text of bounded size.

    Raises:
      SampleError: the text is too large, or not UTF-8.
    """
    with storage.open_read(path) as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise invalid_row(f"more than {_MOST_BYTES >> 20} MiB of labels")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise invalid_row("not valid UTF-8") from None
