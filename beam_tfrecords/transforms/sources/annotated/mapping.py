"""Mappings: where the annotations are in the documents of a format. A mapping is data: ten lines of YAML.

The values are expressions of JMESPath (https://jmespath.org/specification.html), with the functions of `_Functions`.
docs/mappings.md describes these and the keys.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib.resources
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import jmespath
import yaml
from jmespath import functions
from jmespath.exceptions import JMESPathError

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.features.column_ranges import count_columns
from beam_tfrecords.nearest import did_you_mean
from beam_tfrecords.storage.beside import does_not_exist
from beam_tfrecords.transforms.class_list import ClassList, list_classes
from beam_tfrecords.transforms.objects.objects import BoxFormat
from beam_tfrecords.transforms.objects.polygons import turn_box
from beam_tfrecords.transforms.sources.annotated.compiled import Find, compile_tree, names_of
from beam_tfrecords.transforms.sources.class_files import read_class_file
from beam_tfrecords.transforms.sources.input_settings import holds_mapping, names_mapping_file
from beam_tfrecords.transforms.sources.json_text import read_json
from beam_tfrecords.transforms.sources.path_rule import shorten

# Value of `image` for documents that have the names of their images.
STEM = "stem"
# Value of `image` for text files in which a line with the name of an image heads the rows of its objects.
HEADING = "heading"
# Value of `split` for images in folders that are named after their splits.
FOLDERS = "folders"
# Value of `class_names` for classes that are names, even if they are numbers.
NAMES = "as_names"
# Expression for the samples of an object of names, any of which may be that of an image.
ITEMS = "items(@)"
# Keys of one kind of objects, which are also the keys of each element of a list of kinds.
_OBJECT_KEYS = (
    "objects", "class", "group", "box", "polygon", "holes", "points", "form", "unit", "origin", "angle", "attributes",
    "ignore",
)  # fmt: skip
KEYS = (
    "documents", "columns", "separator", "quotes", "samples", "alternatives", "image", "size", "split", "label",
    "class_names", "image_folder", "lists", "masks", *_OBJECT_KEYS,
)  # fmt: skip
# Keys of a mask as run lengths of COCO.
RUNS = frozenset({"counts", "size"})
_NUMBERS = ("box", "polygon", "points")
POSE = "pose"
_ATTRIBUTES = ("difficult", "is_crowd", POSE, "truncated")
_ANGLE_KEYS = ("value", "unit", "around", "clockwise")
_MOST_BYTES = 1 << 20
# A turned box, and the sides of three points.
_TURNED, _LEAST_SIDES = ("cx", "cy", "w", "h", "angle"), 6
# A polygon of well-known text, its rings, and what is between polygons.
_WKT, _RING = re.compile(r"\s*(?:MULTI)?POLYGON\s*Z?\s*\(", re.IGNORECASE), re.compile(r"\(([^()]+)\)")
_WKT_POLYGON = re.compile(r"(?<=\))\s*\)\s*,")
_LISTED = re.compile(r'(\w+)"?\[')
_FOLDER = importlib.resources.files(__package__) / "mappings"


Kind = TypeVar("Kind", bound=enum.Enum)


class Form(str, enum.Enum):
    """Meaning of the numbers of an object.

    CORNERS, SIZE and CENTER are boxes: two corners, a corner and a size, a center and a size. PIXELS are the first and
    the last pixel of a box, counted from 1. A POLYGON has any number of points, a QUAD four. POINTS are keypoints.
    """

    CORNERS = "xyxy"
    SIZE = "xywh"
    CENTER = "cxcywh"
    PIXELS = "pixels"
    POLYGON = "polygon"
    QUAD = "quad"
    POINTS = "points"


BOXES = (Form.CORNERS, Form.SIZE, Form.CENTER, Form.PIXELS)


class Unit(str, enum.Enum):
    """Unit of coordinates: PIXELS of the upright image, SHARE of its size from 0 to 1, or PERCENT of it."""

    PIXELS = "pixels"
    SHARE = "share"
    PERCENT = "percent"


@dataclasses.dataclass(frozen=True)
class Angle:
    """How a box is turned.

    Attributes:
      value: the angle.
      factor: factor that makes it radians clockwise.
      around_corner: whether the box turns around its first corner; otherwise around its center.
    """

    value: Expression
    factor: float
    around_corner: bool


class _Functions(functions.Functions):
    @functions.signature({"types": ["string", "null"]}, {"types": ["string"]})
    def _func_split(self, text: str | None, separator: str) -> list[str]:
        return [word for word in text.split(separator) if word] if text else []

    @functions.signature({"types": ["array", "object", "null"]})
    def _func_elements(self, value: Any) -> list[Any]:
        return list(value.values()) if isinstance(value, dict) else value or []

    @functions.signature({"types": ["object", "null"]})
    def _func_items(self, value: Mapping[str, Any] | None) -> list[Any]:
        return [{"name": name, "value": one} for name, one in (value or {}).items()]

    @functions.signature({"types": ["object", "null"]})
    def _func_flags(self, value: Mapping[str, Any] | None) -> list[str] | None:
        return [name for name, is_set in (value or {}).items() if is_set is True] or None

    @functions.signature({"types": ["string", "null"]})
    def _func_json(self, text: str | None) -> Any:
        return parse_cell(text) if text else None

    @functions.signature({"types": ["array", "null"]}, {"types": ["expref"]})
    def _func_unnest(self, parents: Sequence[Any] | None, children: Any) -> list[Any]:
        found = ((one, children.visit(children.expression, one)) for one in parents or ())
        return [{**one, **child} for one, several in found for child in several or ()]

    @functions.signature({"types": ["string", "number"]}, {"types": ["number"]})
    def _func_pad(self, number: str | int, digits: int) -> str:
        return str(number).zfill(digits)

    @functions.signature({"types": ["object", "array", "string", "null"], "variadic": True})
    def _func_corners(self, *shapes: Any) -> list[float] | None:
        """Returns the corners of the first turned box or polygon; None if there is none."""
        return next((found for one in shapes if (found := corners_of(one)) is not None), None)

    @functions.signature({"types": ["string", "null"]})
    def _func_wkt(self, text: str | None) -> list[Any]:
        """Returns the polygons of well-known text, each as its rings: the outline and the holes."""
        if not text or not _WKT.match(text):
            raise ValueError(f"{shorten(str(text))} is no POLYGON or MULTIPOLYGON of well-known text")
        polygons = [_RING.findall(one) for one in _WKT_POLYGON.split(text)]
        # The last point of a ring repeats the first.
        return [
            [[[*map(float, point.split()[:2])] for point in ring.split(",")[:-1]] for ring in rings]
            for rings in polygons
        ]


def corners_of(shape: Any) -> list[float] | None:
    """Returns x and y of each corner of a turned box or polygon in XML; None for other values.

    A box has a center, a size and an angle in radians, as roLabelImg writes it; a polygon has an element for each x and
    y, in turn.

    Raises:
      ValueError: the angle is not in radians.
    """
    if not shape:
        return None
    if isinstance(shape, dict) and len(shape) < len(_TURNED) and {str}.issuperset(map(type, shape.values())):
        return None  # Most shapes are boxes of two corners.
    turned = [as_number(shape.get(name)) for name in _TURNED] if "angle" in shape else [math.nan]
    if not any(map(math.isnan, turned)):
        x, y, width, height, angle = turned
        if abs(angle) > 2 * math.pi:
            raise ValueError(f"the angle {angle:g} of a box is not in radians")
        return turn_box((x - width / 2, y - height / 2, x + width / 2, y + height / 2), angle)
    sides = [(name[:1], value) for name, value in _leaves(shape) if name[:1] in ("x", "y")]
    if len(sides) < _LEAST_SIDES or [name for name, _ in sides] != ["x", "y"] * (len(sides) // 2):
        return None
    numbers = [as_number(value) for _, value in sides]
    return None if any(map(math.isnan, numbers)) else numbers


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yields name and value of the values in nested objects and lists."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _leaves(one, key)
    elif isinstance(value, list):
        for one in value:
            yield from _leaves(one, name)
    else:
        yield name, value


def as_number(value: Any) -> float:
    """Returns a number or the number in a text; NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


