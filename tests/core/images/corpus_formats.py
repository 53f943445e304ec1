"""Unusual but valid GIF, TIFF, WebP, AVIF, JPEG 2000, BMP and PPM files, for `corpus_valid`."""

from __future__ import annotations

import struct
import zlib
from typing import TypeAlias

import numpy as np
from PIL import Image, ImageCms

from tests.image_checks import encoded
from tests.image_writers import bmp_file, bmp_rle8, gif_flood, tiff_file

_Valid: TypeAlias = "dict[str, tuple[bytes, Image.Image]]"


def picture() -> Image.Image:
    """A smooth RGB image, 48 pixels wide and 32 high."""
    y, x = np.mgrid[0:32, 0:48]
    wave = 128 + 60 * np.sin(x / 9) * np.cos(y / 7)
    return Image.fromarray(np.stack([40 + 4 * x, 200 - 5 * y, wave], -1).clip(0, 255).astype(np.uint8))


def with_clear(palette: Image.Image, alphas: dict[int, int]) -> Image.Image:
    """A palette image as RGBA, with the given alpha for some palette entries."""
    seen = palette.convert("RGB")
    table = [alphas.get(index, 255) for index in range(256)]
    seen.putalpha(Image.fromarray(np.array(table, np.uint8)[np.array(palette)]))
    return seen


def animations(rgb: Image.Image) -> _Valid:
    """Name -> (bytes, picture)."""
    palette = rgb.quantize(64)
    seen = palette.convert("RGB")
    more = [palette.rotate(turn) for turn in (90, 180)]
    first = Image.new("RGB", (1, 1), "white")
    clear = rgb.quantize(4)
    animated: dict[str, object] = {"save_all": True, "append_images": more}
    return {
        "still.gif": (encoded(palette, "GIF"), seen),
        "not_interlaced.gif": (encoded(palette, "GIF", interlace=0), seen),
        "transparent.gif": (encoded(clear, "GIF", transparency=2), with_clear(clear, {2: 0})),
        "grey.gif": (encoded(rgb.convert("L"), "GIF"), rgb.convert("L").convert("RGB")),
        "animated.gif": (encoded(palette, "GIF", **animated), seen),
        "cut_after_first_frame.gif": (encoded(palette, "GIF", **animated)[:-200], seen),
        "without_trailer.gif": (encoded(palette, "GIF")[:-1], seen),
        "local_colors.gif": (_with_local_colors(palette), seen),
        "first_frame_smaller.gif": _on_larger_screen(palette),
        "frame_flood.gif": (gif_flood(100_000), first),
        "animated.png": (encoded(palette, "PNG", **animated), seen),
        "animated.webp": (
            encoded(rgb, "WEBP", lossless=True, save_all=True, append_images=[rgb.rotate(180)]),
            rgb,
        ),
        "animated.avif": (
            encoded(rgb, "AVIF", quality=95, save_all=True, append_images=[rgb.rotate(180)]),
            rgb,
        ),
    }


def _with_local_colors(palette: Image.Image) -> bytes:
    """A GIF whose color table belongs to its frame."""
    data = encoded(palette, "GIF", interlace=0)
    colors = 3 << (data[10] & 7) + 1
    table, frame = data[13 : 13 + colors], data.index(b",", 13 + colors)
    screen = data[:10] + bytes((data[10] & 0x7F,)) + data[11:13]
    return screen + data[frame : frame + 9] + bytes((0x80 | data[10] & 7,)) + table + data[frame + 10 :]


def _on_larger_screen(palette: Image.Image) -> tuple[bytes, Image.Image]:
    """A GIF whose only frame leaves the right and lower edge of the screen in the background color."""
    data = encoded(palette, "GIF")
    seen = Image.new("RGB", (60, 40), tuple(data[13:16]))
    seen.paste(palette.convert("RGB"))
    return data[:6] + struct.pack("<HH", 60, 40) + data[10:], seen


