"""A valid file of a kind that is not read is `unsupported_mode`; a damaged file of the same kind is not."""

from __future__ import annotations

import base64
import gzip
import io
import struct
import zipfile
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.formats import end_of_boxes, end_of_tiff
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from tests.each import each
from tests.image_checks import detailed, encoded
from tests.image_writers import avif_grid, png_file, tiff_file

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")

HEIGHT, WIDTH = 16, 24
PIXELS = np.asarray(detailed(HEIGHT, WIDTH))


def tiff_of(compression: int, pixels: bytes, *, channels: int = 3, bits: int = 8, **other: int) -> bytes:
    tags = {256: [WIDTH], 257: [HEIGHT], 258: [bits] * channels, 259: [compression], 262: [2], 277: [channels]}
    tags |= {278: [HEIGHT], **{int(name[1:]): [value] for name, value in other.items()}}
    return tiff_file(tags, pixels, strips=channels if other.get("t284") == 2 else 1)


def big_tiff(order: str) -> bytes:
    """A BigTIFF (Aperio's description of it) of one strip."""
    tags = {256: WIDTH, 257: HEIGHT, 258: 8, 259: 1, 262: 1, 273: 16, 277: 1, 278: HEIGHT, 279: HEIGHT * WIDTH}
    entries = b"".join(struct.pack(f"{order}HHQQ", tag, 16, 1, value) for tag, value in tags.items())
    start = (b"MM" if order == ">" else b"II") + struct.pack(f"{order}HHHQ", 43, 8, 0, 16 + HEIGHT * WIDTH)
    directory = struct.pack(f"{order}Q", len(tags)) + entries + bytes(8)
    return start + PIXELS[..., 0].tobytes() + directory


def grid_of(height: int, width: int, *, rows: int, columns: int) -> bytes:
    return avif_grid(encoded(detailed(height, width), "AVIF"), (height, width), rows=rows, columns=columns)


# 8 x 8 pixels in color.
JPEG2000_OF_12_BITS = (0, 2047, 4000, 4087, 4088, 4095, 9, 4095)
JPEG2000_OF_12_BITS = base64.b85decode(
    b"|4;u>051Rl000080000800000000000000800008000000000000RpF0Sf^E3jqQDQUDA90003200aa80smY81VCW_WB?@q0Yh?SVRU6=AYy"
    b"qSPjF>!N>D{dAa-SPb7^mGATlmBE;Rp;015yA0001m00IA#zyd%KP*k7a;M5Ube>hhV;%5T%qrm(BF-;bz3y>)6FJZ>lwYAiR!|Fud1R`+yk"
    b"vD+_u5!5UzF8e`Zur07;M5Ube>hhV;%5T%qrm(BF-;bz3y>)6FJZ>lwYAiR!|Fud1R`+ykvD+_u5!5UzF8e`Zur0d*#"
)
ORDINARY = {
    "BigTIFF": big_tiff("<"),
    "grid": grid_of(64, 64, rows=2, columns=3),
}
UNSUPPORTED = {
    "big-endian BigTIFF": big_tiff(">"),
    "WebP in TIFF": tiff_of(50001, encoded(Image.fromarray(PIXELS), "WEBP", lossless=True)),
    "JPEG XL in TIFF": tiff_of(50002, bytes(400)),
    "JPEG 2000 in TIFF": tiff_of(33003, encoded(Image.fromarray(PIXELS), "JPEG2000", no_jp2=True)),
    "LERC in TIFF": tiff_of(34887, bytes(400)),
    "RGB and infrared": tiff_of(1, bytes(HEIGHT * WIDTH * 4), channels=4, t338=0),
    "RGB of 16 bits and infrared": tiff_of(1, bytes(HEIGHT * WIDTH * 8), channels=4, bits=16, t338=0),
    "RGB, transparency and another": tiff_file(
        {256: [WIDTH], 257: [HEIGHT], 258: [8] * 5, 259: [1], 262: [2], 277: [5], 278: [HEIGHT], 338: [2, 0]},
        bytes(HEIGHT * WIDTH * 5),
    ),
    "CMYK and another": tiff_of(1, bytes(HEIGHT * WIDTH * 5), channels=5, t262=5, t338=0),
    "RGB apart": tiff_of(1, bytes(HEIGHT * WIDTH * 3), t284=2),
    "RGB apart of 16 bits in Deflate": tiff_of(8, zlib.compress(bytes(HEIGHT * WIDTH * 2)) * 3, bits=16, t284=2),
    "RGB and transparency apart": tiff_of(1, bytes(HEIGHT * WIDTH * 4), channels=4, t284=2, t338=2),
    "premultiplied RGB": tiff_of(1, bytes(HEIGHT * WIDTH * 4), channels=4, t338=1),
    "premultiplied RGB of 16 bits": tiff_of(1, bytes(HEIGHT * WIDTH * 8), channels=4, bits=16, t338=1),
    "premultiplied grey": tiff_of(1, bytes(HEIGHT * WIDTH * 2), channels=2, t262=1, t338=1),
    "CMYK of 16 bits apart": tiff_of(1, bytes(HEIGHT * WIDTH * 8), channels=4, bits=16, t262=5, t284=2),
    "CMYK apart with one more": tiff_of(1, bytes(HEIGHT * WIDTH * 5), channels=5, t262=5, t284=2, t338=0),
    "old JPEG in TIFF": tiff_of(6, encoded(Image.fromarray(PIXELS), "JPEG")[600:], t262=6),
    "fax of 8 bits": tiff_of(4, bytes(400), channels=1, t262=1),
    "RGB of 64 bits": tiff_of(1, bytes(HEIGHT * WIDTH * 24), bits=64),
    "12 bands": tiff_of(1, bytes(HEIGHT * WIDTH * 12), channels=12, t262=1),
    "grid of small tiles": grid_of(32, 48, rows=2, columns=2),
    "grid of odd tiles": grid_of(65, 65, rows=1, columns=2),
}

