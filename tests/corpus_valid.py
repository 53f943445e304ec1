"""Image files that are unusual but valid, each with the picture that a person sees (mode L, RGB or RGBA)."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import TypeAlias

import numpy as np
import simplejpeg
from PIL import Image, ImageCms

from tests.corpus_pictures import picture, saved
from tests.image_writers import (
    P3_COLORANTS,
    SRGB_COLORANTS,
    bmp_rle8,
    gif_flood,
    icc_profile,
    png_chunk,
    png_file,
    tiff_file,
    to_profile,
)

ORIENTATION = 0x0112
# What undoes the turning that each EXIF orientation asks for.
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
        **_animations(rgb),
        **_tiffs(rgb),
        **_others(rgb),
    }


def _oriented(rgb: Image.Image) -> _Valid:
    files: _Valid = {}
    for number, undo in UNDO.items():
        exif = Image.Exif()
        exif[ORIENTATION] = number
        stored = rgb if undo is None else rgb.transpose(undo)
        files[f"orientation_{number}.jpg"] = saved(stored, "JPEG", quality=95, exif=exif), rgb
        files[f"orientation_{number}.tif"] = saved(stored, "TIFF", exif=exif), rgb
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    turned = rgb.transpose(UNDO[6])
    xmp = b'<x:xmpmeta><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
    files["orientation_6.png"] = saved(turned, "PNG", exif=exif), rgb
    files["orientation_6.webp"] = saved(turned, "WEBP", quality=95, exif=exif), rgb
    files["orientation_6.avif"] = saved(turned, "AVIF", quality=95, exif=exif), rgb
    files["orientation_in_xmp.jpg"] = saved(turned, "JPEG", quality=95, xmp=xmp), rgb
    malformed = {
        "garbage": b"Exif\0\0garbage that is no TIFF",
        "cut": b"Exif\0\0II*\0\x08\0\0\0\xff\x00\x12\x01",
        "empty": b"Exif\0\0",
        "of_text": b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x02\0\x02\0\0\0six\0\0\0\0\0",
        "of_9": b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x09\0\0\0\0\0\0\0",
        "looped": b"Exif\0\0II*\0\x08\0\0\0\x01\0\x69\x87\x04\0\x01\0\0\0\x08\0\0\0\x08\0\0\0",
    }
    for name, block in malformed.items():
        files[f"exif_{name}.jpg"] = saved(rgb, "JPEG", quality=95, exif=block), rgb
    return files


def _jpegs(rgb: Image.Image) -> _Valid:
    plain, grey = saved(rgb, "JPEG", quality=95), rgb.convert("L")
    cmyk = rgb.convert("CMYK")
    inverted = np.ascontiguousarray(255 - np.asarray(cmyk))
    ycck = simplejpeg.encode_jpeg(inverted, 95, "CMYK", "444")
    many_comments = (b"\xff\xfe" + struct.pack(">H", 60_002) + bytes(60_000)) * 20
    return {
        "baseline.jpg": (plain, rgb),
        "progressive.jpg": (saved(rgb, "JPEG", quality=95, progressive=True), rgb),
        "arithmetic.jpg": (base64.b64decode(_ARITHMETIC_JPEG), rgb),
        "chroma_444.jpg": (saved(rgb, "JPEG", quality=95, subsampling=0), rgb),
        "chroma_422.jpg": (saved(rgb, "JPEG", quality=95, subsampling=1), rgb),
        "chroma_411.jpg": (simplejpeg.encode_jpeg(np.array(rgb), 95, "RGB", "411"), rgb),
        "restart_markers.jpg": (saved(rgb, "JPEG", quality=95, restart_marker_blocks=1), rgb),
        "optimized.jpg": (saved(rgb, "JPEG", quality=95, optimize=True), rgb),
        "grey.jpg": (saved(grey, "JPEG", quality=95), grey),
        "rgb_not_ycbcr.jpg": (saved(rgb, "JPEG", quality=95, keep_rgb=True), rgb),
        "cmyk_adobe_inverted.jpg": (saved(cmyk, "JPEG", quality=95), rgb),
        "ycck_adobe_inverted.jpg": (ycck, rgb),
        "multi_picture.mpo": (
            saved(rgb, "MPO", quality=95, save_all=True, append_images=[rgb.rotate(180)]),
            rgb,
        ),
        "followed_by_garbage.jpg": (plain + b"garbage" * 1000, rgb),
        "followed_by_zeros.jpg": (plain + bytes(4096), rgb),
        "padded_markers.jpg": (plain[:2] + b"\xff\xff\xff" + plain[2:], rgb),
        "unknown_jfif_revision.jpg": (plain[:11] + b"\x09\x09" + plain[13:], rgb),
        "many_comments.jpg": (plain[:2] + many_comments + plain[2:], rgb),
        "unknown_segments.jpg": (plain[:2] + b"\xff\xe9\0\x06unkn" + plain[2:], rgb),
        "low_quality_1x1.jpg": (saved(rgb.crop((0, 0, 1, 1)), "JPEG", quality=95), rgb.crop((0, 0, 1, 1))),
    }


def _profiles(rgb: Image.Image) -> _Valid:
    srgb, grey = np.array(rgb), rgb.convert("L")
    muted = Image.fromarray(srgb // 2 + 64)
    wide = icc_profile(P3_COLORANTS, 2.2)
    in_wide = Image.fromarray(to_profile(np.array(muted), P3_COLORANTS, 2.2))
    bright = Image.fromarray(to_profile(srgb, SRGB_COLORANTS, 1.0))
    grey_profile = icc_profile(None, 1.5)
    in_grey = Image.fromarray(to_profile(np.array(grey), None, 1.5))
    transparent = in_wide.copy()
    transparent.putalpha(grey)
    seen_transparent = muted.copy()
    seen_transparent.putalpha(grey)
    return {
        "profile_wide.jpg": (saved(in_wide, "JPEG", quality=97, subsampling=0, icc_profile=wide), muted),
        "profile_wide.png": (saved(in_wide, "PNG", icc_profile=wide), muted),
        "profile_wide.webp": (saved(in_wide, "WEBP", lossless=True, icc_profile=wide), muted),
        "profile_wide.tif": (saved(in_wide, "TIFF", icc_profile=wide), muted),
        "profile_wide_alpha.png": (saved(transparent, "PNG", icc_profile=wide), seen_transparent),
        "profile_linear.png": (saved(bright, "PNG", icc_profile=icc_profile(SRGB_COLORANTS, 1.0)), rgb),
        "profile_grey.png": (saved(in_grey, "PNG", icc_profile=grey_profile), grey),
        "profile_grey.jpg": (saved(in_grey, "JPEG", quality=95, icc_profile=grey_profile), grey),
        "profile_broken.jpg": (saved(rgb, "JPEG", quality=95, icc_profile=b"no profile" * 20), rgb),
        "profile_of_other_pixels.jpg": (saved(rgb, "JPEG", quality=95, icc_profile=grey_profile), rgb),
        "profile_cut.png": (saved(rgb, "PNG", icc_profile=wide[:200]), rgb),
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
        "rgba.png": (saved(rgba, "PNG"), rgba),
        "grey_alpha.png": (saved(grey_alpha, "PNG"), grey_alpha.convert("RGBA")),
        "grey_1_bit.png": (saved(two_level, "PNG"), two_level.convert("L")),
        "grey_16_bit.png": (saved(Image.fromarray(deep_grey), "PNG"), grey),
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
        "palette_256.png": (saved(palette, "PNG"), palette.convert("RGB")),
        "palette_2_bit.png": (saved(few, "PNG"), few.convert("RGB")),
        "palette_transparent.png": (saved(few, "PNG", transparency=1), _with_clear(few, {1: 0})),
        "palette_half_transparent.png": (
            saved(palette, "PNG", transparency=half_clear),
            _with_clear(palette, {0: 0, 1: 128}),
        ),
        "grey_transparent.png": (saved(keyed, "PNG", transparency=250), seen_keyed),
        "rgb_transparent.png": (
            saved(flat, "PNG", transparency=(200, 30, 60)),
            Image.new("RGBA", flat.size, (200, 30, 60, 0)),
        ),
        "interlaced.png": (png_file(array, interlaced=True), rgb),
        "interlaced_16_bit.png": (png_file(deep_grey, interlaced=True), grey),
        "many_small_chunks.png": (png_file(array, chunks=[(b"prVt", b"x")] * 2000), rgb),
        "one_row.png": (saved(rgb.crop((0, 5, 48, 6)), "PNG"), rgb.crop((0, 5, 48, 6))),
        "one_pixel.png": (saved(rgb.crop((3, 3, 4, 4)), "PNG"), rgb.crop((3, 3, 4, 4))),
        "pixels_then_bomb.png": (_png_with_long_pixels(array), rgb),
    }


def _with_clear(palette: Image.Image, alphas: dict[int, int]) -> Image.Image:
    """A palette picture as RGBA, with the alpha given for some entries of the palette."""
    seen = palette.convert("RGB")
    table = [alphas.get(index, 255) for index in range(256)]
    seen.putalpha(Image.fromarray(np.array(table, np.uint8)[np.array(palette)]))
    return seen


def _png_with_long_pixels(array: np.ndarray) -> bytes:
    """A PNG whose compressed pixels go on for 32 MB after the picture's last row."""
    height, width = array.shape[:2]
    raw = b"".join(b"\0" + row.tobytes() for row in array) + bytes(32 << 20)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(raw, 1)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(kind, body) for kind, body in chunks)


