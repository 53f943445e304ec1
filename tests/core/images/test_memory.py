"""No file takes more memory than `max_image_memory` and a constant. Every file is converted in a new process."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image, ImageCms

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.transforms.images.convert_image import convert_image, read_header
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from tests.image_checks import detailed, encoded
from tests.image_writers import png_chunk, png_file, tiff_file

# Bytes that a process takes beyond the estimate: libraries, and freed memory that it keeps (`prepare_process`).
CONSTANT = 60_000_000
SIDE = 1600


def run(jobs: list[tuple[Path, dict]], *flags: str) -> list:
    program = [sys.executable, "-m", "tests.core.images.peak_memory", *flags]
    job_list = json.dumps([(str(path), words) for path, words in jobs])
    ran = subprocess.run(program, input=job_list, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ran.stdout)


def webp_bomb(width: int, height: int) -> bytes:
    """A lossless WebP of one color: five codes of one symbol each (RFC 9649, section 3.7), so no bits per pixel."""
    bits = f"{width - 1:014b}"[::-1] + f"{height - 1:014b}"[::-1] + "1" + "000" + "000" + "1000" * 5
    body = b"\x2f" + bytes(int(bits[at : at + 8][::-1], 2) for at in range(0, len(bits), 8)) + b"\0"
    chunk = b"VP8L" + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk


def jpeg2000_bomb(side: int) -> bytes:
    data = encoded(Image.new("RGB", (64, 64)), "JPEG2000")
    for field in (struct.pack(">2I", 64, 64), struct.pack(">4I", 64, 64, 0, 0)):
        data = data.replace(field, field.replace(struct.pack(">I", 64), struct.pack(">I", side)))
    return data


def avif_bomb(side: int) -> bytes:
    ispe = b"ispe\0\0\0\0"
    small, large = (ispe + struct.pack(">2I", size, size) for size in (64, side))
    return encoded(Image.new("RGB", (64, 64)), "AVIF").replace(small, large)


def png_of(side: int, color_type: int, depth: int = 8) -> bytes:
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color_type]
    packer, rows = zlib.compressobj(1), []
    for _ in range(side):
        rows.append(packer.compress(bytes(1 + side * channels * depth // 8)))
    rows.append(packer.flush())
    header = struct.pack(">IIBBBBB", side, side, depth, color_type, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", b"".join(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(*chunk) for chunk in chunks)


@pytest.fixture(scope="module")
def kinds() -> dict[str, bytes]:
    """Valid files of SIDE x SIDE pixels."""
    rgb = detailed(SIDE // 4, SIDE // 4).resize((SIDE, SIDE), Image.Resampling.NEAREST)
    grey, rgba = rgb.convert("L"), rgb.copy()
    rgba.putalpha(grey)
    wide = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257)
    deep = np.asarray(rgba).astype(np.uint16) * 257
    floats = Image.fromarray(np.asarray(grey).astype(np.float32) * 2.5)
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    images: dict[str, tuple[Image.Image, str, dict]] = {
        "jpeg": (rgb, "JPEG", {}),
        "jpeg progressive 4:4:4": (rgb, "JPEG", {"progressive": True, "subsampling": 0}),
        "jpeg progressive cmyk": (rgb.convert("CMYK"), "JPEG", {"progressive": True}),
        "jpeg grey": (grey, "JPEG", {}),
        "png grey": (grey, "PNG", {}),
        "png with alpha": (rgba, "PNG", {"icc_profile": lab}),
        "png with two channels": (rgba.convert("LA"), "PNG", {}),
        "png with a palette": (rgb.quantize(64), "PNG", {"transparency": 3}),
        "png of 16 bits": (wide, "PNG", {"transparency": 3}),
        "gif": (rgb.quantize(64), "GIF", {}),
        "bmp": (rgb, "BMP", {}),
        "tiff of one strip": (rgb, "TIFF", {"compression": "tiff_adobe_deflate", "strip_size": 1 << 30}),
        "tiff of strips": (rgb, "TIFF", {"compression": "tiff_lzw"}),
        "tiff of floats": (floats, "TIFF", {}),
        "webp": (rgb, "WEBP", {"method": 0}),
        "webp lossless": (rgba, "WEBP", {"lossless": True, "method": 0, "quality": 0}),
        "jpeg2000": (rgb, "JPEG2000", {}),
        "jpeg2000 of tiles": (rgba, "JPEG2000", {"tile_size": (512, 512)}),
        "avif": (rgba, "AVIF", {"speed": 10, "subsampling": "4:4:4"}),
        "ppm": (rgb, "PPM", {}),
    }
    files = {name: encoded(image, file_format, **options) for name, (image, file_format, options) in images.items()}
    files["png of 16 bits in color"] = png_file(deep)
    four = {256: [SIDE], 257: [SIDE], 259: [1], 262: [2], 277: [4], 278: [SIDE]}
    files["tiff of 16 bits with alpha"] = tiff_file({**four, 258: [16] * 4, 338: [2]}, deep.tobytes(), long_tags=(278,))
    files["jpeg2000 of 16 bits"] = cv2.imencode(".jp2", deep[..., 0])[1].tobytes()
    files["png interlaced"] = png_file(np.asarray(rgb), interlaced=True)
    return files


# One kind of each decoder, that which takes the most: what is done with the pixels does not depend on the kind.
ONE_OF_EACH = (
    "jpeg progressive cmyk",
    "png with alpha",
    "png of 16 bits",
    "png of 16 bits in color",
    "gif",
    "bmp",
    "tiff of floats",
    "tiff of 16 bits with alpha",
    "webp lossless",
    "jpeg2000 of tiles",
    "avif",
)
# Of those, where encoding takes seconds: with alpha, of 16 bits, and neither.
ONE_OF_EACH_RESULT = ("png of 16 bits in color", "tiff of floats", "webp lossless")


@pytest.mark.nightly
@pytest.mark.parametrize(
    "words",
    [
        {},
        {"image_encoding": "raw"},
        {"image_encoding": "webp", "channels": "4"},
        {"image_encoding": "keep", "channels": "keep"},
        {"image_size": "1800", "codec": "exact"},
        {"image_size": "1700", "resize_mode": "pad", "channels": "4", "image_encoding": "png"},
        {"image_size": "1700", "resize_mode": "pad", "channels": "4", "image_encoding": "png", "bit_depth": "16"},
        {"channels": "3", "image_encoding": "png", "bit_depth": "16"},
    ],
    ids=str,
)
def test_the_estimate_is_what_a_file_takes(kinds: dict[str, bytes], words: dict, tmp_path: Path) -> None:
    is_slow = words.get("image_encoding") in ("png", "webp")
    names = ONE_OF_EACH_RESULT if is_slow else ONE_OF_EACH if words else tuple(kinds)
    for name in names:
        (tmp_path / name).write_bytes(kinds[name])
    jobs = [(tmp_path / name, words) for name in names]
    for name, (peak, outcome, limit) in zip(names, run(jobs), strict=True):
        assert outcome == "ok", name
        assert peak <= limit * 10**6 + CONSTANT, name
        # The estimate of a JPEG 2000 is that of a single tile.
        if not words and name.startswith(("jpeg", "png")) and name != "jpeg2000 of tiles":
            assert limit * 10**6 <= 1.5 * peak, name


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: webp_bomb(16_383, 10_900), "too_much_memory"),
        (lambda: webp_bomb(16_383, 16_383), "too_many_pixels"),
        (lambda: jpeg2000_bomb(13_000), "too_much_memory"),
        (lambda: avif_bomb(12_000), "too_much_memory"),
        (lambda: png_of(13_377, 2), "ok"),
        (lambda: png_of(13_377, 6), "too_much_memory"),
        (lambda: encoded(Image.new("L", (13_377, 13_377)), "JPEG"), "ok"),
        (lambda: cv2.imencode(".jpg", np.zeros((13_000, 13_000, 3), np.uint8))[1].tobytes(), "ok"),
    ],
    ids=["webp", "webp too large", "jpeg2000", "avif", "png", "png with alpha", "jpeg grey", "jpeg"],
)
def test_no_file_takes_more_than_the_default_and_300_megabytes(
    make: Callable[[], bytes], reason: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(make())
    ((peak, outcome),) = run([(tmp_path / "file", {})], "--once")
    assert outcome.split(":")[0] == reason
    assert peak <= 1_300_000_000


def test_the_detail_has_the_estimate_and_the_limit() -> None:
    with pytest.raises(SampleError) as rejected:
        convert_image(webp_bomb(10_000, 10_000), ImageSpec())
    assert rejected.value.reason is FailureReason.TOO_MUCH_MEMORY
    assert "10000 x 10000" in rejected.value.detail
    assert " MB of memory; the limit is `max_image_memory=1000000000`" in rejected.value.detail
    assert convert_image(webp_bomb(1000, 1000), ImageSpec(image_size=(8, 8))).height == 8


def test_a_file_that_is_not_decoded_needs_no_memory() -> None:
    data = encoded(Image.new("L", (3000, 3000)), "PNG")
    assert read_header(data, ImageSpec(max_image_memory=1000)).height == 3000


def test_a_ppm_whose_header_does_not_end_is_rejected_at_once() -> None:
    for junk in (b"#" + b"x" * 200_000_000 + b"\n", b" " * 10_000_000, b"#\n" * 5_000_000):
        with pytest.raises(SampleError) as rejected:
            convert_image(b"P4\n" + junk + b"8 1\n\0", ImageSpec())
        assert rejected.value.reason is FailureReason.CORRUPT
    assert convert_image(b"P4\n#" + b"x" * 60_000 + b"\n8 1\n\0", ImageSpec()).width == 8


def test_memory_of_a_truncated_file_is_freed_before_it_is_decoded_again(tmp_path: Path) -> None:
    file = io.BytesIO()
    Image.new("RGB", (6000, 6000)).save(file, "BMP")
    (tmp_path / "file").write_bytes(file.getvalue()[:-100_000])
    ((peak, outcome),) = run([(tmp_path / "file", {"allow_truncated": "true", "image_size": "64"})], "--once")
    assert outcome == "ok"
    assert peak <= 108_000_000 + 144_000_000 + CONSTANT
