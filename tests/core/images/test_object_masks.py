"""Masks of objects: the stored pixels inside the polygons of objects."""

from __future__ import annotations

import io

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pycocotools import mask as coco

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.geometry.geometry import Geometry
from beam_tfrecords.transforms.blocks.place_objects import place_objects
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec, ResizeMode
from beam_tfrecords.transforms.images.object_masks import draw_polygons, find_outlines
from beam_tfrecords.transforms.images.orient import orient
from beam_tfrecords.transforms.objects.objects import InvalidBoxes, Objects
from beam_tfrecords.transforms.objects.polygons import pack_pixels, pack_runs, pack_segmentation, unpack_polygons
from tests.each import each
from tests.image_checks import encoded

UNMOVED = np.eye(3)[:2]


def regular(corners: int, center: tuple[float, float], radius: tuple[float, float], angle: float) -> np.ndarray:
    """[n, 2] a polygon without thin tips."""
    angles = angle + np.arange(corners) * 2 * np.pi / corners
    return center + np.array(radius) * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def grown(mask: np.ndarray, by: int) -> np.ndarray:
    return cv2.dilate(mask, np.ones((2 * by + 1, 2 * by + 1), np.uint8))


def are_near(one: np.ndarray, other: np.ndarray, by: int) -> bool:
    """Whether no pixel of one mask is farther than so many pixels from the other."""
    return not (one > grown(other, by)).any() and not (other > grown(one, by)).any()


shapes = st.tuples(
    st.integers(9, 16), st.floats(0.3, 0.7), st.floats(0.3, 0.7), st.floats(0.25, 0.45), st.floats(0.25, 0.45),
    st.floats(0, 6),
)  # fmt: skip


@given(
    shapes, st.integers(30, 90), st.integers(30, 90), st.integers(20, 70), st.integers(20, 70), st.booleans(),
    st.sampled_from(ResizeMode), st.sampled_from(Codec), st.booleans(), st.integers(1, 8),
    st.sampled_from(["JPEG", "PNG"]), st.sampled_from(ImageEncoding),
    st.sampled_from([
        "polygon", "shares", "compressed", "counts", "file", "runs", "mask", "mask in file", "panoptic",
        "panoptic in file",
    ]),
)  # fmt: skip
def test_a_painted_object_is_in_its_stored_mask(
    shape: tuple[int, float, float, float, float, float], height: int, width: int, target_height: int,
    target_width: int, resizes: bool, mode: ResizeMode, codec: Codec, upscale: bool, orientation: int,
    file_format: str, encoding: ImageEncoding, given_as: str,
) -> None:  # fmt: skip
    corners, x, y, x_radius, y_radius, angle = shape
    polygon = regular(corners, (x * width, y * height), (x_radius * width, y_radius * height), angle)
    picture = _paint(polygon, height, width)
    painted = (picture > 127).astype(np.uint8)
    spec = ImageSpec(
        image_size=(target_height, target_width) if resizes else None, resize_mode=mode, codec=codec, upscale=upscale,
        image_encoding=encoding, channels=None if encoding is ImageEncoding.KEEP else 3, jpeg_quality=100,
    )  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    back = {6: 8, 8: 6}.get(orientation, orientation)
    shown = picture if given_as in ("polygon", "shares") else 255 * painted
    turned = orient(Image.fromarray(shown).convert("RGB"), back)
    converted = convert_image(encoded(turned, file_format, exif=exif), spec)
    in_file = np.asarray(orient(Image.fromarray(painted), back))
    if given_as.endswith("file") and orientation != 1 and (orientation < 5 or width == height):
        return  # nothing tells it from a mask of the upright image
    segmentation = {
        "polygon": [polygon.ravel().tolist()],
        "shares": [(polygon / (width, height)).ravel().tolist()],
        "compressed": _compressed(painted),
        "counts": {"size": [height, width], "counts": _counts(painted)},
        "file": _compressed(in_file),  # by a program that shows the file as it is
    }.get(given_as)
    packed = {
        "runs": pack_runs(_runs(painted)),
        "mask": pack_pixels("mask"),
        "mask in file": pack_pixels("mask"),
        "panoptic": pack_pixels("mask", 70_001),
        "panoptic in file": pack_pixels("mask", 70_001),
    }.get(given_as, pack_segmentation(segmentation))
    pixels_of = in_file if given_as.endswith("in file") else painted
    scales = [70_001 >> shift & 255 for shift in (0, 8, 16)] if given_as.startswith("panoptic") else [255]
    pixels_of = np.squeeze(np.stack([pixels_of * np.uint8(scale) for scale in scales], axis=-1))
    box = (0, 0, *((1, 1) if given_as == "shares" else (width, height)))
    box = box if segmentation else (np.nan,) * 4
    objects = Objects(box, ("cat",), is_normalized=given_as == "shares", polygons=(packed,))
    assert converted.geometry
    geometry = converted.geometry.keeping(converted.kept_orientation)
    objects = find_outlines(objects, geometry, {"mask": encoded(Image.fromarray(pixels_of), "PNG")}, spec)
    placed = place_objects(
        objects, [(2, "cat")], geometry, invalid_boxes=InvalidBoxes.REJECT, with_masks=True, first_number=1
    )
    (data,) = placed.masks
    with Image.open(io.BytesIO(data)) as image:
        assert (image.format, image.mode, image.size) == ("PNG", "L", (converted.width, converted.height))
        mask = np.asarray(image)
    assert set(np.unique(mask)) <= {0, 1}
    np.testing.assert_array_equal(placed.numbers, mask * 3)
    if not segmentation:
        # The box is around the pixels, also after a crop.
        rows, columns = np.nonzero(mask)
        around = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        scale = max(abs(geometry.to_stored()[:, :2]).max(), 1)
        assert np.abs(placed.boxes[0] * ((converted.width, converted.height) * 2) - around).max() <= scale + 0.01
    if encoding is ImageEncoding.RAW:
        pixels = np.frombuffer(converted.data, np.uint8).reshape(converted.height, converted.width, -1)
    else:
        pixels = np.asarray(Image.open(io.BytesIO(converted.data)).convert("RGB"))
    # A pixel of the picture; where it is enlarged, one of the source.
    scale = max(abs(geometry.to_stored()[:, :2]).max(), 1)
    assert are_near(mask, (pixels[..., 0] > 128).astype(np.uint8), int(np.ceil(scale)))


