"""Annotated objects: where their boxes are in the stored image, and what becomes of odd ones."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFilter

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.features.layouts import Layout, parse_layout
from beam_tfrecords.features.serialize import parse_example
from beam_tfrecords.geometry.geometry import Geometry
from beam_tfrecords.transforms.blocks.convert_sample import ConvertSample
from beam_tfrecords.transforms.blocks.place_objects import PlacedObjects, move_vectors, place_objects
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec, Metadata, ResizeMode
from beam_tfrecords.transforms.images.orient import orient, plan_geometry
from beam_tfrecords.transforms.labels import ClassNames
from beam_tfrecords.transforms.objects.objects import InvalidBoxes, Objects
from beam_tfrecords.transforms.objects.polygons import pack_polygons
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, SampleRef, one_image
from tests.core.converting import convert_one, finish
from tests.each import each
from tests.image_checks import encoded

LABELS = ((0, "cat"), (1, "dog"), (2, "rat"))


def boxed(*boxes: tuple[float, float, float, float], **attributes: Any) -> Objects:
    labels = tuple(name for _, name in LABELS[: len(boxes)])
    return Objects(tuple(side for box in boxes for side in box), labels, **attributes)


def place(objects: Objects, geometry: Geometry, *, invalid_boxes: InvalidBoxes = InvalidBoxes.REJECT) -> PlacedObjects:
    return place_objects(objects, LABELS[: len(objects.labels)], geometry, invalid_boxes=invalid_boxes)


def file_of(upright: Image.Image, orientation: int, file_format: str) -> bytes:
    """A file whose EXIF turns its pixels into this image."""
    inverse = {6: 8, 8: 6}.get(orientation, orientation)
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(orient(upright, inverse), file_format, exif=exif)


@given(
    st.integers(24, 90), st.integers(24, 90), st.integers(16, 70), st.integers(16, 70), st.data(),
    st.sampled_from(ResizeMode), st.sampled_from(Codec), st.booleans(), st.integers(1, 8),
    st.sampled_from(["JPEG", "PNG"]), st.sampled_from(ImageEncoding),
    st.sampled_from(["pixels", "size", "normalized", "file"]),
)  # fmt: skip
def test_the_pixels_of_a_painted_rectangle_are_inside_its_stored_box(
    height: int, width: int, target_height: int, target_width: int, data: st.DataObject,
    mode: ResizeMode, codec: Codec, upscale: bool, orientation: int,
    file_format: str, encoding: ImageEncoding, given_as: str,
) -> None:  # fmt: skip
    left, top = data.draw(st.integers(0, width - 12)), data.draw(st.integers(0, height - 12))
    right, bottom = data.draw(st.integers(left + 12, width)), data.draw(st.integers(top + 12, height))
    upright = Image.new("RGB", (width, height), "black")
    upright.paste("white", (left, top, right, bottom))
    spec = ImageSpec(
        image_size=data.draw(st.sampled_from([None, (target_height, target_width)])), resize_mode=mode, codec=codec,
        upscale=upscale, image_encoding=encoding, channels=None if encoding is ImageEncoding.KEEP else 3,
        jpeg_quality=100,
    )  # fmt: skip
    converted = convert_image(file_of(upright, orientation, file_format), spec)
    box = (left, top, right, bottom)
    # Its upper left corner, its middle, and a point that is not labelled.
    points = [left, top, 2, (left + right) / 2, (top + bottom) / 2, 1, 5, 5, 0]
    objects = {
        "pixels": boxed(box),
        "size": boxed(box, size=(width, height)),
        "normalized": boxed((left / width, top / height, right / width, bottom / height), is_normalized=True),
        # By a program that shows the file as it is.
        "file": boxed(_turn_back(box, width, height, orientation), size=_size_of(width, height, orientation)),
    }[given_as]
    if given_as == "file" and (orientation < 5 or width == height) and orientation != 1:
        return  # nothing tells it from a box in the upright image
    assert converted.geometry
    if given_as in ("pixels", "size"):
        objects = dataclasses.replace(objects, keypoints=(np.array(points, "<f4").tobytes(),))
    placed = place(objects, converted.geometry.keeping(converted.kept_orientation))
    pixels = _pixels(converted.data, encoding, (converted.height, converted.width))
    bright = np.argwhere(pixels[..., 0] > 128)
    if not placed.boxes.size:
        assert placed.outside == 1
        assert len(bright) == 0 or min(np.ptp(bright, axis=0)) <= 1
        return
    xmin, ymin, xmax, ymax = placed.boxes[0] * ((converted.width, converted.height) * 2)
    if objects.keypoints:
        corner, middle, absent = placed.keypoints[0].tolist()
        assert absent == [0, 0, 0]
        # What is out of sight is not labelled; a kept file may still be turned.
        if (xmin, ymin) != (0, 0) and converted.kept_orientation in (None, 1) and corner[2]:
            assert corner[:2] == pytest.approx(placed.boxes[0][:2], abs=1e-6)
        if not placed.clipped:
            assert middle == pytest.approx([*placed.boxes[0].reshape(2, 2).mean(axis=0), 1], abs=1e-6)
    if len(bright):
        found = bright[:, 1].min(), bright[:, 0].min(), bright[:, 1].max() + 1, bright[:, 0].max() + 1
        assert found == pytest.approx((xmin, ymin, xmax, ymax), abs=1)
    else:
        assert min(xmax - xmin, ymax - ymin) <= 1


def _turn_back(box: tuple[int, ...], width: int, height: int, orientation: int) -> tuple[float, float, float, float]:
    """A box of the upright image in the pixels of the file."""
    mask = Image.new("L", (width, height))
    mask.paste(255, box)
    in_file = orient(mask, {6: 8, 8: 6}.get(orientation, orientation)).getbbox()
    assert in_file
    return in_file


def _size_of(width: int, height: int, orientation: int) -> tuple[int, int]:
    return (height, width) if orientation >= 5 else (width, height)


def _pixels(data: bytes, encoding: ImageEncoding, size: tuple[int, int]) -> np.ndarray:
    if encoding is ImageEncoding.RAW:
        return np.frombuffer(data, np.uint8).reshape(*size, -1)
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


GEOMETRY = Geometry.unchanged(100, 200)


@given(st.data(), st.sampled_from(ResizeMode), st.integers(1, 8), st.booleans(), st.booleans())
def test_a_stored_polygon_covers_the_pixels_that_were_painted_inside(
    data: st.DataObject, mode: ResizeMode, orientation: int, upscale: bool, is_normalized: bool
) -> None:
    sides = st.integers(40, 90)
    width, height, target_height, target_width = (data.draw(sides) for _ in range(4))
    # Corners around a middle, so that the polygon is simple; some are beyond the image.
    count, radius = data.draw(st.integers(3, 7)), data.draw(st.integers(15, 60))
    angles = (np.arange(count) + data.draw(st.floats(0, 1))) * (2 * np.pi / count)
    middle = data.draw(st.integers(0, width)), data.draw(st.integers(0, height))
    corners = (middle + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)).astype(np.float32)
    upright = _paint(corners, (width, height))
    spec = ImageSpec(
        image_size=(target_height, target_width), resize_mode=mode, upscale=upscale, image_encoding=ImageEncoding.PNG
    )
    converted = convert_image(file_of(upright, orientation, "PNG"), spec)
    assert converted.geometry
    box = (*corners.min(axis=0), *corners.max(axis=0))
    scale = (width, height) if is_normalized else (1, 1)
    objects = boxed(
        tuple(np.array(box) / np.tile(scale, 2)),
        is_normalized=is_normalized,
        polygons=(pack_polygons([(corners / scale).ravel().tolist()]),),
    )
    placed = place_objects(objects, LABELS[:1], converted.geometry, invalid_boxes=InvalidBoxes.DROP, with_polygons=True)
    assert len(placed.polygons) == len(placed.boxes)
    found = _pixels(converted.data, ImageEncoding.PNG, (converted.height, converted.width))[..., 0]
    if not len(placed.boxes):
        return
    # No point is lost or clipped, and the box is the clipped one around them.
    (polygon,) = placed.polygons
    assert polygon.shape == (count, 2)
    around = np.concatenate([polygon.min(axis=0), polygon.max(axis=0)])
    if mode is not ResizeMode.PAD:
        assert np.clip(around, 0, 1) == pytest.approx(placed.boxes[0], abs=1e-5)
    # Pixels within two of the outline are not compared, also where it is beyond the image.
    drawn = _paint(polygon * (converted.width, converted.height) + 2, (converted.width + 4, converted.height + 4))
    near = [
        np.asarray(drawn.convert("L").filter(kind))[2:-2, 2:-2]
        for kind in (ImageFilter.MinFilter(5), ImageFilter.MaxFilter(5))
    ]
    # The padding is black, whatever is beyond the image.
    is_image = np.asarray(
        Image.fromarray(_stored_area(width, height, orientation, spec)).filter(ImageFilter.MinFilter(5))
    )
    assert (found[(near[0] == 255) & (is_image > 0)] > 128).all()
    assert (found[near[1] == 0] < 128).all()


def _paint(corners: np.ndarray, size: tuple[int, int]) -> Image.Image:
    """An image that is white inside a polygon, and grey at its outline."""
    # Pillow paints up to a pixel beyond the outline, and counts pixels from their middles.
    fine = Image.new("RGB", (size[0] * 8, size[1] * 8), "black")
    ImageDraw.Draw(fine).polygon([(8 * x - 0.5, 8 * y - 0.5) for x, y in corners.tolist()], fill="white")
    return fine.reduce(8)


def _stored_area(width: int, height: int, orientation: int, spec: ImageSpec) -> np.ndarray:
    """255 where a stored image has pixels of its source."""
    white = convert_image(file_of(Image.new("RGB", (width, height), "white"), orientation, "PNG"), spec)
    return _pixels(white.data, ImageEncoding.PNG, (white.height, white.width))[..., 0]


@given(st.integers(1, 8), st.sampled_from(ResizeMode), st.integers(20, 70), st.integers(20, 70), st.booleans())
def test_vectors_of_points_are_where_keypoints_are(
    orientation: int, mode: ResizeMode, height: int, width: int, is_normalized: bool
) -> None:
    geometry = plan_geometry(
        90, 60, orientation=orientation, spec=ImageSpec(image_size=(height, width), resize_mode=mode)
    )
    upright = geometry.upright_size[::-1]
    middle = np.array(upright) / 2 + np.array([[-3, 2], [4, -1]])
    points = middle / upright if is_normalized else middle
    moves = "shares" if is_normalized else "points"
    layout = parse_layout({
        "image": "image.encoded", "face": {"field": "columns.x1,x2,y1,y2", "type": "float", "moves": moves}
    })  # fmt: skip
    (face,) = (feature for feature in layout.features if feature.moves)
    face = dataclasses.replace(face, columns=("x1", "x2", "y1", "y2"), length=4)
    cells = dict(zip(face.columns, map(str, points.T.ravel()), strict=True))
    ref = SampleRef("a", one_image(None), columns=cells)
    moved = move_vectors(Layout((face,)), ref, geometry, None)["face"]
    keypoints = np.concatenate([middle, [[2], [2]]], axis=1).astype("<f4").tobytes()
    placed = place(boxed((0, 0, *upright), keypoints=(keypoints,)), geometry)
    np.testing.assert_allclose(np.reshape(moved, (2, 2)).T, placed.keypoints[0, :, :2], atol=1e-6)


INVALID = {
    "no width": (10, 10, 10, 20),
    "no height": (10, 10, 20, 10),
    "negative width": (20, 10, 10, 20),
    "left of the image": (-30, 10, -5, 20),
    "below the image": (10, 100, 20, 120),
    "not a number": (10, float("nan"), 20, 20),
    "infinite": (10, 10, float("inf"), 20),
}


@each("box", INVALID.values(), ids=INVALID)
def test_an_invalid_box_rejects_its_sample_or_is_dropped(box):
    with pytest.raises(SampleError, match=r"the box of 'dog' \(xmin.*200 x 100 pixels.*`invalid_boxes=drop`") as error:
        place(boxed((1, 1, 2, 2), box), GEOMETRY)
    assert error.value.reason is FailureReason.INVALID_BOX
    placed = place(boxed((20, 10, 40, 20), box, (0, 0, 200, 100)), GEOMETRY, invalid_boxes=InvalidBoxes.DROP)
    assert placed.boxes.tolist() == [[0.1, 0.1, 0.2, 0.2], [0, 0, 1, 1]]
    assert placed.class_names == ("cat", "rat")
    assert placed.index_columns == {"objects": 2, "objects_clipped": 0, "objects_outside": 0, "objects_invalid": 1}


DETECTION = ConvertSample(ImageSpec(image_size=(32, 32)), parse_layout("detection"), ClassNames(("cat", "dog", "rat")))


def test_an_image_without_an_id_has_its_key_as_one():
    picture = encoded(Image.new("RGB", (200, 100)), "PNG")
    sample = convert_one(DETECTION, SampleRef("a/1.png", one_image(None), objects=Objects()), {IMAGE: picture})
    assert parse_example(sample.example)["image/source_id"][1] == [b"a/1.png"]


def test_boxes_and_the_setting_for_invalid_ones_are_part_of_the_sample():
    ref = SampleRef("a/1.png", objects=boxed((0, 0, 100, 50)))
    others = [
        boxed((0, 0, 100, 51)),
        boxed((0, 0, 100, 50), values={"is_crowd": (1,)}),
        boxed((0, 0, 100, 50), size=(200, 100)),
        boxed((0, 0, 100, 50), image_id="1"),
        boxed((0, 0, 100, 50), polygons=(b"1",)),
        boxed((0, 0, 100, 50), keypoints=(b"1",)),
        boxed((0, 0, 100, 50), polygons=(b"1",), keypoints=(b"1",)),
        Objects(),
    ]
    changed = [dataclasses.replace(ref, objects=one) for one in others]
    hashes = {one for refs in RefColumns.of([ref, *changed]) for one in DETECTION.sample_hashes(refs)}
    for setting in ({"invalid_boxes": InvalidBoxes.DROP}, {"class_names": ClassNames(("dog", "cat", "rat"))}):
        hashes.update(dataclasses.replace(DETECTION, **setting).sample_hashes(RefColumns.of_one(ref)))
    assert len(hashes) == len(others) + 3


@each("orientation", range(1, 9))
@each("spec", [
    ImageSpec(image_size=(20, 20), resize_mode=ResizeMode.CROP),
    ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None),
    ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None, image_size=(20, 20)),
    ImageSpec(orientation=Metadata.IGNORE),
])  # fmt: skip
def test_an_example_whose_boxes_changed_is_made_anew_from_the_stored_image(spec, orientation):
    convert = dataclasses.replace(DETECTION, image=spec)
    data = file_of(Image.new("RGB", (60, 40), "red"), orientation, "JPEG")
    first = SampleRef("1.jpg", fingerprint="1", objects=boxed((0, 0, 20, 10)))
    changed = dataclasses.replace(first, objects=boxed((20, 10, 30, 35), (5, 0, 30, 20)))
    made = convert_one(convert, first, {IMAGE: data})
    anew = convert.reuse(changed, made.example, made.index_columns, whole=False)
    assert finish(convert, changed, anew) == convert_one(convert, changed, {IMAGE: data})
    assert finish(convert, first, convert.reuse(first, made.example, made.index_columns, whole=True)) == made