def _animations(rgb: Image.Image) -> _Valid:
    palette = rgb.quantize(64)
    seen = palette.convert("RGB")
    more = [palette.rotate(turn) for turn in (90, 180)]
    first = Image.new("RGB", (1, 1), "white")
    clear = rgb.quantize(4)
    animated: dict[str, object] = {"save_all": True, "append_images": more}
    return {
        "still.gif": (saved(palette, "GIF"), seen),
        "not_interlaced.gif": (saved(palette, "GIF", interlace=0), seen),
        "transparent.gif": (saved(clear, "GIF", transparency=2), _with_clear(clear, {2: 0})),
        "grey.gif": (saved(rgb.convert("L"), "GIF"), rgb.convert("L").convert("RGB")),
        "animated.gif": (saved(palette, "GIF", **animated), seen),
        "cut_after_first_frame.gif": (saved(palette, "GIF", **animated)[:-200], seen),
        "without_trailer.gif": (saved(palette, "GIF")[:-1], seen),
        "frame_flood.gif": (gif_flood(100_000), first),
        "animated.png": (saved(palette, "PNG", **animated), seen),
        "animated.webp": (
            saved(rgb, "WEBP", lossless=True, save_all=True, append_images=[rgb.rotate(180)]),
            rgb,
        ),
        "animated.avif": (
            saved(rgb, "AVIF", quality=95, save_all=True, append_images=[rgb.rotate(180)]),
            rgb,
        ),
    }