FUNCTIONS = _Functions()
# Both counting the fields of a cell and reading it parse it.
parse_cell = functools.lru_cache(64)(read_json)


@dataclasses.dataclass(frozen=True)
class Expression:
    """An expression of a mapping.

    Attributes:
      key: key of the mapping that has the expression, for messages.
      text: the expression.
      tree: the parsed expression.
    """

    key: str
    text: str
    tree: Any = dataclasses.field(repr=False, compare=False)

    @classmethod
    def parse(cls, key: str, value: Any) -> Expression:
        """Parses an expression.

        Raises:
          ValueError: it is not an expression.
        """
        if not isinstance(value, str):
            raise ValueError(f"`{key}` is {value!r}; expected a JMESPath expression, as text")
        try:
            return cls(key, value, jmespath.compile(value).parsed)
        except JMESPathError as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"`{key}: {value}` is not a JMESPath expression: {reason}") from None

    @functools.cached_property
    def find(self) -> Find:
        """Function that returns the value in a document or a part of it; None if there is none.

        Raises:
          SampleError: a function of the expression does not take what the document has.
        """
        run = compile_tree(self.tree, FUNCTIONS)
        if names_of(self.tree) is not None:
            return run

        def find(node: Any) -> Any:
            try:
                return run(node)
            except (JMESPathError, ValueError, TypeError) as error:  # TypeError: a text is not above a number.
                detail = f"`{self.key}: {self.text}`: {str(error).splitlines()[0]}"
                raise SampleError(Stage.LIST, FailureReason.INVALID_ROW, detail) from None

        return find


