"""Files that cannot be converted, each with the reason of its failure."""

from __future__ import annotations

import importlib.util
import struct
import zlib
from typing import TypeAlias

import numpy as np
from PIL import Image

from beam_tfrecords.errors import FailureReason
from tests.core.images.corpus_formats import picture
from tests.image_checks import encoded
from tests.image_writers import png_chunk, png_file, png_header, tiff_file

_Broken: TypeAlias = "dict[str, tuple[bytes, FailureReason]]"


def broken_files() -> _Broken:
    """Name -> (bytes, reason)."""
    rgb = picture()
    return {**_no_images(), **_broken_jpegs(rgb), **_broken_pngs(rgb), **_broken_others(rgb)}


def _no_images() -> _Broken:
    no, unsupported = FailureReason.NOT_AN_IMAGE, FailureReason.UNSUPPORTED_FORMAT
    damaged = FailureReason.CORRUPT if importlib.util.find_spec("pillow_heif") else unsupported
    heic = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(200)
    return {
        "empty.jpg": (b"", FailureReason.EMPTY),
        "one_byte.jpg": (b"\xff", no),
        "zeros.jpg": (bytes(5000), no),
        "noise.png": (np.random.default_rng(3).bytes(5000), no),
        "text.jpg": (b"This is a text.\n" * 50, no),
        "text_that_starts_with_bm.bmp": (b"BMW builds cars and motorcycles.\n" * 9, no),
        "page.jpg": (b"<!DOCTYPE html><html><body>404 Not Found</body></html>", no),
        "page_with_bom.jpg": (b"\xef\xbb\xbf \n<html><head></head></html>", no),
        "error.png": (b'{"error": "access denied"}', no),
        "denied.png": (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', no),
        "document.jpg": (b"%PDF-1.7\n%..." + bytes(100), no),
        "archive.jpg": (b"PK\x03\x04" + bytes(100), no),
        "compressed.jpg": (b"\x1f\x8b\x08" + bytes(100), no),
        "video.jpg": (b"\0\0\0\x18ftypisom\0\0\x02\0isommp41" + bytes(200), no),
        "lfs_pointer.png": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", no),
        "photo.heic": (heic, damaged),
        "sequence.heic": (b"\0\0\0\x18ftypmsf1\0\0\0\0hevcmsf1" + bytes(200), damaged),
        "codestream.jxl": (b"\xff\x0a" + bytes(100), unsupported),
        "container.jxl": (b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(100), unsupported),
        "drawing.svg": (b'<svg xmlns="http://www.w3.org/2000/svg"/>', unsupported),
        "drawing_with_prolog.svg": (b'<?xml version="1.0"?>\n<svg/>', unsupported),
        "layers.psd": (b"8BPS\0\x01" + bytes(100), unsupported),
        "layers.xcf": (b"gimp xcf v011" + bytes(100), unsupported),
        "page.eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", unsupported),
        "icon.ico": (b"\0\0\1\0\1\0" + bytes(100), unsupported),
        "scene.exr": (b"\x76\x2f\x31\x01" + bytes(100), unsupported),
        "photo.cr3": (b"\0\0\0\x18ftypcrx \0\0\0\1crx isom" + bytes(100), unsupported),
        "photo.raf": (b"FUJIFILMCCD-RAW 0201" + bytes(100), unsupported),
        "photo.dng": (_camera_raw(), unsupported),
    }


def _camera_raw() -> bytes:
    """The start of a DNG: a small preview, marked as one, and the version of the format."""
    tags = {254: [1], 256: [4], 257: [4], 258: [8], 259: [1], 262: [1], 277: [1], 278: [4], 50706: [1]}
    return tiff_file(tags, bytes(16))