def tiffs(rgb: Image.Image) -> _Valid:
    """Name -> (bytes, picture)."""
    array, grey = np.array(rgb), rgb.convert("L")
    levels = np.array(grey)
    floats = levels.astype(np.float32)
    deep = levels.astype(np.uint16) * 257
    rgba = rgb.copy()
    rgba.putalpha(grey)
    two_level, palette = grey.convert("1"), rgb.quantize(64)
    stretched = Image.fromarray(((levels - levels.min()) * (255 / np.ptp(levels))).round().astype(np.uint8))
    with_holes = floats / 255
    with_holes[3, 4] = np.nan
    holes_seen = levels.copy()
    holes_seen[3, 4] = 0
    big_endian = Image.frombytes("I;16B", grey.size, deep.astype(">u2").tobytes())
    deep_rgb = tiff_file(
        {256: [48], 257: [32], 258: [16] * 3, 259: [1], 262: [2], 277: [3], 278: [32]},
        (array.astype("<u2") * 257).tobytes(),
    )
    white_is_zero = tiff_file(
        {256: [48], 257: [32], 258: [8], 259: [1], 262: [0], 277: [1], 278: [32]}, (255 - levels).tobytes()
    )
    of_grey = {256: [48], 257: [32], 277: [1], 278: [32]}
    deep_white_is_zero = tiff_file({**of_grey, 258: [16], 259: [1], 262: [0]}, (65535 - deep).tobytes())
    unsaid = tiff_file({**of_grey, 258: [8], 259: [1]}, levels.tobytes())
    pairs = levels.astype(int).reshape(-1, 2) << 4
    of_12_bits = np.stack([pairs[:, 0] >> 4, (pairs[:, 0] & 15) << 4 | pairs[:, 1] >> 8, pairs[:, 1] & 255], 1)
    grey_12_bit = tiff_file({**of_grey, 258: [12], 259: [1], 262: [1]}, of_12_bits.astype(np.uint8).tobytes())
    grey_alpha = {**of_grey, 258: [8] * 2, 259: [1], 262: [1], 277: [2]}
    pair = Image.merge("LA", (grey, grey.rotate(180)))
    of_big_endian = {**of_grey, 259: [8], 262: [1]}
    big_endian_floats = tiff_file(
        {**of_big_endian, 258: [32], 339: [3]}, zlib.compress(floats.astype(">f4").tobytes()), is_big_endian=True
    )
    big_endian_signed = tiff_file(
        {**of_big_endian, 258: [16], 339: [2]}, zlib.compress(levels.astype(">i2").tobytes()), is_big_endian=True
    )
    return {
        "plain.tif": (encoded(rgb, "TIFF"), rgb),
        "lzw.tif": (encoded(rgb, "TIFF", compression="tiff_lzw"), rgb),
        "deflate.tif": (encoded(rgb, "TIFF", compression="tiff_adobe_deflate"), rgb),
        "packbits.tif": (encoded(rgb, "TIFF", compression="packbits"), rgb),
        "jpeg_inside.tif": (encoded(rgb, "TIFF", compression="jpeg", quality=95), rgb),
        "big.tif": (encoded(rgb, "TIFF", big_tiff=True), rgb),
        "alpha.tif": (encoded(rgba, "TIFF"), rgba),
        "grey_alpha.tif": (encoded(pair, "TIFF"), pair.convert("RGBA")),
        "grey_alpha_unsaid.tif": (tiff_file(grey_alpha, np.array(pair).tobytes()), pair.convert("RGBA")),
        "palette.tif": (encoded(palette, "TIFF"), palette.convert("RGB")),
        "group4_1_bit.tif": (encoded(two_level, "TIFF", compression="group4"), two_level.convert("L")),
        "white_is_zero.tif": (white_is_zero, grey),
        "which_is_black_unsaid.tif": (unsaid, grey),
        "cmyk.tif": (encoded(rgb.convert("CMYK"), "TIFF"), rgb),
        "lab.tif": (encoded(_to_lab(rgb), "TIFF"), rgb),
        "grey_16_bit.tif": (encoded(Image.fromarray(deep), "TIFF"), grey),
        "grey_16_bit_big_endian.tif": (encoded(big_endian, "TIFF"), grey),
        "grey_16_bit_lzw.tif": (encoded(Image.fromarray(deep), "TIFF", compression="tiff_lzw"), grey),
        "grey_16_bit_white_is_zero.tif": (deep_white_is_zero, grey),
        "grey_16_bit_signed_big_endian_deflate.tif": (big_endian_signed, grey),
        "grey_12_bit.tif": (grey_12_bit, grey),
        "rgb_16_bit.tif": (deep_rgb, rgb),
        "grey_32_bit.tif": (encoded(Image.fromarray(deep.astype(np.int32)), "TIFF"), grey),
        "grey_32_bit_wide.tif": (
            encoded(Image.fromarray((levels.astype(np.int32) - 100) * 1_000_000), "TIFF"),
            stretched,
        ),
        "float_to_1.tif": (encoded(Image.fromarray(floats / 255), "TIFF"), grey),
        "float_to_255.tif": (encoded(Image.fromarray(floats), "TIFF"), grey),
        "float_to_65535.tif": (encoded(Image.fromarray(floats * 257), "TIFF"), grey),
        "float_negative.tif": (encoded(Image.fromarray(floats * 40 - 5000), "TIFF"), stretched),
        "float_big_endian_deflate.tif": (big_endian_floats, grey),
        "float_with_nan.tif": (encoded(Image.fromarray(with_holes), "TIFF"), Image.fromarray(holes_seen)),
        "pages.tif": (encoded(rgb, "TIFF", save_all=True, append_images=[grey, two_level]), rgb),
    }