@dataclasses.dataclass(frozen=True)
class ObjectMapping:
    """Where one kind of objects is in a sample.

    Attributes:
      objects: list of the objects in a sample.
      label: class of an object; a class of all objects is a literal such as `'face'`.
      group: name or number that the parts of one object share.
      box: the numbers of a box, each or as one list; empty if the objects have none. `polygon` and `points` likewise,
        also as lists of points.
      holes: polygons that are cut out of the polygon.
      form: meaning of the numbers of `box`.
      from_one: whether the numbers of `box` are its first and last pixel, counted from 1.
      is_quad: whether polygons have four corners.
      unit: unit of all coordinates.
      origin: coordinates of the top left corner of the image: 0.5 if the center of the first pixel is (1, 1).
      angle: how a box is turned; None if no box is.
      attributes: name of a further attribute of an object that is 0 or 1, or a text for `POSE` -> its value.
      ignore: condition of objects to leave out.
    """

    objects: Expression
    label: Expression
    group: Expression | None = None
    box: Sequence[Expression] = ()
    polygon: Sequence[Expression] = ()
    holes: Expression | None = None
    points: Sequence[Expression] = ()
    form: BoxFormat = BoxFormat.CORNERS
    from_one: bool = False
    is_quad: bool = False
    unit: Unit = Unit.PIXELS
    origin: float = 0.0
    angle: Angle | None = None
    attributes: Mapping[str, Expression] = dataclasses.field(default_factory=dict)
    ignore: Expression | None = None


