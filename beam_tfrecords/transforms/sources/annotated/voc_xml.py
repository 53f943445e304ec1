"""Reads the objects in a Pascal VOC annotation file.

Format: http://host.robots.ox.ac.uk/pascal/VOC/voc2012/htmldoc/. The first pixel is (1, 1) and a box includes its last
pixel, so the reader subtracts 1 from xmin and ymin only, as Detectron2 does.
Turned boxes and polygons of other programs (`robndbox` of roLabelImg and DIOR-R, `polygon`) are taken as they are.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.parsers import expat

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.transforms.objects.objects import Objects, check_count
from beam_tfrecords.transforms.objects.polygons import pack_polygons, turn_box
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.sources.names import printable

_counting = threading.Lock()
_MOST_BYTES = 16 << 20
_MOST_SIDE = 1 << 31
# Elements of an object that may have more than the sides of an upright box.
_SHAPES = ("robndbox", "polygon", "bndbox")
_NUMBERS = frozenset({"size", "bndbox", "robndbox"})
_SIDES = frozenset({"width", "height", "depth", "cx", "cy", "w", "h", "angle"})
# Three points.
_LEAST_SIDES = 6


def read_annotation(path: str, forms: Counter[tuple[str, ...]]) -> Objects | SampleError:
    """Returns the objects in an XML file, or the error of reading it.

    Args:
      path: the file.
      forms: counts the elements with the same children, as paths such as `object.name`; threads may share it.
    """
    own: Counter[tuple[str, ...]] = Counter()
    try:
        return parse_annotation(retry_faults(path, lambda: _read(path)), own)
    except SampleError as error:
        return _error(error.reason, f"{printable(storage.basename(path))}: {error.detail}")
    finally:
        # The counts are part of the manifest, which must not depend on the threads.
        with _counting:
            forms.update(own)


def parse_annotation(data: bytes, forms: Counter[tuple[str, ...]] | None = None) -> Objects:
    """Parses the objects of an annotation.

    Args:
      data: the XML.
      forms: as for `read_annotation`.

    Raises:
      SampleError: the data is not XML, an object has no class, or there are too many objects.
    """
    root = parse_xml(data)
    boxes: list[float] = []
    labels: list[str] = []
    polygons: list[bytes] = []
    values: dict[str, list[int | str]] = {"difficult": [], "truncated": [], "pose": []}
    found = root.findall("object")
    check_count(len(found))
    if forms is not None:
        forms[tuple(_paths(root, ""))] += 1
        forms.update(tuple(_paths(one, "object.")) for one in found)
    for one in found:
        name = (one.findtext("name") or "").strip()
        if not name:
            raise _error(FailureReason.LABEL_MISSING, "an object has no name")
        labels.append(name)
        sides = [_number(one.findtext(f"bndbox/{side}")) for side in ("xmin", "ymin", "xmax", "ymax")]
        corners = next(filter(None, map(_read_corners, map(one.find, _SHAPES))), [])
        if corners and any(map(math.isnan, sides)):
            boxes += (min(corners[::2]), min(corners[1::2]), max(corners[::2]), max(corners[1::2]))
        else:
            boxes += (sides[0] - 1, sides[1] - 1, sides[2], sides[3])
        polygons.append(pack_polygons([corners]) if corners else b"")
        for attribute in ("difficult", "truncated"):
            values[attribute].append(int(_number(one.findtext(attribute)) == 1))
        values["pose"].append((one.findtext("pose") or "").strip())
    width, height = (_number(root.findtext(f"size/{side}")) for side in ("width", "height"))
    # Some programs write 0 for an unknown size.
    size = (int(width), int(height)) if 1 <= width < _MOST_SIDE and 1 <= height < _MOST_SIDE else None
    return Objects(
        tuple(boxes),
        tuple(labels),
        {name: tuple(column) for name, column in values.items()},
        size=size,
        polygons=tuple(polygons) if any(polygons) else (),
    )


def _paths(element: ElementTree.Element, path: str) -> Iterator[str]:
    """Yields the paths of the children of an element, and of further children of a box or size."""
    for child in element:
        if path or child.tag != "object":
            yield f"{path}{child.tag}"
        if child.tag in _NUMBERS:
            others = (one.tag for one in child if one.tag[:1] not in ("x", "y") and one.tag not in _SIDES)
            yield from (f"{path}{child.tag}.{tag}" for tag in others)


def _read_corners(shape: ElementTree.Element | None) -> list[float]:
    """Returns x and y of each corner of a turned box or polygon; empty for another element, or one without numbers.

    A box is turned clockwise by radians around its center, as roLabelImg writes it; a polygon has an element for each x
    and y, in turn.

    Raises:
      SampleError: the angle is more than a full turn.
    """
    if shape is None:
        return []
    center = [_number(shape.findtext(name)) for name in ("cx", "cy", "w", "h", "angle")]
    if not any(map(math.isnan, center)):
        x, y, width, height, angle = center
        if abs(angle) > 2 * math.pi:
            raise _error(FailureReason.INVALID_ROW, f"the angle {angle:g} of a box is no number of radians")
        return turn_box((x - width / 2, y - height / 2, x + width / 2, y + height / 2), angle)
    sides = [one for one in shape.iter() if not len(one) and one.tag[:1] in ("x", "y")]
    numbers = [_number(one.text) for one in sides]
    are_points = [one.tag[0] for one in sides] == ["x", "y"] * (len(sides) // 2) and len(sides) >= _LEAST_SIDES
    return numbers if are_points and not any(map(math.isnan, numbers)) else []


def parse_xml(data: bytes) -> ElementTree.Element:
    """Parses XML and rejects document types, because only these define entities, which may expand or open files.

    Raises:
      SampleError: the data is not XML, or has a document type.
    """
    builder, parser = ElementTree.TreeBuilder(), expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = builder.start, builder.end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(data, True)
        return builder.close()
    except (expat.ExpatError, LookupError, ValueError, AssertionError) as error:
        raise _error(FailureReason.INVALID_ROW, f"not valid XML: {error}") from None


def _refuse_doctype(*_: object) -> None:
    raise _error(FailureReason.INVALID_ROW, "the XML has a document type or entities, which are not read")


def _number(text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        return math.nan


def _read(path: str) -> bytes:
    with storage.open_read(path) as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise _error(FailureReason.INVALID_ROW, f"more than {_MOST_BYTES >> 20} MiB")
    return bytes(data)


def _error(reason: FailureReason, detail: str) -> SampleError:
    return SampleError(Stage.LIST, reason, detail)