def _to_lab(rgb: Image.Image) -> Image.Image:
    srgb, lab = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
    converted = ImageCms.buildTransform(srgb, lab, "RGB", "LAB").apply(rgb)
    del converted.info["icc_profile"]
    return converted


def _bmp_4_bit(palette: Image.Image) -> bytes:
    colors = np.array(palette.getpalette()[:48], np.uint8).reshape(16, 3)
    table = np.pad(colors[:, ::-1], ((0, 0), (0, 1))).tobytes()
    indices = np.array(palette)[::-1]
    return bmp_file((indices[:, ::2] << 4 | indices[:, 1::2]).tobytes(), width=48, height=32, depth=4, table=table)


def others(rgb: Image.Image) -> _Valid:
    """Name -> (bytes, picture)."""
    grey = rgb.convert("L")
    levels, rgba = np.array(grey), rgb.copy()
    rgba.putalpha(grey.point(lambda level: 255 - level // 4))
    two_level, palette, few = grey.convert("1"), rgb.quantize(64), rgb.quantize(16)
    array = np.array(rgb)
    bottom_up = np.ascontiguousarray(array[::-1, :, ::-1])
    red, green, blue = np.moveaxis(array[::-1].astype("<u2"), -1, 0)
    five_six_five = (red >> 3 << 11) | (green >> 2 << 5) | (blue >> 3)
    masks = struct.pack("<III", 0xF800, 0x7E0, 0x1F)
    deep = (levels.astype(np.uint16) * 257).astype(">u2").tobytes()
    text = f"P3 # a comment\n48 32 255\n{' '.join(map(str, np.array(rgb).ravel()))}\n".encode()
    floats = b"Pf\n48 32\n-1.0\n" + (levels[::-1].astype("<f4") / 255).tobytes()
    floats_to_255 = b"Pf\n48 32\n-1.0\n" + levels[::-1].astype("<f4").tobytes()
    return {
        "lossy.webp": (encoded(rgb, "WEBP", quality=95), rgb),
        "lossless.webp": (encoded(rgb, "WEBP", lossless=True), rgb),
        "alpha.webp": (encoded(rgba, "WEBP", lossless=True, exact=True), rgba),
        "plain.avif": (encoded(rgb, "AVIF", quality=95), rgb),
        "alpha.avif": (encoded(rgba, "AVIF", quality=98), rgba),
        "plain.jp2": (encoded(rgb, "JPEG2000"), rgb),
        "codestream.j2k": (encoded(rgb, "JPEG2000", no_jp2=True), rgb),
        "grey.jp2": (encoded(grey, "JPEG2000"), grey),
        "alpha.jp2": (encoded(rgba, "JPEG2000"), rgba),
        "plain.bmp": (encoded(rgb, "BMP"), rgb),
        "palette.bmp": (encoded(palette, "BMP"), palette.convert("RGB")),
        "grey_1_bit.bmp": (encoded(two_level, "BMP"), two_level.convert("L")),
        "grey.bmp": (encoded(grey, "BMP"), grey),
        "run_length.bmp": (bmp_rle8(levels), grey),
        "palette_4_bit.bmp": (_bmp_4_bit(few), few.convert("RGB")),
        "16_bits.bmp": (
            bmp_file(five_six_five.tobytes(), width=48, height=32, depth=16, compression=3, table=masks),
            rgb,
        ),
        "top_down.bmp": (
            bmp_file(np.ascontiguousarray(array[..., ::-1]).tobytes(), width=48, height=-32, depth=24),
            rgb,
        ),
        "os2.bmp": (
            b"BM" + struct.pack("<IHHIIHHHH", 26 + bottom_up.nbytes, 0, 0, 26, 12, 48, 32, 1, 24) + bottom_up.tobytes(),
            rgb,
        ),
        "followed_by_zeros.bmp": (encoded(rgb, "BMP") + bytes(100), rgb),
        "32_bits.bmp": (encoded(rgba, "BMP"), rgb),
        "binary.ppm": (encoded(rgb, "PPM"), rgb),
        "text.ppm": (text, rgb),
        "grey_16_bit.pgm": (b"P5\n48 32\n65535\n" + deep, grey),
        "grey_1_bit.pbm": (encoded(two_level, "PPM"), two_level.convert("L")),
        "float.pfm": (floats, grey),
        "float_to_255.pfm": (floats_to_255, grey),
    }
