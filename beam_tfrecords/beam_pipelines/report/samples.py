"""Reads the records that a report shows: thumbnails of their images, and their other values."""

from __future__ import annotations

import base64
import dataclasses
import io
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from PIL import Image

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.report.drawing import (
    Box,
    draw_mask,
    draw_masks,
    find_boxes,
    flatten,
    from_pixels,
    put_side_by_side,
)
from beam_tfrecords.beam_pipelines.report.index_scan import ChosenRecord
from beam_tfrecords.dataset.dataset import StoredDataset
from beam_tfrecords.errors import BuildError, describe_exception
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.fields import ClassValue
from beam_tfrecords.features.layouts import decoded_names
from beam_tfrecords.reading.decoding import ReadExample
from beam_tfrecords.reading.records import open_records
from beam_tfrecords.tfrecord import open_stream, read_records
from beam_tfrecords.transforms.images.jpeg_header import parse_jpeg_header

_SIDE, _SIDE_WITH_BOXES, _QUALITY = 128, 256, 70
# Boxes drawn on one picture.
_MOST_BOXES = 100
_MOST_IMAGES = 4
# Limit of stored pixels to decode; it is enough for some 80 photos of 12 megapixels.
_MOST_PIXELS = 1_000_000_000
# Records in memory at once; more if they have no more pixels than this in total.
_AT_ONCE, _PIXELS_AT_ONCE = 8, 20_000_000
# A request to a store takes as long as reading this many more bytes.
_GAP_BYTES = 2 << 20
_MOST_TEXT = 120


@dataclasses.dataclass(frozen=True)
class ShownRecord:
    """A record that is shown.

    Attributes:
      chosen: the record.
      image: data URI of a thumbnail; "" if there is none.
      width: width of the thumbnail in pixels.
      height: height of the thumbnail in pixels.
      problem: why an image has no thumbnail.
      texts: further values of the record: (feature, text).
      boxes: boxes of its objects, the largest first, up to a maximum.
    """

    chosen: ChosenRecord
    image: str = ""
    width: int = 0
    height: int = 0
    problem: str = ""
    texts: tuple[tuple[str, str], ...] = ()
    boxes: tuple[Box, ...] = ()


def thumbnail_side(dataset: StoredDataset) -> int:
    """Returns the longer side of a thumbnail in pixels; objects and masks need larger ones."""
    return _SIDE_WITH_BOXES if {Content.OBJECTS, Content.MASK} & dataset.layout.required else _SIDE


def read_shown(dataset: StoredDataset, groups: Iterable[Sequence[ChosenRecord]]) -> dict[ChosenRecord, ShownRecord]:
    """Reads chosen records up to a limit of pixels, starting with the first of every group.

    Raises:
      BuildError: a record cannot be read.
    """
    ranked = list(dict.fromkeys(one for rank in itertools.zip_longest(*groups) for one in rank if one is not None))
    totals = itertools.accumulate(one.pixels for one in ranked)
    few = [one for one, pixels in zip(ranked, totals, strict=True) if pixels <= _MOST_PIXELS] or ranked[:1]
    by_split = defaultdict(list)
    for one in sorted(few, key=lambda one: one.number):
        by_split[one.split].append(one)
    return {
        one: _describe(dataset, one, data)
        for split, chosen in by_split.items()
        for one, data in _read_split(dataset, split, chosen)
    }


def _read_split(
    dataset: StoredDataset, split: str, chosen: Sequence[ChosenRecord]
) -> Iterator[tuple[ChosenRecord, bytes]]:
    """Yields records of a split, which are sorted by their numbers."""
    if dataset.compression == "none":
        records = open_records(dataset, split, form="bytes").joined(_GAP_BYTES)
        found = records.read_batches([one.number for one in some] for some in _group(chosen))
        yield from zip(chosen, itertools.chain.from_iterable(found), strict=True)
        return
    wanted = {one.number: one for one in chosen}
    first = dataset.split_shards(split)[0].file
    try:
        with storage.open_read(storage.join(dataset.path, first)) as file:
            stream = read_records(open_stream(file, dataset.compression))
            for record in itertools.islice(stream, max(wanted) + 1):
                if record.number in wanted:
                    yield wanted[record.number], record.data
    except (OSError, EOFError, ValueError) as error:
        raise BuildError(f"{first} cannot be read: {error}") from error


