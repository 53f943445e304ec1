"""Feeds mutated image files to `convert_image`, which must return an image or raise a `SampleError`.

    python -m tests.core.images.fuzz_images --inputs=200000 --seed=1 --only=tiff

Input number i depends on the seed and on `--only` alone, so `--first=i --inputs=1` reproduces a failure. Prints a
count per outcome, the slowest input and the peak of memory; the exit code is 1 if anything but a `SampleError` was
raised. If a decoder crashes the process, faulthandler shows where; one that does not end within 30 seconds ends it.
"""

from __future__ import annotations

import argparse
import dataclasses
import faulthandler
import io
import resource
import struct
import sys
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Iterator

import cv2
import numpy as np
from PIL import Image

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.converted_image import ConvertedImage
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec, ResizeMode
from beam_tfrecords.transforms.images.masks import read_mask
from beam_tfrecords.transforms.processes.isolation import TimeLimit
from beam_tfrecords.transforms.processes.worker import prepare_process
from tests.image_checks import encoded, lossless_jpeg
from tests.image_writers import P3_COLORANTS, avif_grid, bmp_rle8, icc_profile, png_file, png_packed, tiff_file

SPECS = (
    ImageSpec(image_size=(24, 24)),
    ImageSpec(image_size=(17, 9), resize_mode=ResizeMode.EXACT, codec=Codec.EXACT, image_encoding=ImageEncoding.RAW),
    ImageSpec(channels=None, image_encoding=ImageEncoding.PNG),
    ImageSpec(image_size=(24, 24), channels=4, image_encoding=ImageEncoding.PNG, bit_depth=16),
    ImageSpec(image_size=(32, 20), resize_mode=ResizeMode.PAD, channels=1, allow_truncated=True),
    ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None),
    ImageSpec(
        image_size=(20, 30), resize_mode=ResizeMode.CROP, image_encoding=ImageEncoding.WEBP, allow_truncated=True
    ),
)
# Small, so that hardly any mutated header makes an input take seconds; the limit of pixels is the default.
_MAX_MEMORY = 300_000_000
_SECONDS = 30
_INTERESTING = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 63) - 1, (1 << 64) - 1)
_LAYOUTS = ("<B", "<H", ">H", "<I", ">I", "<Q", ">Q")