def _broken_jpegs(rgb: Image.Image) -> _Broken:
    cut, corrupt = FailureReason.TRUNCATED, FailureReason.CORRUPT
    mode, large = FailureReason.UNSUPPORTED_MODE, FailureReason.TOO_MANY_PIXELS
    noise = Image.fromarray(np.random.default_rng(4).integers(0, 256, (64, 64, 3), np.uint8))
    plain = encoded(noise, "JPEG", quality=90)
    progressive = encoded(noise, "JPEG", quality=90, progressive=True)
    restarts = encoded(noise, "JPEG", quality=90, restart_marker_blocks=1)
    with_thumbnail = encoded(rgb, "JPEG", exif=b"Exif\0\0" + encoded(rgb, "JPEG"))
    frame, scan = plain.index(b"\xff\xc0"), plain.index(b"\xff\xda")
    middle = (scan + len(plain)) // 2
    half = len(plain) // 2

    def patched(at: int, new: bytes, data: bytes = plain) -> bytes:
        return data[:at] + new + data[at + len(new) :]

    return {
        "cut_in_scan.jpg": (plain[:half], cut),
        "cut_before_end_marker.jpg": (plain[:-2], cut),
        "cut_in_end_marker.jpg": (plain[:-1], cut),
        "cut_after_start.jpg": (plain[:4], cut),
        "cut_in_tables.jpg": (plain[:100], cut),
        "cut_before_scan.jpg": (plain[:scan], cut),
        "cut_with_thumbnail.jpg": (with_thumbnail[:-40], cut),
        "cut_progressive.jpg": (progressive[: len(progressive) * 2 // 3], cut),
        "hole_in_scan.jpg": (plain[:half] + plain[half + 900 :], corrupt),
        "cut_but_ended.jpg": (plain[:middle] + b"\xff\xd9", corrupt),
        "cut_but_ended_progressive.jpg": (progressive[: len(progressive) // 2] + b"\xff\xd9", corrupt),
        "missing_restarts.jpg": (restarts.replace(b"\xff\xd3", b"\0\0", 3), corrupt),
        "zeros_in_scan.jpg": (patched(middle, bytes(1500)), corrupt),
        "ones_in_scan.jpg": (patched(middle, b"\xff\0" * 700), corrupt),
        "no_tables.jpg": (plain[:20] + plain[frame:], corrupt),
        "no_frame.jpg": (plain[:frame] + plain[frame + 19 :], corrupt),
        "no_scan.jpg": (plain[:scan] + b"\xff\xd9", corrupt),
        "height_0.jpg": (patched(frame + 5, b"\0\0"), corrupt),
        "width_0.jpg": (patched(frame + 7, b"\0\0"), corrupt),
        "12_bits.jpg": (patched(frame + 4, b"\x0c"), mode),
        "2_channels.jpg": (patched(frame + 9, b"\x02"), mode),
        "hierarchical.jpg": (patched(frame + 1, b"\xc5"), mode),
        "huge.jpg": (patched(frame + 5, struct.pack(">HH", 65_500, 65_500)), large),
    }


def _broken_pngs(rgb: Image.Image) -> _Broken:
    cut, corrupt, large = FailureReason.TRUNCATED, FailureReason.CORRUPT, FailureReason.TOO_MANY_PIXELS
    plain, palette = encoded(rgb, "PNG"), encoded(rgb.quantize(64), "PNG")
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", 48, 32, 8, 2, 0, 0, 0))
    odd_header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", 48, 32, 7, 2, 0, 0, 0))
    empty_header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", 0, 32, 8, 2, 0, 0, 0))
    start, end = plain[:8], png_chunk(b"IEND", b"")
    pixels = zlib.compress(b"\0" * (32 * 145))
    bomb = zlib.compress(bytes(16 << 20))
    colors = palette.index(b"PLTE") - 4
    without_palette = palette[:colors] + palette[palette.index(b"IDAT") - 4 :]

    def made(*chunks: tuple[bytes, bytes]) -> bytes:
        return start + header + b"".join(png_chunk(kind, body) for kind, body in chunks) + end

    return {
        "cut_in_pixels.png": (plain[: len(plain) // 2], cut),
        "cut_before_end.png": (plain[:-12], cut),
        "cut_in_end.png": (plain[:-1], cut),
        "cut_in_header.png": (plain[:20], cut),
        "cut_after_header.png": (start + header, cut),
        "wrong_checksum_of_pixels.png": (plain[:-20] + bytes([plain[-20] ^ 1]) + plain[-19:], corrupt),
        "wrong_checksum_of_header.png": (plain[:30] + bytes([plain[30] ^ 1]) + plain[31:], corrupt),
        "garbage_pixels.png": (made((b"IDAT", b"garbage" * 100)), corrupt),
        "too_few_pixels.png": (made((b"IDAT", zlib.compress(bytes(100)))), cut),
        "rgb_16_bit_transparent.png": (
            png_file(np.zeros((32, 48, 3), np.uint16), chunks=[(b"tRNS", struct.pack(">3H", 250, 0, 0))]),
            FailureReason.UNSUPPORTED_MODE,
        ),
        "no_pixels.png": (made(), corrupt),
        "no_palette.png": (without_palette, corrupt),
        "odd_depth.png": (start + odd_header + png_chunk(b"IDAT", pixels) + end, corrupt),
        "width_0.png": (start + empty_header + png_chunk(b"IDAT", pixels) + end, corrupt),
        "header_not_first.png": (start + png_chunk(b"IDAT", pixels) + header + end, corrupt),
        "text_bomb.png": (made((b"zTXt", b"a\0\0" + bomb), (b"IDAT", pixels)), corrupt),
        "international_text_bomb.png": (
            made((b"iTXt", b"a\0\1\0\0\0" + bomb), (b"IDAT", pixels)),
            corrupt,
        ),
        "profile_bomb.png": (made((b"iCCP", b"a\0\0" + bomb), (b"IDAT", pixels)), corrupt),
        "many_texts_bomb.png": (
            made(*[(b"tEXt", b"a\0" + bytes(900_000))] * 80, (b"IDAT", pixels)),
            corrupt,
        ),
        "huge.png": (png_header(50_000, 50_000), large),
        "absurd.png": (png_header(2**31 - 1, 2**31 - 1), large),
        "long.png": (png_header(2**31 - 1, 1), large),
    }


def _broken_others(rgb: Image.Image) -> _Broken:
    cut, corrupt = FailureReason.TRUNCATED, FailureReason.CORRUPT
    mode, large = FailureReason.UNSUPPORTED_MODE, FailureReason.TOO_MANY_PIXELS
    gif, webp = encoded(rgb.quantize(64), "GIF"), encoded(rgb, "WEBP", quality=95)
    avif, jp2, bmp = encoded(rgb, "AVIF"), encoded(rgb, "JPEG2000"), encoded(rgb, "BMP")
    tiff, lzw = encoded(rgb, "TIFF"), encoded(rgb, "TIFF", compression="tiff_lzw")
    ppm = encoded(rgb, "PPM")
    canvas = (16_382).to_bytes(3, "little") * 2
    huge_webp = b"RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + canvas + bytes(8)
    size_tags = {258: [8] * 3, 259: [1], 262: [2], 277: [3], 278: [32]}
    huge_tiff = tiff_file({256: [100_000], 257: [100_000], **size_tags}, bytes(100), long_tags=(256, 257))
    five_channels = tiff_file(
        {256: [8], 257: [8], 258: [8] * 5, 259: [1], 262: [2], 277: [5], 278: [8]}, bytes(8 * 8 * 5)
    )
    of_four = {256: [8], 257: [8], 258: [8] * 4, 259: [1], 262: [2], 277: [4], 278: [8]}
    of_grey = {256: [8], 257: [8], 259: [1], 277: [1], 278: [8]}
    deflated = zlib.compress(bytes(64))
    # libtiff does not look at the checksum, which is at the end.
    flipped = tiff_file({**of_grey, 258: [8], 259: [8], 262: [1]}, deflated[:-1] + bytes([deflated[-1] ^ 1]))
    return {
        "flipped_deflate.tif": (flipped, corrupt),
        "signed_8_bit.tif": (tiff_file({**of_grey, 258: [8], 262: [1], 339: [2]}, bytes(64)), mode),
        "float_white_is_zero.tif": (tiff_file({**of_grey, 258: [32], 262: [0], 339: [3]}, bytes(256)), mode),
        "ycbcr_uncompressed.tif": (
            tiff_file({**of_grey, 258: [8] * 3, 262: [6], 277: [3], 530: [1, 1]}, bytes(256)),
            mode,
        ),
        "cut.gif": (gif[: len(gif) // 2], cut),
        "cut_in_header.gif": (gif[:11], cut),
        "no_picture.gif": (gif[: 13 + 3 * 64] + b";", corrupt),
        "huge.gif": (gif[:6] + b"\xff\xff\xff\xff" + gif[10:], large),
        "cut.webp": (webp[: len(webp) // 2], cut),
        "cut_in_header.webp": (webp[:18], cut),
        "garbage.webp": (webp[:20] + bytes(len(webp) - 20), corrupt),
        "huge.webp": (huge_webp, large),
        "cut.avif": (avif[: len(avif) // 2], cut),
        "garbage.avif": (avif[:40] + bytes(len(avif) - 40), corrupt),
        "cut.jp2": (jp2[: len(jp2) // 2], cut),
        "huge.jp2": (jp2.replace(struct.pack(">II", 32, 48), struct.pack(">II", 90_000, 90_000)), large),
        "cut.bmp": (bmp[: len(bmp) // 2], cut),
        "cut_in_header.bmp": (bmp[:30], cut),
        "huge.bmp": (bmp[:18] + struct.pack("<ii", 90_000, 90_000) + bmp[26:], large),
        "run_length_4_bit.bmp": (bmp[:28] + b"\4\0\2" + bmp[31:], mode),
        "odd_depth.bmp": (bmp[:28] + b"\x07\0" + bmp[30:], mode),
        "cut.tif": (tiff[: len(tiff) // 2], cut),
        "cut_in_directory.tif": (lzw[:-30], cut),
        "cut_in_header.tif": (tiff[:6], cut),
        "directory_far_away.tif": (b"II*\0\xff\xff\xff\x7f" + bytes(100), cut),
        "directory_beyond_2_63.tif": (b"II+\0\x08\0\0\0" + struct.pack("<Q", (1 << 63) + 16) + bytes(100), cut),
        "empty_directory.tif": (b"II*\0\x08\0\0\0" + bytes(100), corrupt),
        "garbage_strip.tif": (lzw[:8] + b"\xff" * 200 + lzw[208:], corrupt),
        "five_channels.tif": (five_channels, mode),
        "rgb_and_infrared.tif": (tiff_file({**of_four, 338: [0]}, bytes(256)), mode),
        "rgb_and_infrared_16_bit.tif": (tiff_file({**of_four, 258: [16] * 4, 338: [0]}, bytes(512)), mode),
        "rgb_16_bit_planes.tif": (
            tiff_file({**of_four, 258: [16] * 3, 277: [3], 284: [2]}, bytes(384), strips=3),
            mode,
        ),
        "premultiplied.tif": (tiff_file({**of_four, 338: [1]}, bytes(256)), mode),
        "huge.tif": (huge_tiff, large),
        "cut.ppm": (ppm[: len(ppm) // 2], cut),
        "huge.ppm": (b"P6\n100000 100000\n255\n" + bytes(100), large),
        "letters.ppm": (b"P6\nabc def\n255\n" + bytes(100), corrupt),
        "letters_for_pixels.ppm": (b"P3\n2 1\n255\n1 2 three 4 5 6\n", corrupt),
    }
