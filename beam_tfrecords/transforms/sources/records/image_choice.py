"""Finds the images of records: in one feature, in several, in lists, or in files that features name."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from beam_tfrecords.errors import Reading, RequestError
from beam_tfrecords.features.layouts import SAME
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, Value
from beam_tfrecords.transforms.sources.detect.column_suggestions import find_stems
from beam_tfrecords.transforms.sources.detect.image_columns import name_images, suggest_images
from beam_tfrecords.transforms.sources.detect.roles import Role, roles_of
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.records.folder_metadata import Features
from beam_tfrecords.transforms.sources.records.image_features import (
    ImagePlan,
    choose_features,
    is_base64_image,
    is_encoded_image,
)
from beam_tfrecords.transforms.sources.tables.table import FirstRows, first_cells
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings

# Longer values do not decide whether a feature has texts.
_MOST_TEXT = 4096
# Longest id that names an image file, in characters.
_MOST_ID = 100


class _Kind(enum.Enum):
    """The kind of a feature's values; messages show the value."""

    IMAGE = "an image"
    IMAGES = "several images"
    PATH = "names of images"
    OTHER = "neither images nor names of images"


def choose_images(
    start: FirstRows, texts: FirstRows, features: Features, settings: TableSettings, needs: Needs
) -> ImagePlan:
    """Chooses the features or files that hold the images.

    Args:
      start: the first records.
      texts: the same with texts in place of bytes.
      features: features that files beside the records describe.
      settings: settings of the rows.
      needs: requested contents.

    Raises:
      RequestError: there are no images, or several and none is named.
    """
    if settings.image_path is not None:
        return ImagePlan(files=settings)
    images = name_images(start.columns, start, settings, needs.images)
    named = {name: feature for name, feature in images.items() if feature}
    kinds = {feature: _kind_of(feature, start, texts) for feature in named.values()}
    if _Kind.PATH in kinds.values():
        _refuse_other_kinds(start, kinds, _Kind.PATH)
        return ImagePlan(files=settings)
    if [*named] == [IMAGE] and _Kind.IMAGES not in kinds.values():
        return choose_features(start, features, settings, needs)
    if named:
        _refuse_other_kinds(start, kinds, _Kind.IMAGE, _Kind.IMAGES)
    alone = dataclasses.replace(settings, image_column=None)
    choice = ImagePlan()
    if not named or (IMAGE in images and not images[IMAGE]):
        choice = _choose_unnamed(start, texts, features, alone, needs)
    lists = frozenset(name for name, feature in named.items() if kinds[feature] is _Kind.IMAGES)
    return dataclasses.replace(choice, features={**choice.features, **named}, lists=choice.lists | lists)


def _choose_unnamed(
    start: FirstRows, texts: FirstRows, features: Features, settings: TableSettings, needs: Needs
) -> ImagePlan:
    """Chooses among all features: one with an image, else a list of images, else names of image files."""
    try:
        chosen = choose_features(start, features, settings, needs)
        image = chosen.features[IMAGE]
        if _kind_of(image, start, texts) is _Kind.IMAGES:
            return dataclasses.replace(chosen, features={image: image}, lists=frozenset({image}))
        return chosen
    except RequestError as error:
        if error.code == "several_image_columns":
            found = [name for name in start.columns if _kind_of(name, start, texts) is _Kind.IMAGE]
            raise RequestError(error.message, suggest_images(found, {}, "feature"), code=error.code) from error
        if error.code != "missing_image_column":
            raise
        lists = [name for name in start.columns if _kind_of(name, start, texts) is _Kind.IMAGES]
        paths = _find_paths(texts)
        found = lists or paths
        if len(found) > 1:
            raise RequestError(
                f"{quote_input(start.path)} has several features with images ({', '.join(found)}); name one, or "
                f"several images of a sample, with `image_column`",
                suggest_images(found, {}, "feature"),
                code="several_image_columns",
            ) from error
        if lists:
            return ImagePlan({lists[0]: lists[0]}, lists=frozenset(lists))
        if paths:
            return ImagePlan(files=dataclasses.replace(settings, image_column=paths[0]))
        raise RequestError(error.message, _suggest_others(texts, settings), code=error.code) from error