def seed_files() -> dict[str, bytes]:
    """Small valid files of every format and of most modes."""
    rng = np.random.default_rng(0)
    smooth = np.kron(rng.integers(0, 256, (5, 6, 4), np.uint8), np.ones((8, 8, 1), np.uint8))
    rgba = Image.fromarray(smooth)
    rgb, grey = rgba.convert("RGB"), rgba.convert("L")
    deep = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257)
    floats = Image.fromarray(np.asarray(grey).astype(np.float32) / 255)
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "maker"
    wide = icc_profile(P3_COLORANTS, 2.2)
    palette, frames = rgb.quantize(16), [rgb.quantize(16).rotate(90 * turn) for turn in range(3)]
    files = {
        "jpeg": encoded(rgb, "JPEG", exif=exif),
        "jpeg_progressive": encoded(rgb, "JPEG", progressive=True, subsampling=0),
        "jpeg_grey": encoded(grey, "JPEG"),
        "jpeg_cmyk": encoded(rgb.convert("CMYK"), "JPEG"),
        "jpeg_restart": encoded(rgb, "JPEG", restart_marker_blocks=2),
        "jpeg_profile": encoded(rgb, "JPEG", icc_profile=wide),
        "png_rgb": encoded(rgb, "PNG", exif=exif),
        "png_rgba": encoded(rgba, "PNG"),
        "png_la": encoded(rgba.convert("LA"), "PNG"),
        "png_palette": encoded(palette, "PNG", transparency=3),
        "png_16": encoded(deep, "PNG"),
        "png_1": encoded(grey.convert("1"), "PNG"),
        "apng": encoded(frames[0], "PNG", save_all=True, append_images=frames[1:]),
        "gif": encoded(palette, "GIF", transparency=2),
        "gif_animated": encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]),
        "webp": encoded(rgb, "WEBP", exif=exif),
        "webp_lossless": encoded(rgba, "WEBP", lossless=True),
        "webp_animated": encoded(frames[0], "WEBP", save_all=True, append_images=frames[1:]),
        "tiff": encoded(rgb, "TIFF", exif=exif),
        "tiff_profile": encoded(grey, "TIFF", icc_profile=icc_profile(None, 1.8)),
        "tiff_lzw": encoded(rgb, "TIFF", compression="tiff_lzw"),
        "tiff_deflate": encoded(deep, "TIFF", compression="tiff_adobe_deflate"),
        "tiff_jpeg": encoded(rgb, "TIFF", compression="jpeg"),
        "tiff_float": encoded(floats, "TIFF"),
        "tiff_group4": encoded(grey.convert("1"), "TIFF", compression="group4"),
        "tiff_cmyk": encoded(rgb.convert("CMYK"), "TIFF", compression="packbits"),
        "tiff_big": encoded(rgb, "TIFF", big_tiff=True, exif=exif),
        "tiff_big_lzw": encoded(rgba, "TIFF", big_tiff=True, compression="tiff_lzw", icc_profile=wide),
        "bmp": encoded(rgb, "BMP"),
        "bmp_palette": encoded(palette, "BMP"),
        "avif": encoded(rgba, "AVIF"),
        "ppm": encoded(rgb, "PPM"),
        "pgm_text": b"P2\n3 2\n255\n0 50 100\n150 200 250\n",
        "jpeg2000": encoded(rgb, "JPEG2000"),
    }
    files |= {
        "png_2_bit_key": png_packed(smooth[..., :1] >> 6, 0, 2, struct.pack(">H", 2)),
        "png_16_bit_key": png_file(smooth[..., :1] * np.uint16(257), chunks=[(b"tRNS", bytes(2))]),
        "png_interlaced": png_file(smooth, interlaced=True),
        "gif_local": encoded(frames[1], "GIF", interlace=0),
        "tiff_alpha": _tiff(smooth),
        "tiff_grey_alpha": _tiff(smooth[..., :2]),
        "tiff_tiles": encoded(rgb, "TIFF", compression="tiff_lzw", tiffinfo={322: 16, 323: 16}),
        "bmp_run_length": bmp_rle8(np.asarray(grey)),
        "bmp_1": encoded(grey.convert("1"), "BMP"),
        "jpeg_lossless": lossless_jpeg(np.asarray(grey)),
        "pbm": encoded(grey.convert("1"), "PPM"),
        "pbm_text": b"P1\n# a comment\n3 2\n1 0 1\n0 1 0\n",
        "pgm_16": b"P5 48 40 65535\n" + np.asarray(grey).astype(">u2").tobytes(),
        "ppm_text": b"P3 4 2 255\n" + b"1 20 255 4 5 6 " * 4,
        "pfm": b"Pf\n48 40\n-1.0\n" + np.asarray(floats).tobytes(),
        "jpeg2000_16": cv2.imencode(".jp2", smooth[..., 0] * np.uint16(257))[1].tobytes(),
        "avif_animated": encoded(rgb, "AVIF", save_all=True, append_images=[rgb.rotate(180)]),
        "avif_grid": avif_grid(encoded(rgb.resize((64, 64)), "AVIF"), (64, 64), rows=1, columns=2),
    }
    return files


def _tiff(samples: np.ndarray) -> bytes:
    height, width, channels = samples.shape
    tags = {256: [width], 257: [height], 258: [8] * channels, 259: [8], 262: [2 if channels > 2 else 1]}
    tags |= {277: [channels], 278: [height], 338: [2]}
    return tiff_file(tags, zlib.compress(samples.tobytes()))


def mutated(files: dict[str, bytes], *, seed: int, index: int) -> bytes:
    """Input number `index`: one of the files with one to eight changes."""
    rng = np.random.default_rng([seed, index])
    names = sorted(files)
    name = names[int(rng.integers(len(names)))]
    data = bytearray(files[name])
    for _ in range(1 << int(rng.integers(4))):
        _change(data, files[names[int(rng.integers(len(names)))]], rng)
    if "png" in name and rng.random() < 0.8:
        _repair_checksums(data)
    return bytes(data)