@dataclasses.dataclass(frozen=True)
class DocumentMapping:
    """Where the annotations are in the documents of a format.

    Attributes:
      name: name of a mapping of ours, or the path of its file.
      documents: glob for the paths of documents in a folder. The part that `*` matches is the stem of a document.
      columns: names of the cells of a line, for text and CSV without a header.
      separator: what separates the cells of a text; "" for tabs, commas or spaces.
      quotes: whether quotes in CSV are around cells; otherwise they are text, and the last cell takes the rest of the
        line.
      samples: list of the samples in a document; None if a document is one sample.
      alternatives: list of the annotations of a sample, of which the mapping reads one; None if there is one.
      image: path or name of a sample's image; STEM and HEADING are not expressions.
      size: width and height of the image that a sample's objects were drawn on; empty if the documents do not say it.
      split: split of a sample; FOLDERS is not an expression.
      label: label of a sample.
      class_names: number or id in the documents -> name of the class, or an expression that finds these in a sample or
        in its document.
      values: column -> its value in a sample.
      objects: kinds of objects; empty for samples without objects.
      has_names: whether classes are names, even if they are numbers.
      image_folder: folder of the images below an input, whose lists or documents name them; "" for images anywhere.
      lists: folder of lists of the images of each split.
      masks: folder of the masks of the images, with the images' names.
      mask_lists: folder of lists of the images with masks.
      listed: names that expressions take for lists: `name[`.
    """

    name: str
    documents: str
    image: Expression
    columns: Sequence[str] = ()
    separator: str = ""
    quotes: bool = True
    samples: Expression | None = None
    alternatives: Expression | None = None
    size: Sequence[Expression] = ()
    split: Expression | None = None
    label: Expression | None = None
    class_names: Mapping[str, str] | Expression = dataclasses.field(default_factory=dict)
    values: Mapping[str, Expression] = dataclasses.field(default_factory=dict)
    objects: Sequence[ObjectMapping] = ()
    has_names: bool = False
    image_folder: str = ""
    lists: str = ""
    masks: str = ""
    mask_lists: str = ""
    listed: frozenset[str] = frozenset()

    @property
    def document_folder(self) -> str:
        """Folder of the documents, if the glob has one."""
        return self.documents.rpartition("/")[0]


def mapping_names() -> list[str]:
    """Returns the names of the mappings of ours."""
    return sorted(one.name.removesuffix(".yaml") for one in _FOLDER.iterdir())


def read_mapping(word: str) -> DocumentMapping:
    """Reads a mapping of ours by its name, a file, or its YAML.

    Raises:
      RequestError: there is no such mapping, or it is not valid.
    """
    if names_mapping_file(word):
        try:
            data = storage.read_range(word, 0, min(storage.stat(word).size, _MOST_BYTES))
        except FileNotFoundError:
            raise RequestError(f"`mapping={word}` {does_not_exist(word)}", code="not_found") from None
        folder = storage.dirname(word)
    elif holds_mapping(word):
        data, folder = word.encode(), ""
    elif word in (names := mapping_names()):
        data = (_FOLDER / f"{word}.yaml").read_bytes()
        folder = ""
    else:
        expected = f"expected a file of YAML (.yaml), or one of {', '.join(names)}"
        raise RequestError(f"`mapping={word}`: {did_you_mean(word, names, otherwise=expected)}", code="unknown_mapping")
    try:
        return parse_mapping(word, data, folder)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise RequestError(f"`mapping={word}`: {reason}", code="invalid_mapping") from None


def parse_mapping(name: str, data: bytes, folder: str = "") -> DocumentMapping:
    """Parses a mapping.

    Args:
      name: name of the mapping.
      data: the YAML.
      folder: folder that the path of a file of class names is relative to.

    Raises:
      ValueError, yaml.YAMLError: it is not valid.
    """
    found = yaml.safe_load(data)
    if not isinstance(found, dict):
        raise ValueError(f"it is {shorten(str(found))}; expected keys and values such as `image: file_name`")
    _check_keys(found, KEYS)
    if "image" not in found:
        raise ValueError(f"`image` is missing; expected an expression for the image's name, or `{STEM}`")
    has_names = found.get("class_names") == NAMES
    cells, values = _parse_columns(found.get("columns", {}))
    kinds = tuple(_parse_kinds(found))
    if len({kind.unit is Unit.PIXELS for kind in kinds}) > 1:
        raise ValueError("the kinds of `objects` have pixels and shares; expected one unit")
    return DocumentMapping(
        name="{…}" if holds_mapping(name) else storage.basename(name) if folder else name,
        documents=str(found.get("documents", "")),
        image=Expression.parse("image", found["image"]),
        columns=cells,
        separator=str(found.get("separator", "")),
        quotes=_parse_quotes(found.get("quotes", True), cells),
        samples=_parse(found, "samples"),
        alternatives=_parse(found, "alternatives"),
        size=_parse_numbers(found, "size", 2),
        split=_parse(found, "split"),
        label=_parse(found, "label"),
        class_names={} if has_names else _parse_names(found.get("class_names"), folder),
        values=values,
        objects=kinds,
        has_names=has_names,
        image_folder=str(found.get("image_folder", "")),
        lists=str(found.get("lists", "")),
        **_parse_masks(found.get("masks") or {}),
        listed=frozenset(_LISTED.findall(data.decode(errors="replace"))),
    )


