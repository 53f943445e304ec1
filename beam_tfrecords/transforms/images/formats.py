"""Recognises the format of a file by its first bytes, and checks that the file is complete."""

from __future__ import annotations

import re
import struct
import zlib

import numpy as np

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.transforms.images.decode_errors import decode_error
from beam_tfrecords.transforms.images.jpeg_header import JPEG_START

# Maximum number of bytes that `sniff` reads.
SNIFFED_BYTES = 1024

PNG_START = b"\x89PNG\r\n\x1a\n"
# Formats that are decoded: (first bytes, name).
_SUPPORTED = (
    (JPEG_START, "jpeg"),
    (PNG_START, "png"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"II*\0", "tiff"),
    (b"MM\0*", "tiff"),
    (b"II+\0", "tiff"),
    (b"MM\0+", "tiff"),
    (b"BM", "bmp"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "jpeg2000"),
    (b"\xff\x4f\xff\x51", "jpeg2000"),
)
# Sizes of the second header of a BMP, which tell it from texts that start with BM.
_BMP_HEADERS = (12, 40, 52, 56, 64, 108, 124)
# Size of the smallest header with a compression, and the compression by run lengths of 4 bits.
_BMP_COMPRESSED, _BMP_RLE4 = 40, b"\2\0\0\0"
# Image formats that no decoder here reads.
_UNSUPPORTED = (
    (b"\xff\x0a", "JPEG XL"),
    (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
    (b"8BPS", "Photoshop"),
    (b"gimp xcf", "GIMP"),
    (b"\x76\x2f\x31\x01", "OpenEXR"),
    (b"#?RADIANCE", "Radiance HDR"),
    (b"DDS ", "DirectDraw surface"),
    (b"qoif", "QOI"),
    (b"SIMPLE  =", "FITS"),
    (b"\0\0\1\0", "Windows icon"),
    (b"icns", "Apple icon"),
    (b"%!PS", "PostScript"),
    (b"\xc5\xd0\xd3\xc6", "PostScript"),
    (b"AT&TFORM", "DjVu"),
    (b"FUJIFILMCCD-RAW", "camera raw (RAF)"),
    (b"IIRO", "camera raw (ORF)"),
    (b"IIU\0", "camera raw (RW2)"),
)
# Other contents that are common in files named like images.
_OTHER = (
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "a GZIP file"),
    (b"{", "JSON"),
    (b"\x93NUMPY", "an array of NumPy, which `layout=array` stores"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself"),
)
# Brands of ISO base media files (ISO/IEC 14496-12), the container of AVIF and HEIC.
_AVIF_BRANDS = (b"avif", b"avis")
_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")

_LONGEST_PPM_HEADER = 1 << 16
_USUAL_PPM_HEADER = 256

# Markers of codestreams: the end of JPEG and JPEG 2000, and the starts of the header and of the data of JPEG 2000.
_END, _JPEG2000_START, _JPEG2000_DATA = b"\xff\xd9", b"\xff\x4f\xff\x51", b"\xff\x93"
# Tags of a TIFF: offsets and bytes of strips, offsets and bytes of tiles.
_TIFF_PIXELS = 273, 279, 324, 325
# Type of a tag's values -> its size in bytes; and the integer types.
_TIFF_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_TIFF_NUMBERS = (3, 4, 16)


def sniff(data: bytes) -> str:
    """Returns the lower-case name of a file's format ("jpeg", "png", "gif", ...), from its first bytes.

    Raises:
      SampleError: the file is empty, not an image, or in a format that cannot be decoded; the detail names the format.
    """
    if not data:
        raise decode_error(FailureReason.EMPTY, "the file has no bytes")
    for magic, name in _SUPPORTED:
        if data.startswith(magic) and (name != "bmp" or len(data) < 18 or data[14] in _BMP_HEADERS):
            return name
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    if data[:1] == b"P" and data[1:2] in b"123456Ff" and data[2:3] in (b" ", b"\t", b"\r", b"\n", b"#"):
        return "ppm"
    if data[4:8] == b"ftyp":
        return _sniff_brands(data)
    for magic, kind in _UNSUPPORTED:
        if data.startswith(magic):
            raise _unsupported(kind)
    start = data[:SNIFFED_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"<svg") or (start.startswith(b"<?xml") and b"<svg" in start):
        raise _unsupported("SVG")
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<head", b"<script")):
        raise _not_an_image("an HTML or XML page")
    for magic, kind in _OTHER:
        if data.startswith(magic):
            raise _not_an_image(kind)
    if not data.strip(b"\0"):
        raise decode_error(FailureReason.NOT_AN_IMAGE, "every byte is zero")
    raise decode_error(FailureReason.NOT_AN_IMAGE, f"unknown image format; the first bytes are {repr(data[:8])[1:]}")


def may_be_an_image(start: bytes) -> bool:
    """Whether a file with this start may be an image, maybe a damaged one: True for empty and zeroed files."""
    if not start.strip(b"\0"):
        return True
    try:
        sniff(start)
    except SampleError as error:
        return error.reason is not FailureReason.NOT_AN_IMAGE
    return True


def _sniff_brands(data: bytes) -> str:
    """Returns "avif" or "heic", or raises an error that names the content of the container."""
    end = min(struct.unpack_from(">I", data)[0], len(data), 256)
    brands = {data[8:12]} | {data[i : i + 4] for i in range(16, end - 3, 4)}
    if brands.intersection(_AVIF_BRANDS):
        return "avif"
    if brands.intersection(_HEIC_BRANDS):
        return "heic"
    if b"crx " in brands:
        raise _unsupported("camera raw (CR3)")
    raise _not_an_image("a video or audio file")


def _unsupported(kind: str) -> SampleError:
    return decode_error(FailureReason.UNSUPPORTED_FORMAT, f"{kind} files cannot be decoded")


def _not_an_image(kind: str) -> SampleError:
    return decode_error(FailureReason.NOT_AN_IMAGE, f"the file is {kind}")


def webp_size(data: bytes) -> tuple[int, int] | None:
    """Returns (height, width) from the header of a WebP file (RFC 9649), or None if the header is damaged.

    libwebp allocates two canvases when it opens a file, so the limit has to be checked before.
    """
    kind = data[12:16]
    if kind == b"VP8X" and len(data) >= 30:
        width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
    elif kind == b"VP8L" and len(data) >= 25:
        bits = int.from_bytes(data[21:25], "little")
        width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    elif kind == b"VP8 " and len(data) >= 30:
        width, height = (value & 0x3FFF for value in struct.unpack_from("<HH", data, 26))
    else:
        return None
    return height, width


def png_depth(data: bytes) -> int:
    """Returns the bits per channel of a PNG, from its header."""
    return data[24]


def jpeg2000_depth(data: bytes) -> int:
    """Returns the bits of the first channel of a JPEG 2000, unless it is truncated (ISO/IEC 15444-1, A.5.1)."""
    at = data.find(_JPEG2000_START) + 42
    return 1 + (int.from_bytes(data[at : at + 1], "big") & 0x7F)


def ppm_maximum(data: bytes) -> int:
    """Returns the value of white in a PPM or PGM file (Netpbm's ppm(5)); 1 for other kinds of the family."""
    is_number = data[1:2] in b"2356"
    tokens = re.sub(rb"#[^\r\n]*", b"", data[:_LONGEST_PPM_HEADER]).split(maxsplit=4)
    return int(tokens[3]) if is_number and len(tokens) > 3 and tokens[3].isdigit() else 1


def check_bmp_kind(data: bytes) -> None:
    """Rejects BMPs with run lengths of 4 bits, because Pillow 12 decodes them to wrong pixels.

    Raises:
      SampleError: reason `unsupported_mode`.
    """
    if data[30:34] == _BMP_RLE4 and data[14] >= _BMP_COMPRESSED:
        raise decode_error(FailureReason.UNSUPPORTED_MODE, "BMP with run lengths of 4 bits")


def check_ppm_header(data: bytes) -> None:
    """Checks that the numbers of a PPM's header are near its start, since Pillow reads comments byte by byte.

    Raises:
      SampleError: reason `corrupt`.
    """
    needed = 3 if data[1:2] in b"14" else 4
    # Tries a short header first: searching the pixels for comments takes longer than decoding them.
    for size in (_USUAL_PPM_HEADER, _LONGEST_PPM_HEADER):
        tokens = re.sub(rb"#[^\r\n]*", b"", data[:size]).split(maxsplit=needed)
        if len(tokens) >= needed or len(data) <= size:
            return
    detail = f"the header does not end within its first {_LONGEST_PPM_HEADER} bytes"
    raise decode_error(FailureReason.CORRUPT, detail)


def check_end(data: bytes, name: str) -> None:
    """Checks that a file reaches the end of its own structure, and the checksums of a PNG.

    Pillow accepts a PNG whose last bytes are missing and does not verify the checksums of its pixels. For formats whose
    structure shows no end, the decoder finds missing data; `decode.check_whole_jpeg` checks the scans of a JPEG.

    Raises:
      SampleError: reason `truncated` or `corrupt`.
    """
    if name == "png":
        _check_png(data)
    elif name == "webp":
        size = int.from_bytes(data[4:8], "little") + 8
        if size > len(data):
            raise _truncated(f"the header says {size} bytes, the file has {len(data)}")
    elif name == "jpeg2000" and not 0 <= data.find(_JPEG2000_DATA) < data.rfind(_END):
        raise _truncated(f"JPEG 2000 ends at byte {len(data)} without an end marker")


def check_cut(data: bytes, name: str) -> None:
    """Checks whether a missing end explains why a file could not be decoded.

    Raises:
      SampleError: reason `truncated`, or from `check_end`.
    """
    check_end(data, name)
    if name == "jpeg" and _END not in data:
        raise _truncated(f"JPEG ends at byte {len(data)} without an end marker")
    if name == "gif" and not data.rstrip(b"\0").endswith(b";"):
        raise _truncated(f"GIF ends at byte {len(data)} without a trailer")
    if name == "tiff" and (end := end_of_tiff(data)) > len(data):
        raise _truncated(f"the TIFF goes on to byte {end}, the file has {len(data)}")
    if name in ("avif", "heic") and (end := end_of_boxes(data)) > len(data):
        raise _truncated(f"the last box ends at byte {end}, the file has {len(data)}")


def _truncated(detail: str) -> SampleError:
    return decode_error(FailureReason.TRUNCATED, detail)


def _check_png(data: bytes) -> None:
    view, at = memoryview(data), 8
    while at + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if end > len(data):
            break
        if zlib.crc32(view[at + 4 : end - 4]) != struct.unpack_from(">I", data, end - 4)[0]:
            detail = f"wrong checksum in PNG chunk {kind!r} at byte {at}"
            raise decode_error(FailureReason.CORRUPT, detail)
        if kind == b"IHDR" and data[at + 18 : at + 20] != b"\0\0":
            raise decode_error(FailureReason.CORRUPT, "PNG of an unknown compression or filter method")
        if kind == b"IEND":
            return
        at = end
    raise _truncated(f"PNG ends at byte {len(data)} without an IEND chunk")


def end_of_tiff(data: bytes, at: int | None = None) -> int:
    """Returns the end offset of a directory, its values and its pixels (TIFF 6.0; BigTIFF has wider numbers).

    Args:
      at: where the directory is; None for the first one.

    Returns:
      A larger number than the size of the file if any of them reaches beyond its end.
    """
    order, is_big = ("<" if data.startswith(b"II") else ">"), 43 in data[2:4]
    number, counter, entry = ("Q", "Q", "HHQ8s") if is_big else ("I", "H", "HHI4s")
    pixels: dict[int, np.ndarray] = {}
    end = 8
    try:
        if at is None:
            at = 8 if is_big else 4
            (at,) = struct.unpack_from(order + number, data, at)
        (entries,) = struct.unpack_from(order + counter, data, at)
        at += struct.calcsize(order + counter)
        for _ in range(entries):
            tag, kind, count, place = struct.unpack_from(order + entry, data, at)
            at += struct.calcsize(order + entry)
            size, values = count * _TIFF_SIZES.get(kind, 0), memoryview(place)
            if size > len(place):
                (start,) = struct.unpack(order + number, place)
                values = memoryview(data)[start : start + size]
                end = max(end, start + size)
            if len(values) >= size and tag in _TIFF_PIXELS and kind in _TIFF_NUMBERS:
                pixels[tag] = np.frombuffer(values[:size], f"{order}u{_TIFF_SIZES[kind]}").astype(np.float64)
    except (struct.error, OverflowError):
        return max(at or 0, len(data)) + 1
    for starts, lengths in zip(_TIFF_PIXELS[::2], _TIFF_PIXELS[1::2], strict=True):
        most = min(len(pixels.get(starts, ())), len(pixels.get(lengths, ())))
        if most:
            end = max(end, int((pixels[starts][:most] + pixels[lengths][:most]).max()))
    return max(end, at)


def end_of_boxes(data: bytes) -> int:
    """Returns the end offset of the last box of an ISO base media file (ISO/IEC 14496-12, 4.2)."""
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if size == 1:
            size = int.from_bytes(data[at + 8 : at + 16], "big")
        if size < 8:  # to the end of the file, or damaged
            return len(data)
        at += size
    return at