def _refuse_other_kinds(start: FirstRows, kinds: Mapping[str, _Kind], *expected: _Kind) -> None:
    wrong = next((name for name, kind in kinds.items() if kind not in expected), None)
    if wrong is not None:
        others = ", ".join(name for name, kind in kinds.items() if kind in expected) or "other features"
        raise RequestError(
            f"{quote_input(start.path)}: feature {wrong!r} has {kinds[wrong].value}, unlike {others}; "
            "`image_column` takes features with images, or features with names of images",
            code="column_without_images",
        )


def _kind_of(feature: str, start: FirstRows, texts: FirstRows) -> _Kind:
    """Returns the kind of a feature's values in the first records.

    At least half of the records of a feature of lists have several images; a single record with two is a mistake.
    """
    values = [value for row in start.first_rows if (value := row.get(feature)) not in (None, b"")]
    parts = [part for value in values for part in (value if isinstance(value, list) else [value])]
    if parts and all(map(is_base64_image, parts)):
        return _Kind.OTHER
    if parts and all(map(is_encoded_image, parts)):
        several = sum(isinstance(value, list) for value in values)
        return _Kind.IMAGES if 2 * several >= len(start.first_rows) else _Kind.IMAGE
    text = next((row[feature] for row in texts.first_rows if row.get(feature)), None)
    are_texts = isinstance(text, str) or (isinstance(text, list) and all(isinstance(one, str) for one in text))
    return _Kind.PATH if are_texts else _Kind.OTHER


def _find_paths(texts: FirstRows) -> list[str]:
    """Returns the features that name images; of several with the same names, the one that is called a file or path."""
    cells = first_cells(texts, texts.columns)
    found: dict[tuple[str, ...], str] = {}
    for name, role in roles_of(cells).items():
        if role is not Role.IMAGE:
            continue
        values = tuple(map(str, cells[name]))
        if values not in found or any(word in name.lower() for word in ("file", "path")):
            found[values] = name
    return sorted(found.values(), key=texts.columns.index)


def _suggest_others(texts: FirstRows, settings: TableSettings) -> list[Reading]:
    """Suggests image files with the ids of records, and records without images."""
    cells = {
        name: [value for value in values if isinstance(value, str | int) and 0 < len(str(value)) <= _MOST_ID]
        for name, values in first_cells(texts, texts.columns).items()
    }
    suggestions = [
        Reading(f"the image files named by {name}", path)
        for name, path in find_stems(texts, cells)
        if "image_path" in path
    ]
    without = {"label_column": None} if settings.label_column else {}
    return [*suggestions, Reading("the records as they are, without images", {"layout": SAME, **without})]


def with_texts(start: FirstRows) -> FirstRows:
    """Returns the first records with texts in place of bytes that are UTF-8."""
    texts = {name: [_as_text(row.get(name)) for row in start.first_rows] for name in start.columns}
    # Numbers that are stored as bytes look like text in some records by chance.
    texts = {name: values for name, values in texts.items() if not any(map(_has_bytes, values))}
    rows = [
        {name: texts[name][number] if name in texts else value for name, value in row.items()}
        for number, row in enumerate(start.first_rows)
    ]
    return dataclasses.replace(start, first_rows=rows)


def _has_bytes(value: Value) -> bool:
    return any(isinstance(one, bytes) for one in (value if isinstance(value, list) else [value]))


def _as_text(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_text(one) for one in value]
    if isinstance(value, bytes) and len(value) <= _MOST_TEXT:
        with contextlib.suppress(UnicodeDecodeError):
            text = value.decode()
            return text if all(letter.isprintable() or letter.isspace() for letter in text) else value
    return value
