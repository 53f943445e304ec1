"""Unusual but valid image files, each with the image that a viewer shows (mode L, RGB or RGBA)."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import TypeAlias

import numpy as np
import simplejpeg
from PIL import Image

from tests.core.images.corpus_formats import animations, others, picture, tiffs, with_clear
from tests.image_checks import encoded
from tests.image_writers import (
    P3_COLORANTS,
    SRGB_COLORANTS,
    icc_profile,
    png_chunk,
    png_file,
    tiff_file,
    to_profile,
)

ORIENTATION = 0x0112
# The reverse of what each EXIF orientation asks for.
UNDO = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}
# picture() through `cjpeg -quality 90 -arithmetic` of libjpeg-turbo 2.1.5.
_ARITHMETIC_JPEG = """
/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoHBwYIDAoMDAsKCwsNDhIQDQ4RDgsLEBYQERMU
FRUVDA8XGBYUGBIUFRT/2wBDAQMEBAUEBQkFBQkUDQsNFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU
FBQUFBQUFBT/yQARCAAgADADASIAAhEBAxEB/8wACgAQEAUBEBEF/9oADAMBAAIRAxEAPwDR+rdbdptWEb3xpUHekSnt4poTQzKz
nlh5xwVH6lKr/wA5LKCJX+WEdDTC6WqXryIaV6WQFy4E8/DL/vM+uMLLqrXiD0TRpCEzrRO08JeeQzfOyNCvKKKPScuBA+sZ2n/u
uzq1IuHyK6JRcs40/wCUYENENISPRt82GWI6J8RrzdqS2JHoLHLYTwtsWt4lfqrWhK+6ujGBcAsXXcpi0Ll+J/Y2D6B07dm3a2zQ
8WyK4D+JBXd/6awp/9k="""


_Valid: TypeAlias = "dict[str, tuple[bytes, Image.Image]]"


def valid_files() -> _Valid:
    """Name -> (bytes, picture)."""
    rgb = picture()
    return {
        **_oriented(rgb),
        **_jpegs(rgb),
        **_profiles(rgb),
        **_pngs(rgb),
        **animations(rgb),
        **tiffs(rgb),
        **others(rgb),
    }


def _oriented(rgb: Image.Image) -> _Valid:
    files: _Valid = {}
    for number, undo in UNDO.items():
        exif = Image.Exif()
        exif[ORIENTATION] = number
        stored = rgb if undo is None else rgb.transpose(undo)
        files[f"orientation_{number}.jpg"] = encoded(stored, "JPEG", quality=95, exif=exif), rgb
        files[f"orientation_{number}.tif"] = encoded(stored, "TIFF", exif=exif), rgb
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    turned = rgb.transpose(UNDO[6])
    xmp = b'<x:xmpmeta><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
    files["orientation_6.png"] = encoded(turned, "PNG", exif=exif), rgb
    files["orientation_6.webp"] = encoded(turned, "WEBP", quality=95, exif=exif), rgb
    files["orientation_6.avif"] = encoded(turned, "AVIF", quality=95, exif=exif), rgb
    files["orientation_in_xmp.jpg"] = encoded(turned, "JPEG", quality=95, xmp=xmp), rgb
    malformed = {
        "garbage": b"Exif\0\0garbage that is no TIFF",
        "cut": b"Exif\0\0II*\0\x08\0\0\0\xff\x00\x12\x01",
        "empty": b"Exif\0\0",
        "of_text": b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x02\0\x02\0\0\0six\0\0\0\0\0",
        "of_9": b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x09\0\0\0\0\0\0\0",
        "looped": b"Exif\0\0II*\0\x08\0\0\0\x01\0\x69\x87\x04\0\x01\0\0\0\x08\0\0\0\x08\0\0\0",
    }
    for name, block in malformed.items():
        files[f"exif_{name}.jpg"] = encoded(rgb, "JPEG", quality=95, exif=block), rgb
    return files


def _jpegs(rgb: Image.Image) -> _Valid:
    plain, grey = encoded(rgb, "JPEG", quality=95), rgb.convert("L")
    cmyk = rgb.convert("CMYK")
    inverted = np.ascontiguousarray(255 - np.asarray(cmyk))
    ycck = simplejpeg.encode_jpeg(inverted, 95, "CMYK", "444")
    many_comments = (b"\xff\xfe" + struct.pack(">H", 60_002) + bytes(60_000)) * 20
    return {
        "baseline.jpg": (plain, rgb),
        "progressive.jpg": (encoded(rgb, "JPEG", quality=95, progressive=True), rgb),
        "arithmetic.jpg": (base64.b64decode(_ARITHMETIC_JPEG), rgb),
        "chroma_444.jpg": (encoded(rgb, "JPEG", quality=95, subsampling=0), rgb),
        "chroma_422.jpg": (encoded(rgb, "JPEG", quality=95, subsampling=1), rgb),
        "chroma_411.jpg": (simplejpeg.encode_jpeg(np.array(rgb), 95, "RGB", "411"), rgb),
        "restart_markers.jpg": (encoded(rgb, "JPEG", quality=95, restart_marker_blocks=1), rgb),
        "optimized.jpg": (encoded(rgb, "JPEG", quality=95, optimize=True), rgb),
        "grey.jpg": (encoded(grey, "JPEG", quality=95), grey),
        "rgb_not_ycbcr.jpg": (encoded(rgb, "JPEG", quality=95, keep_rgb=True), rgb),
        "cmyk_adobe_inverted.jpg": (encoded(cmyk, "JPEG", quality=95), rgb),
        "ycck_adobe_inverted.jpg": (ycck, rgb),
        "multi_picture.mpo": (
            encoded(rgb, "MPO", quality=95, save_all=True, append_images=[rgb.rotate(180)]),
            rgb,
        ),
        "followed_by_garbage.jpg": (plain + b"garbage" * 1000, rgb),
        "followed_by_zeros.jpg": (plain + bytes(4096), rgb),
        "padded_markers.jpg": (plain[:2] + b"\xff\xff\xff" + plain[2:], rgb),
        "unknown_jfif_revision.jpg": (plain[:11] + b"\x09\x09" + plain[13:], rgb),
        "many_comments.jpg": (plain[:2] + many_comments + plain[2:], rgb),
        "unknown_segments.jpg": (plain[:2] + b"\xff\xe9\0\x06unkn" + plain[2:], rgb),
        "low_quality_1x1.jpg": (encoded(rgb.crop((0, 0, 1, 1)), "JPEG", quality=95), rgb.crop((0, 0, 1, 1))),
    }


def _profiles(rgb: Image.Image) -> _Valid:
    srgb, grey = np.array(rgb), rgb.convert("L")
    muted = Image.fromarray(srgb // 2 + 64)
    wide = icc_profile(P3_COLORANTS, 2.2)
    in_wide = Image.fromarray(to_profile(np.array(muted), P3_COLORANTS, 2.2))
    bright = Image.fromarray(to_profile(srgb, SRGB_COLORANTS, 1.0))
    grey_profile = icc_profile(None, 1.5)
    in_grey = Image.fromarray(to_profile(np.array(grey), None, 1.5))
    plain_tiff = {256: [48], 257: [32], 258: [8] * 3, 259: [1], 262: [2], 277: [3], 278: [32]}
    transparent = in_wide.copy()
    transparent.putalpha(grey)
    seen_transparent = muted.copy()
    seen_transparent.putalpha(grey)
    return {
        "profile_wide.jpg": (encoded(in_wide, "JPEG", quality=97, subsampling=0, icc_profile=wide), muted),
        "profile_wide.png": (encoded(in_wide, "PNG", icc_profile=wide), muted),
        "profile_wide.webp": (encoded(in_wide, "WEBP", lossless=True, icc_profile=wide), muted),
        "profile_wide.tif": (encoded(in_wide, "TIFF", icc_profile=wide), muted),
        "profile_wide_alpha.png": (encoded(transparent, "PNG", icc_profile=wide), seen_transparent),
        "profile_linear.png": (encoded(bright, "PNG", icc_profile=icc_profile(SRGB_COLORANTS, 1.0)), rgb),
        "profile_grey.png": (encoded(in_grey, "PNG", icc_profile=grey_profile), grey),
        "profile_grey.jpg": (encoded(in_grey, "JPEG", quality=95, icc_profile=grey_profile), grey),
        "profile_broken.jpg": (encoded(rgb, "JPEG", quality=95, icc_profile=b"no profile" * 20), rgb),
        "profile_of_other_pixels.jpg": (encoded(rgb, "JPEG", quality=95, icc_profile=grey_profile), rgb),
        "profile_cut.png": (encoded(rgb, "PNG", icc_profile=wide[:200]), rgb),
        "profile_of_other_type.tif": (tiff_file({**plain_tiff, 34675: [1, 2, 3]}, srgb.tobytes()), rgb),
        "text_named_icc_profile.png": (png_file(srgb, chunks=[(b"tEXt", b"icc_profile\0some text")]), rgb),
    }


def _pngs(rgb: Image.Image) -> _Valid:
    array, grey = np.array(rgb), rgb.convert("L")
    levels = np.array(grey)
    deep, deep_grey = array.astype(np.uint16) * 257, levels.astype(np.uint16) * 257
    rgba, grey_alpha = rgb.copy(), Image.merge("LA", (grey, grey.rotate(180)))
    rgba.putalpha(grey)
    palette, few, two_level = rgb.quantize(256), rgb.quantize(4), grey.convert("1")
    keyed = Image.fromarray(np.where(levels > 128, 250, levels).astype(np.uint8))
    alpha_of_key = Image.fromarray(np.where(levels > 128, 0, 255).astype(np.uint8))
    seen_keyed = keyed.convert("RGB")
    seen_keyed.putalpha(alpha_of_key)
    deep_keyed = np.array(keyed).astype(np.uint16) * 257
    half_clear = bytes([0, 128]) + b"\xff" * 254
    flat = Image.new("RGB", (40, 30), (200, 30, 60))
    return {
        "rgba.png": (encoded(rgba, "PNG"), rgba),
        "grey_alpha.png": (encoded(grey_alpha, "PNG"), grey_alpha.convert("RGBA")),
        "grey_1_bit.png": (encoded(two_level, "PNG"), two_level.convert("L")),
        "grey_16_bit.png": (encoded(Image.fromarray(deep_grey), "PNG"), grey),
        "grey_16_bit_dark.png": (png_file(deep_grey // 4), grey.point(lambda level: level // 4)),
        "grey_16_bit_transparent.png": (
            png_file(deep_keyed, chunks=[(b"tRNS", struct.pack(">H", 250 * 257))]),
            seen_keyed,
        ),
        "rgb_16_bit.png": (png_file(deep), rgb),
        "rgba_16_bit.png": (png_file(np.dstack([deep, deep_grey])), rgba),
        "grey_alpha_16_bit.png": (
            png_file(np.array(grey_alpha).astype(np.uint16) * 257),
            grey_alpha.convert("RGBA"),
        ),
        "palette_256.png": (encoded(palette, "PNG"), palette.convert("RGB")),
        "palette_2_bit.png": (encoded(few, "PNG"), few.convert("RGB")),
        "palette_transparent.png": (encoded(few, "PNG", transparency=1), with_clear(few, {1: 0})),
        "palette_half_transparent.png": (
            encoded(palette, "PNG", transparency=half_clear),
            with_clear(palette, {0: 0, 1: 128}),
        ),
        "grey_transparent.png": (encoded(keyed, "PNG", transparency=250), seen_keyed),
        "rgb_transparent.png": (
            encoded(flat, "PNG", transparency=(200, 30, 60)),
            Image.new("RGBA", flat.size, (200, 30, 60, 0)),
        ),
        "interlaced.png": (png_file(array, interlaced=True), rgb),
        "interlaced_16_bit.png": (png_file(deep_grey, interlaced=True), grey),
        "long_comment.png": (png_file(array, chunks=[(b"tEXt", b"comment\0" + bytes(70_000))]), rgb),
        "many_small_chunks.png": (png_file(array, chunks=[(b"prVt", b"x")] * 2000), rgb),
        "one_row.png": (encoded(rgb.crop((0, 5, 48, 6)), "PNG"), rgb.crop((0, 5, 48, 6))),
        "one_pixel.png": (encoded(rgb.crop((3, 3, 4, 4)), "PNG"), rgb.crop((3, 3, 4, 4))),
        "pixels_then_bomb.png": (_png_with_long_pixels(array), rgb),
    }


def _png_with_long_pixels(array: np.ndarray) -> bytes:
    """A PNG whose compressed pixels go on for 32 MB after the last row."""
    height, width = array.shape[:2]
    raw = b"".join(b"\0" + row.tobytes() for row in array) + bytes(32 << 20)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(raw, 1)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(kind, body) for kind, body in chunks)