def _paint(polygon: np.ndarray, height: int, width: int) -> np.ndarray:
    """[H, W] uint8: how much of every pixel is in the polygon."""
    large = np.zeros((16 * height, 16 * width), np.uint8)
    cv2.fillPoly(large, [np.round(16 * polygon).astype(int)], 255)
    return cv2.resize(large, (width, height), interpolation=cv2.INTER_AREA)


def _compressed(mask: np.ndarray) -> dict[str, object]:
    found = coco.encode(np.asfortranarray(mask))
    return {"size": list(mask.shape), "counts": found["counts"].decode()}


def _runs(mask: np.ndarray) -> str:
    pixels = np.concatenate([[0], mask.T.ravel(), [0]])
    runs = np.flatnonzero(pixels[1:] != pixels[:-1]) + 1
    runs[1::2] -= runs[::2]
    return " ".join(map(str, runs))


def _counts(mask: np.ndarray) -> list[int]:
    changes = np.flatnonzero(np.diff(mask.T.ravel(), prepend=0))
    return np.diff(np.concatenate([[0], changes, [mask.size]])).tolist()


@given(st.integers(3, 20), st.lists(st.floats(-80, 200), min_size=40, max_size=40))
def test_polygons_of_any_shape_have_the_pixels_whose_middles_they_enclose(corners, values):
    polygon = np.array(values[: 2 * corners], np.float32).reshape(-1, 2)
    mask = draw_polygons([polygon], UNMOVED, Geometry.unchanged(60, 100))
    # Even-odd, point by point.
    middles = np.stack(np.meshgrid(np.arange(100) + 0.5, np.arange(60) + 0.5), axis=-1).reshape(-1, 2)
    ends = np.roll(polygon, -1, axis=0).astype(float)
    crossings = np.zeros(len(middles), int)
    for (x1, y1), (x2, y2) in zip(polygon.astype(float), ends, strict=True):
        spans = (y1 > middles[:, 1]) != (y2 > middles[:, 1])
        with np.errstate(all="ignore"):
            crossings += spans & (middles[:, 0] >= x1 + (middles[:, 1] - y1) * (x2 - x1) / (y2 - y1))
    different = mask.ravel() != crossings % 2
    assert different.sum() <= 2  # middles on an edge, by rounding


@pytest.mark.nightly
def test_a_polygon_with_very_many_long_edges_takes_little_memory():
    zigzag = np.array([[n % 7, 0 if n % 2 else 1e30] for n in range(200_000)], float)
    mask = draw_polygons([zigzag], UNMOVED, Geometry.unchanged(100, 10))
    assert mask.shape == (100, 10)


@each("size", [[10, 11], [60_000, 70_000]])
def test_run_lengths_of_another_size_are_refused_before_they_are_unrolled(size):
    polygons = unpack_polygons(pack_segmentation({"size": size, "counts": [size[0] * size[1]]}))
    with pytest.raises(SampleError, match="which is not the size of its image") as refused:
        draw_polygons(polygons, UNMOVED, Geometry.unchanged(10, 10))
    assert refused.value.reason is FailureReason.INVALID_MASK


# Outlines that the image completes


def test_run_lengths_of_a_billion_pixels_take_no_memory_for_them():
    objects = Objects((np.nan,) * 4, ("a",), polygons=(pack_runs("1 1000000000"),))
    with pytest.raises(SampleError, match="a run ends at pixel 1,000,000,000, and the image of 100 x 60") as refused:
        find_outlines(objects, Geometry.unchanged(60, 100), {}, ImageSpec())
    assert refused.value.reason is FailureReason.INVALID_MASK


@pytest.mark.nightly
def test_the_masks_of_very_many_objects_are_refused_before_they_fill_the_memory():
    noise = np.random.default_rng(0).integers(0, 2, (1000, 1000), dtype=np.uint8)
    objects = Objects((np.nan,) * 40_000, ("a",) * 10_000, polygons=(pack_pixels("mask"),) * 10_000)
    with pytest.raises(SampleError, match="the masks of its objects take more than 64 MiB"):
        find_outlines(
            objects, Geometry.unchanged(1000, 1000), {"mask": encoded(Image.fromarray(noise), "PNG")}, ImageSpec()
        )


def test_a_mask_of_another_size_than_its_image_is_refused():
    objects = Objects((np.nan,) * 4, ("a",), polygons=(pack_pixels("mask"),))
    mask = encoded(Image.fromarray(np.ones((9, 8), np.uint8)), "PNG")
    with pytest.raises(SampleError, match=r"has 8 x 9 pixels .*, and its image 9 x 9"):
        find_outlines(objects, Geometry.unchanged(9, 9), {"mask": mask}, ImageSpec())