# Kinds that the first bytes tell, so that a cut file is one, too.
TOLD_BY_THE_HEADER = {
    "PNG with a transparent color of 48 bits": png_file(
        PIXELS * np.uint16(257), chunks=[(b"tRNS", struct.pack(">3H", 250, 0, 0))]
    ),
    "JPEG 2000 of 12 bits": JPEG2000_OF_12_BITS,
    "JPEG 2000 of 16 bits": cv2.imencode(".jp2", np.zeros((64, 64, 3), np.uint16))[1].tobytes(),
    "JPEG 2000 of 16 bits with transparency": cv2.imencode(".jp2", np.zeros((64, 64, 4), np.uint16))[1].tobytes(),
}


def reason_of(data: bytes) -> FailureReason | None:
    try:
        convert_image(data, ImageSpec(image_encoding=ImageEncoding.RAW))
    except SampleError as error:
        return error.reason
    return None


@each("name", UNSUPPORTED)
def test_a_valid_file_is_of_an_unsupported_mode_and_not_corrupt(name, capfd):
    assert reason_of(UNSUPPORTED[name]) is FailureReason.UNSUPPORTED_MODE
    assert capfd.readouterr() == ("", "")


@each("name", UNSUPPORTED)
def test_what_is_missing_from_it_makes_it_no_other_file(name):
    data = UNSUPPORTED[name]
    for end in (len(data) - 9, len(data) // 2, 40):
        if reason_of(data[:end]) is FailureReason.UNSUPPORTED_MODE:
            # Told from the first tags alone.
            assert name in ("big-endian BigTIFF", "CMYK apart with one more", "12 bands")


@each("data", TOLD_BY_THE_HEADER.values(), ids=TOLD_BY_THE_HEADER)
def test_deep_colors_that_pillow_reads_wrongly_are_rejected_however_they_are_stored(data):
    deep = ImageSpec(image_encoding=ImageEncoding.PNG, bit_depth=16)
    keep = ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None)
    for spec in (ImageSpec(), deep, keep):
        with pytest.raises(SampleError) as rejected:
            convert_image(data, spec)
        assert rejected.value.reason is FailureReason.UNSUPPORTED_MODE


@each("name", ORDINARY)
def test_a_valid_file_of_a_kind_that_is_read_is_read(name):
    assert reason_of(ORDINARY[name]) is None


@each("data", [*ORDINARY.values(), *UNSUPPORTED.values(), encoded(detailed(9, 9), "TIFF")])
def test_a_file_names_its_last_pixel_and_nothing_beyond(data):
    find_end = end_of_boxes if data[4:8] == b"ftyp" else end_of_tiff
    assert len(data) - 8 <= find_end(data) <= len(data)  # without the place of a next image
    for end in (len(data) - 9, len(data) // 2, 30):
        assert find_end(data[:end]) > end


def archived(kind: str) -> bytes:
    buffer = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("a.jpg", b"pixels")
    else:
        buffer.write(gzip.compress(b"pixels"))
    return buffer.getvalue()


PAGES = ("<!DOCTYPE html><title>404</title>", "<html lang=en>", "<?xml version='1.0'?><Error/>", "<head>", "<script>")
OTHER = {
    "a PDF document": [b"%PDF-1.7\n"],
    "a ZIP archive": [archived("zip")],
    "a GZIP file": [archived("gzip")],
    "JSON": [b'{"error": 404}'],
    "a Git LFS pointer": [b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n"],
    "an HTML or XML page": [
        before + change(page).encode()
        for page in PAGES
        for before in (b"", b"\n\t ", b"\xef\xbb\xbf\r\n")
        for change in (str.lower, str.upper)
    ],
    "every byte is zero": [bytes(1), bytes(1000)],
    "unknown image format": [b"a text", b"<", b"\0" * 8 + b"a"],
}


@each("kind", OTHER)
def test_what_is_no_image_is_named_by_its_first_bytes(kind):
    for data in OTHER[kind]:
        with pytest.raises(SampleError, match=kind) as raised:
            convert_image(data, ImageSpec())
        assert raised.value.reason is FailureReason.NOT_AN_IMAGE
