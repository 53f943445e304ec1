"""Small plain PNGs: read and written without Pillow's parser and writer, to the same pixels, bytes and errors."""

from __future__ import annotations

import dataclasses
import functools
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.geometry.geometry import Geometry
from beam_tfrecords.transforms.images import convert_image as converting
from beam_tfrecords.transforms.images import decode
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.converted_image import ConvertedImage, PlacedPixels, encode
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.images.plain_png import encode_plain_png, parse_plain_png
from tests.each import each
from tests.image_checks import detailed, encoded
from tests.image_writers import PROPHOTO_COLORANTS, icc_profile, png_chunk, png_file

PNG = ImageSpec(image_encoding=ImageEncoding.PNG, channels=None)
KEEP = ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None)
SPECS = {
    "png": PNG,
    "cropped": dataclasses.replace(PNG, image_size=(5, 5)),
    "keep": KEEP,
    "keep, grey": dataclasses.replace(KEEP, channels=1),
    "truncated": dataclasses.replace(PNG, allow_truncated=True),
    "few pixels": dataclasses.replace(PNG, max_pixels=100),
    "little memory": dataclasses.replace(PNG, max_image_memory=1500),
}


saved = functools.partial(encoded, file_format="PNG")


def written(image: Image.Image) -> bytes:
    """The file that is stored of an image."""
    return encode(PlacedPixels(image, Geometry.unchanged(*image.size)), PNG).data


def noise(mode: str, width: int, height: int) -> Image.Image:
    shape = (height, width, len(mode)) if len(mode) > 1 else (height, width)
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8))


def outcome(data: bytes, spec: ImageSpec) -> tuple[object, ...]:
    """What becomes of a file: the image with what is measured of it, or why it is rejected."""
    try:
        converted = convert_image(data, spec)
    except SampleError as error:
        return error.reason, error.detail
    return converted, converted.quality