def _tiffs(rgb: Image.Image) -> _Valid:
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
    return {
        "plain.tif": (saved(rgb, "TIFF"), rgb),
        "lzw.tif": (saved(rgb, "TIFF", compression="tiff_lzw"), rgb),
        "deflate.tif": (saved(rgb, "TIFF", compression="tiff_adobe_deflate"), rgb),
        "packbits.tif": (saved(rgb, "TIFF", compression="packbits"), rgb),
        "jpeg_inside.tif": (saved(rgb, "TIFF", compression="jpeg", quality=95), rgb),
        "big.tif": (saved(rgb, "TIFF", big_tiff=True), rgb),
        "alpha.tif": (saved(rgba, "TIFF"), rgba),
        "palette.tif": (saved(palette, "TIFF"), palette.convert("RGB")),
        "group4_1_bit.tif": (saved(two_level, "TIFF", compression="group4"), two_level.convert("L")),
        "white_is_zero.tif": (white_is_zero, grey),
        "cmyk.tif": (saved(rgb.convert("CMYK"), "TIFF"), rgb),
        "lab.tif": (saved(_to_lab(rgb), "TIFF"), rgb),
        "grey_16_bit.tif": (saved(Image.fromarray(deep), "TIFF"), grey),
        "grey_16_bit_big_endian.tif": (saved(big_endian, "TIFF"), grey),
        "grey_16_bit_lzw.tif": (saved(Image.fromarray(deep), "TIFF", compression="tiff_lzw"), grey),
        "rgb_16_bit.tif": (deep_rgb, rgb),
        "grey_32_bit.tif": (saved(Image.fromarray(deep.astype(np.int32)), "TIFF"), grey),
        "grey_32_bit_wide.tif": (
            saved(Image.fromarray((levels.astype(np.int32) - 100) * 1_000_000), "TIFF"),
            stretched,
        ),
        "float_to_1.tif": (saved(Image.fromarray(floats / 255), "TIFF"), grey),
        "float_to_255.tif": (saved(Image.fromarray(floats), "TIFF"), grey),
        "float_to_65535.tif": (saved(Image.fromarray(floats * 257), "TIFF"), grey),
        "float_negative.tif": (saved(Image.fromarray(floats * 40 - 5000), "TIFF"), stretched),
        "float_with_nan.tif": (saved(Image.fromarray(with_holes), "TIFF"), Image.fromarray(holes_seen)),
        "pages.tif": (saved(rgb, "TIFF", save_all=True, append_images=[grey, two_level]), rgb),
    }