def _change(data: bytearray, other: bytes, rng: np.random.Generator) -> None:
    """Makes one change in place, more often near the start than elsewhere."""
    size = len(data)
    if size < 16:
        return
    first = 0 if rng.random() < 0.05 else 8
    at = first + int((size - first) * rng.random() ** int(rng.integers(1, 5)))
    length = int(rng.integers(1, 33))
    kind = int(rng.integers(8))
    if kind == 0:
        data[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        data[at] = int(rng.integers(256))
    elif kind == 2:
        value = _INTERESTING[int(rng.integers(len(_INTERESTING)))]
        layout = _LAYOUTS[int(rng.integers(len(_LAYOUTS)))]
        packed = struct.pack(layout, value & ((1 << 8 * struct.calcsize(layout)) - 1))
        data[at : at + len(packed)] = packed
    elif kind == 3:
        del data[at : at + length]
    elif kind == 4:
        data[at:at] = rng.bytes(length)
    elif kind == 5:
        data[at:at] = data[max(0, at - length) : at]
    elif kind == 6:
        start = int(rng.integers(len(other)))
        data[at : at + length] = other[start : start + length]
    elif rng.random() < 0.3:
        del data[at:]


def _repair_checksums(data: bytearray) -> None:
    """Corrects the checksums of a PNG's chunks, so that decoders get past them."""
    at = 8
    while at + 12 <= len(data):
        end = at + 12 + struct.unpack_from(">I", data, at)[0]
        if end > len(data):
            return
        struct.pack_into(">I", data, end - 4, zlib.crc32(data[at + 4 : end - 4]))
        at = end


def outcome(data: bytes, spec: ImageSpec) -> str:
    """`ok`, or the reason of the failure; lets every other exception through."""
    try:
        converted = convert_image(data, spec)
        check_sound(converted, spec)
    except SampleError as error:
        check_told(error)
        return error.reason.value
    try:
        read_mask(data, spec)
    except SampleError as error:
        check_told(error)
    return "ok"


def check_told(error: SampleError) -> None:
    """Asserts that a failure is a line that a terminal shows as it is."""
    assert error.detail
    assert error.detail.isprintable(), repr(error.detail)
    assert len(error.detail) <= 300


def check_sound(converted: ConvertedImage, spec: ImageSpec) -> None:
    """Asserts that a result agrees with itself and the request."""
    assert converted.height >= 1
    assert converted.width >= 1
    assert converted.channels in ((spec.channels,) if spec.channels else (1, 3, 4))
    if spec.image_encoding is ImageEncoding.RAW:
        assert len(converted.data) == converted.height * converted.width * converted.channels
    elif spec.image_encoding is not ImageEncoding.KEEP:
        with Image.open(io.BytesIO(converted.data)) as image:
            assert image.size == (converted.width, converted.height)


def inputs(*, seed: int, first: int, count: int, only: str = "") -> Iterator[tuple[int, bytes, ImageSpec]]:
    """(number, bytes, spec) of each input; `only` is how the names of the seed files start."""
    files = {name: data for name, data in seed_files().items() if name.startswith(only)}
    specs = [dataclasses.replace(spec, max_image_memory=_MAX_MEMORY) for spec in SPECS]
    for index in range(first, first + count):
        yield index, mutated(files, seed=seed, index=index), specs[index % len(specs)]


def _peak_memory() -> int:
    """Bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="", help="only seed files whose names start like this")
    arguments = parser.parse_args()
    faulthandler.enable()
    prepare_process()
    counts: Counter[str] = Counter()
    failures, slowest, begin, limit = 0, (0.0, -1), time.monotonic(), TimeLimit(_SECONDS)
    before = _peak_memory()
    for index, data, spec in inputs(
        seed=arguments.seed, first=arguments.first, count=arguments.inputs, only=arguments.only
    ):
        start = time.monotonic()
        try:
            with limit:
                counts[outcome(data, spec)] += 1
        except Exception:
            failures += 1
            counts["BUG"] += 1
            print(f"--- input {index}, {spec}", file=sys.stderr)
            traceback.print_exc()
        slowest = max(slowest, (time.monotonic() - start, index))
    for name, count in counts.most_common():
        print(f"{count:9,}  {name}")
    print(f"{sum(counts.values()):9,}  inputs in {time.monotonic() - begin:.0f} s; seed {arguments.seed}")
    print(f"slowest: input {slowest[1]}, {slowest[0]:.2f} s")
    print(f"peak of memory: {(_peak_memory() - before) / 1e6:.0f} MB more than at the start")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