def _parse_columns(found: Any) -> tuple[tuple[str, ...], dict[str, Expression]]:
    """Returns the names of cells, and column -> expression; a list of names may have such columns, too."""
    words = [found] if isinstance(found, dict) else found
    if not isinstance(words, list):
        raise ValueError("`columns` is neither a list of the names of cells nor a mapping of column to expression")
    ranges = [str(word) for word in words if not isinstance(word, dict)]
    cells = tuple(name for word in ranges for name in _expand_range(word) or [word])
    columns = {str(name): text for word in words if isinstance(word, dict) for name, text in word.items()}
    return cells, {name: Expression.parse(f"columns.{name}", text) for name, text in columns.items()}


def _parse_quotes(found: Any, cells: Sequence[str]) -> bool:
    if not isinstance(found, bool) or not (found or cells):
        raise ValueError(f"`quotes` is {found!r}; expected true, or false with `columns`, the names of the cells")
    return found


def _check_keys(found: Mapping[str, Any], known: Sequence[str]) -> None:
    unknown = [str(key) for key in found if key not in known]
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; expected {', '.join(known)}")


def _parse(found: Mapping[str, Any], key: str) -> Expression | None:
    return Expression.parse(key, found[key]) if found.get(key) is not None else None


def _parse_names(value: Any, folder: str) -> Mapping[str, str] | Expression:
    """Returns number -> name, read from a value or a file; or an expression."""
    if value is None:
        return {}
    if isinstance(value, str):
        if not storage.basename(value).lower().endswith((".txt", ".csv", ".json", ".yaml", ".pbtxt", ".names")):
            return Expression.parse("class_names", value)
        return number_names(read_class_file(value if value.startswith("/") else storage.join(folder, value)))
    return number_names(list_classes(value))


def number_names(classes: ClassList) -> dict[str, str]:
    """Returns the number or id of each class -> its name."""
    keys = classes.ids or classes.numbers or range(len(classes.names))
    return {str(key): name for key, name in zip(keys, classes.names, strict=True)}


def _parse_kinds(found: Mapping[str, Any]) -> Iterator[ObjectMapping]:
    """Yields the kinds of objects: each entry of a list with its own keys, or the mapping itself as the only kind."""
    kinds = found.get("objects")
    shared = {key: found[key] for key in _OBJECT_KEYS if key in found}
    if isinstance(kinds, list):
        del shared["objects"]
    else:
        kinds = [shared] if shared else []
    for one in kinds:
        if not isinstance(one, dict):
            raise ValueError(f"an element of `objects` is {shorten(str(one))}; expected keys such as `objects`, `box`")
        _check_keys(one, _OBJECT_KEYS)
        yield _parse_kind({**shared, **one})