def _group(chosen: Sequence[ChosenRecord]) -> Iterator[Sequence[ChosenRecord]]:
    """Yields groups of records that fit in memory: a few large ones, or many small ones."""
    start = pixels = 0
    for index, one in enumerate(chosen):
        if index - start >= _AT_ONCE and pixels + one.pixels > _PIXELS_AT_ONCE:
            yield chosen[start:index]
            start = index
            pixels = 0
        pixels += one.pixels
    if start < len(chosen):
        yield chosen[start:]


def _describe(dataset: StoredDataset, chosen: ChosenRecord, data: bytes) -> ShownRecord:
    read = ReadExample(dataset.layout.features, dataset.images, pixels=False)
    example = read(data)
    boxes = find_boxes(dataset, example)
    sample = ShownRecord(chosen, texts=tuple(_texts(dataset, example)), boxes=tuple(boxes[:_MOST_BOXES]))
    side = thumbnail_side(dataset)
    stored = [one for one in dataset.layout.features if one.holds_image]
    if {Content.OBJECTS, Content.MASK} & dataset.layout.required:
        # Objects and masks are drawn on the image that they belong to.
        stored = [one for one in stored if one.is_image]
    try:
        is_file = dataset.images.encoding != "raw" and dataset.images.bit_depth == 8
        pixels = {} if is_file else dataclasses.replace(read, pixels=True)(data)
        names = decoded_names(dataset.layout.features)
        values = [
            value
            for feature in stored
            for found in [example[feature.name] if is_file else pixels[names.get(feature.name, feature.name)]]
            for value in (found if feature.several else [found])
        ]
        if not values:
            return sample
        images = [_open(value, side) if is_file else from_pixels(value) for value in values[:_MOST_IMAGES]]
        for image in images:
            image.thumbnail((side, side))
        image = put_side_by_side(list(map(flatten, images)))
        image = draw_masks(draw_mask(image, dataset, example), sample.boxes)
        file = io.BytesIO()
        image.save(file, "JPEG", quality=_QUALITY)
    except Exception as error:  # an image that Pillow cannot read is shown as a problem, and does not end the report
        return dataclasses.replace(sample, problem=describe_exception(error)[:_MOST_TEXT])
    uri = f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
    return dataclasses.replace(sample, image=uri, width=image.width, height=image.height)


def _open(data: bytes, side: int) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    header = parse_jpeg_header(data) if image.format == "JPEG" else None
    if header is not None and header.is_reducible:
        # Decodes a large JPEG at a fraction of its size.
        image.draft("L" if image.mode == "L" else "RGB", (2 * side, 2 * side))
    # Loads the image now, because `thumbnail` would reduce any other JPEG too.
    image.load()
    if image.mode in ("L", "RGB", "RGBA"):
        return image
    return image.convert("RGBA" if image.has_transparency_data else "RGB")


def _texts(dataset: StoredDataset, example: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields labels if there may be several, classes of objects, and columns of the table."""
    for feature in dataset.layout.features:
        value = example[feature.name]
        if not feature.kind.is_shown:
            continue
        if feature.class_value is ClassValue.INDEX:
            names = (ClassValue.INDEX.find(one, dataset.class_names) or "?" for one in value)
            yield feature.name, ", ".join(names)[:_MOST_TEXT]
        else:
            values = value if feature.several or feature.length else [value]
            if feature.is_class:
                values = [(ClassValue.INDEX.find(value, feature.class_names) or "?").encode()]
            shown = [one.decode(errors="replace") if isinstance(one, bytes) else f"{one:g}" for one in values[:8]]
            # Captions are sentences, one per line; numbers and class names form a list.
            is_list = feature.type != "bytes" or feature.is_of_objects
            for text in [", ".join(shown)] if is_list else shown:
                yield feature.name, text[:_MOST_TEXT]
