"""Arrays have the numbers of their files, moved and resized like images, each channel alone."""

from __future__ import annotations

import io
import math
import tracemalloc

import numpy as np
import pytest
from PIL import Image

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.images.convert_array import convert_array, join_bands, read_array
from beam_tfrecords.transforms.images.image_spec import ArrayType, Axes, ImageEncoding, ImageSpec, Resample, ResizeMode
from beam_tfrecords.transforms.images.memory import array_memory
from beam_tfrecords.transforms.images.raw_pixels import as_file
from beam_tfrecords.transforms.images.resize import resize_array
from tests.pixel_files import npy_of
from tests.tiff_files import tiff_of

FILTERED = [one for one in Resample if one is not Resample.NEAREST]


def noise(dtype: str, *shape: int) -> np.ndarray:
    numbers = np.random.default_rng(3).integers(0, 65_536, shape)
    return (numbers >> 8).astype(dtype) if dtype == "uint8" else numbers.astype(dtype)


def spec_of(dtype: str, **settings) -> ImageSpec:
    return ImageSpec(image_encoding=ImageEncoding.RAW, channels=None, array_type=ArrayType(dtype), **settings)


def stored(data: bytes, spec: ImageSpec) -> np.ndarray:
    made = convert_array(data, spec)
    return np.frombuffer(made.data, np.dtype(made.dtype).newbyteorder("<")).reshape(
        made.height, made.width, made.channels
    )


@pytest.mark.parametrize("resample", FILTERED)
@pytest.mark.parametrize("size", [(9, 80), (90, 11), (41, 67), (1, 1)])
def test_floats_are_resized_as_pillow_does(resample, size):
    pixels = (noise("float32", 41, 67) / 1000).astype(np.float32)
    expected = np.asarray(Image.fromarray(pixels).resize(size[::-1], Image.Resampling[resample.name]))
    np.testing.assert_allclose(resize_array(pixels, *size, resample), expected, atol=1e-3)


def test_a_missing_number_spreads_only_as_far_as_the_filter_reaches():
    pixels = np.zeros((40, 40), np.float32)
    pixels[20, 20] = np.nan
    missing = np.isnan(resize_array(pixels, 20, 20, Resample.BILINEAR))
    assert 0 < missing.sum() <= 9


@pytest.mark.parametrize("pixels", [np.zeros(5), np.zeros((2, 3, 4, 5)), np.zeros((3, 0)), np.zeros((3, 3), complex)])
def test_other_npy_files_are_rejected(pixels):
    with pytest.raises(SampleError, match=r"a \.npy file of shape"):
        read_array(npy_of(pixels), ImageSpec())


def test_a_cut_npy_file_is_truncated():
    data = npy_of(noise("uint16", 12, 9, 7))
    for size in (8, 50, len(data) - 1):
        with pytest.raises(SampleError):
            read_array(data[:size], ImageSpec())


@pytest.mark.parametrize(
    ("found", "wanted", "holds"),
    [
        ("uint8", "uint16", True),
        ("uint16", "float32", True),
        ("int16", "float32", True),
        ("float64", "float32", True),
        ("uint16", "uint8", False),
        ("int16", "uint16", False),
        ("int32", "float32", False),
        ("float32", "uint16", False),
    ],
)
def test_numbers_are_stored_as_types_that_hold_them(found, wanted, holds):
    pixels = noise("uint8", 12, 9, 7).astype(found)
    if holds:
        np.testing.assert_array_equal(stored(npy_of(pixels), spec_of(wanted)), pixels)
        return
    with pytest.raises(SampleError, match=f"numbers of type {found}, which `array_type={wanted}` does not hold"):
        convert_array(npy_of(pixels), spec_of(wanted))


def test_images_of_8_and_16_bits_are_arrays_too():
    color, depth = noise("uint8", 20, 30, 3), noise("uint16", 20, 30)
    files = []
    for pixels in (color, depth):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        files.append(file.getvalue())
    np.testing.assert_array_equal(stored(files[0], spec_of("uint8")), color)
    np.testing.assert_array_equal(stored(files[1], spec_of("uint16"))[..., 0], depth)
    spec = spec_of("uint16")
    joined = join_bands(
        {name: convert_array(file, spec) for name, file in zip(("rgb", "depth"), files, strict=True)}, spec
    )
    np.testing.assert_array_equal(
        np.frombuffer(joined.data, "<u2").reshape(20, 30, 4), np.dstack([color, depth[..., np.newaxis]])
    )


@pytest.mark.parametrize("channels", [1, 13])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_no_array_takes_more_memory_than_estimated(channels, dtype):
    pixels = noise(dtype, 200, 300, channels)
    for size in (None, (150, 100), (400, 500)):
        sized = {"image_size": size, "resize_mode": ResizeMode.EXACT} if size else {}
        for data in (tiff_of(pixels, planar=True, tags={274: 6}), npy_of(pixels if channels > 1 else pixels[..., 0])):
            largest = max(200 * 300, math.prod(size or (0,)))
            tracemalloc.start()
            convert_array(data, spec_of(dtype, **sized, resample=Resample.LANCZOS))
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < len(data) + array_memory(largest, channels, pixels.itemsize)


@pytest.mark.parametrize("shape", [(5, 4, 9), (20, 30, 2)])
def test_files_of_arrays_of_ours_have_no_unclear_axes(shape):
    pixels = noise("uint16", *shape)
    file = as_file(pixels.tobytes(), shape=shape, axes="HWC", dtype="<u2")
    np.testing.assert_array_equal(read_array(file, ImageSpec(array_axes=Axes.CHW)).pixels, pixels)
