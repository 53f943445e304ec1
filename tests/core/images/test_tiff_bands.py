"""TIFF files with any number of channels are read as they are stored, or rejected."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.transforms.images.convert_array import read_array
from beam_tfrecords.transforms.images.image_spec import ImageSpec, Pages
from tests.tiff_files import DEFLATE, LZW, PACKBITS, tiff_of


def pixels_of(dtype: str, channels: int, shape: tuple[int, int] = (37, 21)) -> np.ndarray:
    numbers = np.random.default_rng(7).integers(0, 60_000, (*shape, channels))
    return (numbers % 251).astype(dtype) if dtype.endswith("8") else numbers.astype(dtype)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "uint32", "float32", "float64"])
@pytest.mark.parametrize("channels", [1, 2, 5, 13])
def test_every_type_and_number_of_channels_is_read(dtype, channels):
    pixels = pixels_of(dtype, channels)
    for planar, order in itertools.product([False, True], "<>"):
        read, orientation, _ = read_array(tiff_of(pixels, planar=planar, order=order), ImageSpec())
        assert (read.dtype, orientation) == (pixels.dtype, 1)
        np.testing.assert_array_equal(read, pixels)


@pytest.mark.parametrize("compression", [1, LZW, DEFLATE, PACKBITS])
@pytest.mark.parametrize(("dtype", "predictor"), [("uint8", 2), ("uint16", 2), ("float32", 2), ("float32", 3)])
@pytest.mark.parametrize("tile", [None, (16, 32)])
def test_every_compression_and_predictor_is_read(compression, dtype, predictor, tile):
    pixels = pixels_of(dtype, 5)
    for planar, order, used in itertools.product([False, True], "<>", {1, predictor}):
        file = tiff_of(pixels, planar=planar, compression=compression, predictor=used, order=order, tile=tile)
        np.testing.assert_array_equal(read_array(file, ImageSpec())[0], pixels)


def test_pages_of_several_sizes_are_no_bands():
    file = tiff_of(pixels_of("uint8", 1), pixels_of("uint8", 1, (20, 20)))
    with pytest.raises(SampleError, match="pages of 20 x 20 of uint8 and 37 x 21 of uint8"):
        read_array(file, ImageSpec(pages=Pages.BANDS))


@pytest.mark.parametrize("subfile", [1, 4])
def test_overviews_and_masks_of_transparency_are_no_pages(subfile):
    pixels = pixels_of("uint16", 4)
    file = tiff_of(pixels, pixels[::2, ::2], later_tags={254: subfile})
    np.testing.assert_array_equal(read_array(file, ImageSpec())[0], pixels)


@pytest.mark.parametrize(
    ("tags", "detail"),
    [
        ({262: 3}, "photometric 3"),
        ({262: 0}, "photometric 0"),
        ({266: 2}, "fill order 2"),
        ({259: 7}, "arrays are read from uncompressed ones"),
        ({317: 3}, "predictor 3 for uint16"),
        ({258: 12}, r"bits \[12\]"),
    ],
)
def test_other_kinds_are_rejected(tags, detail):
    with pytest.raises(SampleError, match=detail) as raised:
        read_array(tiff_of(pixels_of("uint16", 1), tags=tags), ImageSpec())
    assert raised.value.reason is FailureReason.UNSUPPORTED_MODE


@pytest.mark.parametrize("compression", [1, LZW, DEFLATE, PACKBITS])
def test_a_cut_file_is_truncated(compression):
    file = tiff_of(pixels_of("uint16", 5), compression=compression)
    for size in range(9, len(file), 97):
        with pytest.raises(SampleError) as raised:
            read_array(file[:size], ImageSpec())
        assert raised.value.reason is FailureReason.TRUNCATED, (size, raised.value)


def test_damaged_deflate_data_is_noticed():
    file = bytearray(tiff_of(pixels_of("uint8", 5), compression=DEFLATE))
    file[60] ^= 1
    with pytest.raises(SampleError):
        read_array(bytes(file), ImageSpec())


def test_large_files_are_rejected_before_they_are_decoded():
    file = tiff_of(pixels_of("uint16", 13))
    with pytest.raises(SampleError) as raised:
        read_array(file, ImageSpec(max_pixels=100))
    assert raised.value.reason is FailureReason.TOO_MANY_PIXELS
    with pytest.raises(SampleError) as raised:
        read_array(file, ImageSpec(max_image_memory=10_000))
    assert raised.value.reason is FailureReason.TOO_MUCH_MEMORY