def _to_lab(rgb: Image.Image) -> Image.Image:
    srgb, lab = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
    converted = ImageCms.buildTransform(srgb, lab, "RGB", "LAB").apply(rgb)
    del converted.info["icc_profile"]
    return converted


def _others(rgb: Image.Image) -> _Valid:
    grey = rgb.convert("L")
    levels, rgba = np.array(grey), rgb.copy()
    rgba.putalpha(grey.point(lambda level: 255 - level // 4))
    two_level, palette = grey.convert("1"), rgb.quantize(64)
    deep = (levels.astype(np.uint16) * 257).astype(">u2").tobytes()
    text = f"P3 # a comment\n48 32 255\n{' '.join(map(str, np.array(rgb).ravel()))}\n".encode()
    floats = b"Pf\n48 32\n-1.0\n" + (levels[::-1].astype("<f4") / 255).tobytes()
    return {
        "lossy.webp": (saved(rgb, "WEBP", quality=95), rgb),
        "lossless.webp": (saved(rgb, "WEBP", lossless=True), rgb),
        "alpha.webp": (saved(rgba, "WEBP", lossless=True, exact=True), rgba),
        "plain.avif": (saved(rgb, "AVIF", quality=95), rgb),
        "alpha.avif": (saved(rgba, "AVIF", quality=98), rgba),
        "plain.jp2": (saved(rgb, "JPEG2000"), rgb),
        "codestream.j2k": (saved(rgb, "JPEG2000", no_jp2=True), rgb),
        "grey.jp2": (saved(grey, "JPEG2000"), grey),
        "alpha.jp2": (saved(rgba, "JPEG2000"), rgba),
        "plain.bmp": (saved(rgb, "BMP"), rgb),
        "palette.bmp": (saved(palette, "BMP"), palette.convert("RGB")),
        "grey_1_bit.bmp": (saved(two_level, "BMP"), two_level.convert("L")),
        "run_length.bmp": (bmp_rle8(levels), grey),
        "32_bits.bmp": (saved(rgba, "BMP"), rgb),
        "binary.ppm": (saved(rgb, "PPM"), rgb),
        "text.ppm": (text, rgb),
        "grey_16_bit.pgm": (b"P5\n48 32\n65535\n" + deep, grey),
        "grey_1_bit.pbm": (saved(two_level, "PPM"), two_level.convert("L")),
        "float.pfm": (floats, grey),
    }