def _parse_kind(found: Mapping[str, Any]) -> ObjectMapping:
    form = _parse_enum(found, "form", Form)
    is_box = form is None or form in BOXES
    numbers = {key: _parse_numbers(found, key, 4 if key == "box" and is_box else 0) for key in _NUMBERS}
    unit, origin = _parse_enum(found, "unit", Unit) or Unit.PIXELS, found.get("origin", 0.0)
    if isinstance(origin, bool) or not isinstance(origin, int | float) or (origin and unit is not Unit.PIXELS):
        raise ValueError(f"`origin` is {origin!r}; expected a number of pixels, such as 0.5, with `unit: pixels`")
    if not is_box and numbers["box"]:
        numbers["points" if form is Form.POINTS else "polygon"] = numbers["box"]
        numbers["box"] = ()
    if not any(numbers.values()):
        raise ValueError("the objects have neither `box` nor `polygon` nor `points`")
    if numbers["box"] and form is None:
        raise ValueError(f"`form` is missing: the numbers of `box` may be {', '.join(one.value for one in BOXES)}")
    for key, of in (("angle", "box"), ("holes", "polygon")):
        if key in found and not numbers[of]:
            raise ValueError(f"`{key}` needs `{of}`, which the objects do not have")
    if "class" not in found:
        raise ValueError("`class` is missing; one class of all objects is written as `class: \"'face'\"`")
    return ObjectMapping(
        objects=Expression.parse("objects", found.get("objects") or "@"),
        label=Expression.parse("class", found["class"]),
        group=_parse(found, "group"),
        holes=_parse(found, "holes"),
        form=BoxFormat(form.value) if form in (Form.SIZE, Form.CENTER) else BoxFormat.CORNERS,
        from_one=form is Form.PIXELS,
        is_quad=form is Form.QUAD,
        unit=unit,
        origin=float(origin),
        angle=_parse_angle(found.get("angle"), form),
        attributes=_parse_attributes(found.get("attributes") or {}),
        ignore=_parse(found, "ignore"),
        **numbers,
    )


def _parse_masks(found: Any) -> dict[str, str]:
    if not isinstance(found, dict):
        raise ValueError(f"`masks` is {shorten(str(found))}; expected `folder` and `lists`")
    _check_keys(found, ("folder", "lists"))
    return {"masks": str(found.get("folder", "")), "mask_lists": str(found.get("lists", ""))}


def _parse_attributes(found: Any) -> dict[str, Expression]:
    if not isinstance(found, dict):
        raise ValueError(f"`attributes` is {shorten(str(found))}; expected a mapping of {', '.join(_ATTRIBUTES)}")
    _check_keys(found, _ATTRIBUTES)
    return {name: Expression.parse(f"attributes.{name}", text) for name, text in found.items()}


def _parse_angle(found: Any, form: Form | None) -> Angle | None:
    """Parses the angle of a box: an expression of degrees, or `{value: …, unit: …, around: …, clockwise: …}`."""
    if found is None:
        return None
    words = found if isinstance(found, dict) else {"value": found}
    _check_keys(words, _ANGLE_KEYS)
    unit, clockwise = words.get("unit", "degrees"), words.get("clockwise", True)
    around = words.get("around", "corner" if form is Form.SIZE else "center")
    if unit not in ("degrees", "radians") or around not in ("center", "corner") or not isinstance(clockwise, bool):
        raise ValueError(
            f"`angle` is {shorten(str(found))}; expected an expression, or `value` with `unit: degrees` or radians, "
            "`around: center` or corner, and `clockwise: true` or false"
        )
    factor = (1.0 if clockwise else -1.0) * (math.pi / 180 if unit == "degrees" else 1.0)
    return Angle(Expression.parse("angle", words.get("value")), factor, around == "corner")


def _expand_range(word: str) -> list[str]:
    """Returns the names in a range such as `x0..x135`; empty for other words."""
    first, dots, last = (part.strip() for part in word.partition(".."))
    names = count_columns(first, last) if dots else []
    if dots and not names:
        raise ValueError(f"{word} is not a range; expected one word with numbers that ascend, such as x0..x135")
    return names


def _parse_numbers(found: Mapping[str, Any], key: str, count: int) -> tuple[Expression, ...]:
    """Returns the expressions of several numbers, or of one list of them; `count` is 0 for any number of them."""
    value = found.get(key)
    value = _expand_range(value) or value if isinstance(value, str) else value
    if not isinstance(value, list):
        return () if value is None else (Expression.parse(key, value),)
    if count and len(value) != count:
        raise ValueError(f"`{key}` has {len(value)} expressions; expected {count}, or one that finds {count} numbers")
    return tuple(Expression.parse(key, one) for one in value)


def _parse_enum(found: Mapping[str, Any], key: str, kinds: type[Kind]) -> Kind | None:
    if key not in found:
        return None
    known = {one.value: one for one in kinds}
    if found[key] not in known:
        raise ValueError(f"`{key}` is {found[key]!r}; expected {', '.join(known)}")
    return known[found[key]]
