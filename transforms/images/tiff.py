"""What Pillow 12 reads wrongly of TIFF files without an error: it is put right, or rejected."""

from __future__ import annotations

import zlib
from typing import IO

import numpy as np
from PIL import ImageFile, TiffImagePlugin

from beam_tfrecords.errors import FailureReason
from beam_tfrecords.transforms.images.decode_errors import decode_error

# Tags (TIFF 6.0).
_SUBFILE, _BITS, _COMPRESSION, _PHOTOMETRIC, _SAMPLE_FORMAT, _DNG_VERSION = 254, 258, 259, 262, 339, 50706
_UNCOMPRESSED, _FAX, _DEFLATE = 1, (2, 3, 4), (8, 32946)
_WHITE_IS_ZERO, _YCBCR = 0, 6
_SIGNED, _FLOAT = 2, 3
# Where strips, or tiles, begin, and their bytes (TIFF 6.0, sections 3 and 15).
_PLACES = ((273, 279), (324, 325))
# Inflated, they are 16 MB at most.
_AT_ONCE = 1 << 14
# Kinds in the order of bytes of a big-endian file -> in that of this machine, which libtiff returns.
_NATIVE = {"F;32BF": "F;32NF", "I;16BS": "I;16NS", "I;32BS": "I;32NS"}


def open_tiff(file: IO[bytes]) -> TiffImagePlugin.TiffImageFile:
    """Opens a file that will be decoded as it is meant."""
    image = TiffImagePlugin.TiffImageFile(file)
    image.tile = [_correct_tile(tile, image) for tile in image.tile]
    return image


def check_tiff_kind(image: TiffImagePlugin.TiffImageFile) -> None:
    """Rejects camera raw files, whose first image is only a small preview, and what Pillow does not read rightly.

    Raises:
      SampleError: reason `unsupported_format` or `unsupported_mode`.
    """
    tags = image.tag_v2
    if _DNG_VERSION in tags or tags.get(_SUBFILE, 0) == 1:
        detail = "camera raw files (DNG, NEF, ...) cannot be decoded"
        raise decode_error(FailureReason.UNSUPPORTED_FORMAT, detail)
    sample_format, photometric = max(tags.get(_SAMPLE_FORMAT, (1,))), tags.get(_PHOTOMETRIC)
    if sample_format == _SIGNED and bits_of(image) == 8:
        kind = "signed numbers of 8 bits"
    elif sample_format == _FLOAT and photometric == _WHITE_IS_ZERO:
        kind = "floats in which 0 is white"
    elif photometric == _YCBCR and tags.get(_COMPRESSION, _UNCOMPRESSED) == _UNCOMPRESSED:
        kind = "YCbCr without compression"
    else:
        return
    raise decode_error(FailureReason.UNSUPPORTED_MODE, f"TIFF with {kind}")


def _correct_tile(tile: ImageFile._Tile, image: TiffImagePlugin.TiffImageFile) -> ImageFile._Tile:
    assert isinstance(tile.args, tuple)
    rawmode, *rest = tile.args
    if tile.codec_name == "libtiff":
        rawmode = _NATIVE.get(rawmode, rawmode)
    elif len(rawmode) == 1 and bits_of(image) == 16:
        # One channel of several that are apart.
        rawmode += ";16L" if image.tag_v2.prefix == b"II" else ";16B"
    if image.mode in ("1", "L") and _PHOTOMETRIC not in image.tag_v2 and image.tag_v2.get(_COMPRESSION) not in _FAX:
        # Pillow takes 0 for white where the file does not say it, libtiff and others for black.
        rawmode = rawmode.replace("I", "").rstrip(";")
    return tile._replace(args=(rawmode, *rest))


def check_tiff_checksums(data: bytes, image: TiffImagePlugin.TiffImageFile) -> None:
    """Checks that no bit has changed since a file was compressed by Deflate; libtiff does not look at the checksums.

    Raises:
      zlib.error: one has.
    """
    if image.tag_v2.get(_COMPRESSION) not in _DEFLATE:
        return
    for starts, counts in _PLACES:
        for start, count in zip(image.tag_v2.get(starts, ()), image.tag_v2.get(counts, ()), strict=False):
            inflater = zlib.decompressobj()
            for at in range(start, start + count, _AT_ONCE):
                inflater.decompress(data[at : min(at + _AT_ONCE, start + count)])
                if inflater.eof:
                    break


def correct_tiff(image: TiffImagePlugin.TiffImageFile) -> None:
    """Corrects the pixels of a decoded file."""
    if image.mode != "I;16":
        return
    if bits_of(image) == 12:
        image.frombytes((np.asarray(image) << 4).tobytes())
    elif image.tag_v2.get(_PHOTOMETRIC) == _WHITE_IS_ZERO:
        image.frombytes((~np.asarray(image)).tobytes())


def bits_of(image: TiffImagePlugin.TiffImageFile) -> int:
    """Bits per channel, of an opened file."""
    bits = image.tag_v2.get(_BITS, (1,))
    return max(bits if isinstance(bits, tuple) else (bits,))
