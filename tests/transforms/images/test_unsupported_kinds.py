"""A valid file of a kind that is not read is `unsupported_mode`; a damaged file of the same kind is not."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from PIL import Image

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.images.whole_files import is_whole
from tests.image_checks import detailed, encoded
from tests.image_writers import box, boxes_of, tiff_file

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


def avif_grid(tile: Image.Image, rows: int, columns: int) -> bytes:
    """An AVIF whose image is a grid (ISO/IEC 23008-12, 6.6.2.3), each tile of it the same."""
    made = encoded(tile, "AVIF")
    top = boxes_of(made)
    properties = boxes_of(boxes_of(boxes_of(top[b"meta"][4:])[b"iprp"])[b"ipco"])
    count, grid = (
        rows * columns,
        struct.pack(">4B2H", 0, 0, rows - 1, columns - 1, columns * tile.width, rows * tile.height),
    )
    sizes = [struct.pack(">3I", 0, columns * tile.width, rows * tile.height), properties[b"ispe"]]
    shared = [box(b"ispe", size) for size in sizes] + [box(kind, properties[kind]) for kind in (b"pixi", b"av1C")]
    tiles = range(2, count + 2)
    of_items = [struct.pack(">HB2B", 1, 2, 1, 3), *(struct.pack(">HB3B", item, 3, 2, 3, 0x84) for item in tiles)]
    items = [box(b"infe", struct.pack(">I2H4sB", 2 << 24, 1, 0, b"grid", 0))]
    items += [box(b"infe", struct.pack(">I2H4sB", (2 << 24) + 1, item, 0, b"av01", 0)) for item in tiles]

    def start(at: int) -> bytes:
        places = [struct.pack(">4H2I", 1, 1, 0, 1, 0, len(grid))]
        places += [struct.pack(">4H2I", item, 0, 0, 1, at, len(top[b"mdat"])) for item in tiles]
        meta = [
            box(b"hdlr", bytes(8) + b"pict" + bytes(13)),
            box(b"pitm", struct.pack(">IH", 0, 1)),
            box(b"iloc", struct.pack(">I2BH", 1 << 24, 0x44, 0, count + 1) + b"".join(places)),
            box(b"iinf", struct.pack(">IH", 0, count + 1) + b"".join(items)),
            box(b"iref", bytes(4) + box(b"dimg", struct.pack(f">2H{count}H", 1, count, *tiles))),
            box(
                b"iprp",
                box(b"ipco", b"".join(shared)) + box(b"ipma", struct.pack(">2I", 0, count + 1) + b"".join(of_items)),
            ),
            box(b"idat", grid),
        ]
        return box(b"ftyp", b"avif\0\0\0\0avifmif1miafMA1B") + box(b"meta", bytes(4) + b"".join(meta))

    return start(len(start(0)) + 8) + box(b"mdat", top[b"mdat"])


ORDINARY = {
    "BigTIFF": big_tiff("<"),
    "grid": avif_grid(detailed(64, 64), 2, 3),
}
UNSUPPORTED = {
    "big-endian BigTIFF": big_tiff(">"),
    "WebP in TIFF": tiff_of(50001, encoded(Image.fromarray(PIXELS), "WEBP", lossless=True)),
    "JPEG XL in TIFF": tiff_of(50002, bytes(400)),
    "JPEG 2000 in TIFF": tiff_of(33003, encoded(Image.fromarray(PIXELS), "JPEG2000", no_jp2=True)),
    "LERC in TIFF": tiff_of(34887, bytes(400)),
    "CMYK of 16 bits apart": tiff_of(1, bytes(HEIGHT * WIDTH * 8), channels=4, bits=16, t262=5, t284=2),
    "CMYK apart with one more": tiff_of(1, bytes(HEIGHT * WIDTH * 5), channels=5, t262=5, t284=2, t338=0),
    "old JPEG in TIFF": tiff_of(6, encoded(Image.fromarray(PIXELS), "JPEG")[600:], t262=6),
    "fax of 8 bits": tiff_of(4, bytes(400), channels=1, t262=1),
    "RGB of 64 bits": tiff_of(1, bytes(HEIGHT * WIDTH * 24), bits=64),
    "12 bands": tiff_of(1, bytes(HEIGHT * WIDTH * 12), channels=12, t262=1),
    "grid of small tiles": avif_grid(detailed(32, 48), 2, 2),
    "grid of odd tiles": avif_grid(detailed(65, 65), 1, 2),
}


def reason_of(data: bytes) -> FailureReason | None:
    try:
        convert_image(data, ImageSpec(image_encoding=ImageEncoding.RAW))
    except SampleError as error:
        return error.reason
    return None


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_valid_file_is_of_an_unsupported_mode_and_not_corrupt(name, capfd):
    assert reason_of(UNSUPPORTED[name]) is FailureReason.UNSUPPORTED_MODE
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_is_missing_from_it_makes_it_no_other_file(name):
    data = UNSUPPORTED[name]
    for end in (len(data) - 9, len(data) // 2, 40):
        if reason_of(data[:end]) is FailureReason.UNSUPPORTED_MODE:
            # Told from the first tags alone.
            assert name in ("big-endian BigTIFF", "CMYK apart with one more", "12 bands")


@pytest.mark.parametrize("name", ORDINARY)
def test_a_valid_file_of_a_kind_that_is_read_is_read(name):
    assert reason_of(ORDINARY[name]) is None


@pytest.mark.parametrize("data", [*ORDINARY.values(), *UNSUPPORTED.values(), encoded(detailed(9, 9), "TIFF")])
def test_a_file_is_whole_with_its_last_pixel_and_not_before(data):
    name = "avif" if data[4:8] == b"ftyp" else "tiff"
    assert is_whole(data, name)
    assert not is_whole(data[: len(data) // 2], name)
    assert not is_whole(data[:30], name)
