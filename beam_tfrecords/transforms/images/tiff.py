"""Corrects or rejects TIFF files that Pillow 12 reads wrongly without an error.

The channels of a file are the ones it declares (SamplesPerPixel and ExtraSamples), not those of Pillow's mode.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import zlib
from collections.abc import Iterator
from typing import IO

import numpy as np
from PIL import Image, ImageFile, TiffImagePlugin

from beam_tfrecords.errors import FailureReason
from beam_tfrecords.transforms.images.decode_errors import decode_error, unsupported

# Tags (TIFF 6.0).
_SUBFILE, _BITS, _COMPRESSION, _PHOTOMETRIC, _SAMPLES, _PLANAR = 254, 258, 259, 262, 277, 284
_EXTRA_SAMPLES, _SAMPLE_FORMAT, _DNG_VERSION = 338, 339, 50706
_UNCOMPRESSED, _FAX, _DEFLATE = 1, (2, 3, 4), (8, 32946)
_WHITE_IS_ZERO, _GREY, _RGB, _YCBCR = 0, 1, 2, 6
_SIGNED, _FLOAT = 2, 3
_APART = 2
# Photometric interpretation -> channels with a color: RGB, CMYK, YCbCr, CIELab; all others have one.
_COLORS = {_RGB: 3, 5: 4, _YCBCR: 3, 8: 3}
# Values of the first extra channel that mean transparency; Corel Draw writes 999.
_PREMULTIPLIED, _ALPHA, _ALPHAS = 1, 2, (1, 2, 999)
_BIG_ENDIAN_BIG_TIFF = b"MM\0+"
# Tags with the offsets and bytes of strips, and of tiles (TIFF 6.0, sections 3 and 15).
_PLACES = ((273, 279), (324, 325))
# Compressed bytes that are inflated at once, to 16 MB at most.
_AT_ONCE = 1 << 14
# Pillow's raw mode of a big-endian file -> the raw mode in native byte order, which libtiff returns.
_NATIVE = {"F;32BF": "F;32NF", "I;16BS": "I;16NS", "I;32BS": "I;32NS"}
# libtiff prints its errors without the name of the file unless a handler takes them.
_LONGEST_ERROR = 200
# Finds libtiff among the libraries that Pillow is linked with. A libtiff inside Pillow is not found, and still prints.
_linked = ctypes.CDLL(Image.core.__file__)
_set_handler = getattr(_linked, "TIFFSetErrorHandler", None)
_vsnprintf = ctypes.CDLL(None).vsnprintf
_vsnprintf.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p]
_heard = threading.local()


@ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)
def _hear(_: bytes, template: bytes, values: int) -> None:
    """Handles an error as a TIFFErrorHandler: takes a printf template, and a va_list passed as an address."""
    text = ctypes.create_string_buffer(_LONGEST_ERROR)
    _vsnprintf(text, _LONGEST_ERROR, template, values)
    if hasattr(_heard, "errors"):
        _heard.errors.append(" ".join(text.value.decode(errors="replace").split()))


if _set_handler is not None:
    _set_handler(_hear)


@contextlib.contextmanager
def libtiff_errors() -> Iterator[list[str]]:
    """Yields a list that receives the errors of libtiff in the block, in order."""
    _heard.errors = []
    try:
        yield _heard.errors
    finally:
        del _heard.errors


class TiffImage(TiffImagePlugin.TiffImageFile):
    """A TIFF file that is decoded with the channels it declares, or rejected."""

    def _setup(self) -> None:
        _check_kind(self.tag_v2)
        if self.tag_v2.get(_PHOTOMETRIC) == _GREY and self.tag_v2.get(_SAMPLES) == 2:
            # Pillow decodes the second channel as transparency only if the tag says so.
            self.tag_v2[_EXTRA_SAMPLES] = (_ALPHA,)
        super()._setup()


def open_tiff(file: IO[bytes]) -> TiffImage:
    """Opens a TIFF file, corrected so that Pillow decodes it properly.

    Raises:
      SampleError: reason `unsupported_format` or `unsupported_mode`.
    """
    if file.read(4) == _BIG_ENDIAN_BIG_TIFF:
        raise unsupported("TIFF of the 64-bit kind (BigTIFF), in big-endian order")
    file.seek(0)
    image = TiffImage(file)
    image.tile = [_correct_tile(tile, image) for tile in image.tile]
    return image


def _check_kind(tags: TiffImagePlugin.ImageFileDirectory_v2) -> None:
    """Rejects camera raw files, whose first image is only a small preview, and kinds that Pillow reads wrongly."""
    if _DNG_VERSION in tags or tags.get(_SUBFILE, 0) == 1:
        detail = "camera raw files (DNG, NEF, ...) cannot be decoded"
        raise decode_error(FailureReason.UNSUPPORTED_FORMAT, detail)
    sample_format, photometric = max(tags.get(_SAMPLE_FORMAT, (1,))), tags.get(_PHOTOMETRIC)
    compression = tags.get(_COMPRESSION, _UNCOMPRESSED)
    samples, extra = tags.get(_SAMPLES, 1), tags.get(_EXTRA_SAMPLES, ())
    colors = _COLORS.get(photometric or 0, 1)
    # All readers take an undeclared second channel after gray as transparency; a fourth one may be near infrared.
    has_alpha = extra[0] in _ALPHAS if extra else photometric == _GREY and samples == 2
    if compression not in TiffImagePlugin.COMPRESSION_INFO:
        kind = f"of compression {compression}"
    elif samples > colors + has_alpha:
        kind = f"with {samples} channels, {samples - colors - has_alpha} of them neither color nor transparency"
    elif samples > 1 and tags.get(_PLANAR) == _APART:
        kind = "with channels apart"
    elif extra[:1] == (_PREMULTIPLIED,):
        kind = "with colors that are multiplied by their transparency"
    elif sample_format == _SIGNED and bits_of(tags) == 8:
        kind = "with signed numbers of 8 bits"
    elif sample_format == _FLOAT and photometric == _WHITE_IS_ZERO:
        kind = "with floats in which 0 is white"
    elif photometric == _YCBCR and compression == _UNCOMPRESSED:
        kind = "with YCbCr without compression"
    else:
        return
    raise unsupported(f"TIFF {kind}")


def _correct_tile(tile: ImageFile._Tile, image: TiffImage) -> ImageFile._Tile:
    assert isinstance(tile.args, tuple)
    rawmode, *rest = tile.args
    if tile.codec_name == "libtiff":
        rawmode = _NATIVE.get(rawmode, rawmode)
    if image.mode in ("1", "L") and _PHOTOMETRIC not in image.tag_v2 and image.tag_v2.get(_COMPRESSION) not in _FAX:
        # If the file does not declare it, Pillow takes 0 as white, but libtiff and other readers as black.
        rawmode = rawmode.replace("I", "").rstrip(";")
    return tile._replace(args=(rawmode, *rest))


def check_tiff_checksums(data: bytes, image: TiffImage) -> None:
    """Checks the checksums of Deflate-compressed data, which libtiff ignores.

    Raises:
      zlib.error: the data is damaged.
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


def correct_tiff(image: TiffImage) -> None:
    """Corrects the pixels of a decoded TIFF file."""
    if image.mode != "I;16":
        return
    if bits_of(image.tag_v2) == 12:
        image.frombytes((np.asarray(image) << 4).tobytes())
    elif image.tag_v2.get(_PHOTOMETRIC) == _WHITE_IS_ZERO:
        image.frombytes((~np.asarray(image)).tobytes())


def bits_of(tags: TiffImagePlugin.ImageFileDirectory_v2) -> int:
    """Returns the bits per channel of a file."""
    bits = tags.get(_BITS, (1,))
    return max(bits if isinstance(bits, tuple) else (bits,))