def outcome_of_pillow(data: bytes, spec: ImageSpec) -> tuple[object, ...]:
    """The same, read by Pillow's own reader."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (decode, converting):
            patch.setattr(module, "parse_plain_png", lambda *_: None)
        return outcome(data, spec)


@each("mode", ["L", "RGB", "RGBA"])
@each("size", [(1, 1), (32, 32), (100, 3), (1, 140)])
def test_it_is_read_and_written_as_by_pillow(mode: str, size: tuple[int, int]) -> None:
    for image in (noise(mode, *size), detailed(size[1], size[0]).convert(mode)):
        data = saved(image)
        png = parse_plain_png(data, PNG)
        assert png is not None
        loaded = png.load(PNG)
        assert loaded is not None
        assert (loaded.mode, loaded.size, loaded.tobytes()) == (image.mode, image.size, image.tobytes())
        assert encode_plain_png(loaded) == data


@each("side", [120, 139, 140, 141, 142, 160])
def test_pixels_that_need_several_chunks_are_written_by_pillow(side: int) -> None:
    image = noise("RGB", side, side)
    assert written(image) == saved(image)


@each("info", [{"transparency": (1, 2, 3)}, {"icc_profile": b"profile"}, {"dpi": (72, 72)}])
def test_what_pillow_stores_beside_the_pixels_is_stored(info: dict[str, object]) -> None:
    image = noise("RGB", 9, 9)
    image.info = info
    assert written(image) == saved(image)


ODD = {
    "palette": saved(noise("RGB", 20, 20).quantize(16)),
    "grey and alpha": saved(noise("RGBA", 20, 20).convert("LA")),
    "one bit": saved(noise("L", 20, 20).convert("1")),
    "16 bits": png_file(np.arange(400, dtype=np.uint16).reshape(20, 20)),
    "interlaced": png_file(np.asarray(noise("RGB", 20, 20)), interlaced=True),
    "transparency": png_file(np.asarray(noise("RGB", 20, 20)), chunks=[(b"tRNS", bytes(6))]),
    "gamma": png_file(np.asarray(noise("RGB", 20, 20)), chunks=[(b"gAMA", bytes(4))]),
    "short gamma": png_file(np.asarray(noise("RGB", 20, 20)), chunks=[(b"gAMA", b"")]),
    "two headers": png_file(np.asarray(noise("RGB", 20, 20)), chunks=[(b"IHDR", bytes(13))]),
    "profile": png_file(
        np.asarray(noise("RGB", 20, 20)),
        chunks=[(b"iCCP", b"x\0\0" + zlib.compress(icc_profile(PROPHOTO_COLORANTS, 1.8)))],
    ),
    "orientation behind the pixels": saved(noise("RGB", 20, 30))[:-12]
    + png_chunk(b"eXIf", b"MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0")
    + png_chunk(b"IEND", b""),
    "no pixels": saved(noise("L", 9, 9))[:33] + png_chunk(b"IEND", b""),
    "nothing": saved(noise("L", 9, 9))[:20],
    "bytes behind the end": saved(noise("L", 9, 9)) + b"more",
    "several chunks": saved(noise("L", 9, 9))[:33]
    + b"".join(png_chunk(b"IDAT", bytes([byte])) for byte in zlib.compress(bytes(90)))
    + png_chunk(b"IEND", b""),
    "too many pixels": png_file(np.zeros((9, 9), np.uint8)).replace(b"\0\0\0\x09", b"\x7f\0\0\x09"),
    "few rows": saved(noise("L", 9, 9))[:33] + png_chunk(b"IDAT", zlib.compress(bytes(30))) + png_chunk(b"IEND", b""),
    "more rows": saved(noise("L", 9, 9))[:33] + png_chunk(b"IDAT", zlib.compress(bytes(300))) + png_chunk(b"IEND", b""),
    "wrong checksum": saved(noise("L", 9, 9))[:33]
    + png_chunk(b"IDAT", zlib.compress(bytes(90))[:-1] + b"\7")
    + png_chunk(b"IEND", b""),
    "unknown filter in the last row": saved(noise("L", 9, 9))[:33]
    + png_chunk(b"IDAT", zlib.compress(bytes(80) + b"\5" * 10))
    + png_chunk(b"IEND", b""),
    "unknown filter": saved(noise("L", 9, 9))[:33]
    + png_chunk(b"IDAT", zlib.compress(b"\7" * 90))
    + png_chunk(b"IEND", b""),
}


@each("spec", SPECS.values(), ids=SPECS)
@each("data", ODD.values(), ids=ODD)
def test_odd_files_become_what_pillow_makes_of_them(data: bytes, spec: ImageSpec) -> None:
    assert outcome(data, spec) == outcome_of_pillow(data, spec)


@each("mode", ["L", "RGB", "RGBA"])
@each("spec", SPECS.values(), ids=SPECS)
def test_plain_files_become_what_pillow_makes_of_them(mode: str, spec: ImageSpec) -> None:
    data = saved(detailed(32, 32).convert(mode))
    assert outcome(data, spec) == outcome_of_pillow(data, spec)


@given(
    mode=st.sampled_from(["L", "RGB", "RGBA"]),
    place=st.integers(0, 10_000),
    byte=st.integers(0, 255),
    end=st.integers(0, 10_000),
    spec=st.sampled_from(list(SPECS.values())),
    right_checksum=st.booleans(),
)
def test_damaged_files_are_rejected_for_pillows_reason(
    *, mode: str, place: int, byte: int, end: int, spec: ImageSpec, right_checksum: bool
) -> None:
    whole = saved(detailed(16, 16).convert(mode))
    deflated = bytearray(whole[41:-16])
    deflated[place % len(deflated)] = byte
    if right_checksum:
        deflated = deflated[: end % (2 * len(deflated))]
        data = whole[:33] + png_chunk(b"IDAT", bytes(deflated)) + whole[-12:]
    else:
        data = (whole[:41] + deflated + whole[-16:])[: end % (2 * len(whole))]
    assert outcome(data, spec) == outcome_of_pillow(data, spec)


def test_limits_hold() -> None:
    data = saved(noise("RGB", 32, 32))
    assert outcome(data, SPECS["few pixels"])[0] is FailureReason.TOO_MANY_PIXELS
    assert outcome(data, SPECS["little memory"])[0] is FailureReason.TOO_MUCH_MEMORY
    assert isinstance(outcome(data, dataclasses.replace(PNG, max_image_memory=20_000))[0], ConvertedImage)
