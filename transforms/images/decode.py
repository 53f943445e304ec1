"""From the bytes of a file to the picture that it holds, with every way of failing named."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable

import simplejpeg
from PIL import (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    ImageFile,
    Jpeg2KImagePlugin,
    JpegImagePlugin,
    PngImagePlugin,
    PpmImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from transforms.errors import FailureReason, SampleError
from transforms.images import formats
from transforms.images.jpeg_header import JpegHeader, parse_jpeg_header
from transforms.images.refusals import DECODER_ERRORS, check_pixels, decoder_errors, refusal

# Pillow's classes are called directly, not through Image.open: only the decoders named here ever see a
# file (no Ghostscript, for example), and the limit on pixels is ours alone, not a global of Pillow's.
_OPENERS: dict[str, Callable[[io.BytesIO], ImageFile.ImageFile]] = {
    "avif": AvifImagePlugin.AvifImageFile,
    "bmp": BmpImagePlugin.BmpImageFile,
    "gif": GifImagePlugin.GifImageFile,
    "jpeg": JpegImagePlugin.JpegImageFile,
    "jpeg2000": Jpeg2KImagePlugin.Jpeg2KImageFile,
    "png": PngImagePlugin.PngImageFile,
    "ppm": PpmImagePlugin.PpmImageFile,
    "tiff": TiffImagePlugin.TiffImageFile,
    "webp": WebPImagePlugin.WebPImageFile,
}
_TIFF_WIDTH, _TIFF_HEIGHT, _TIFF_SUBFILE, _TIFF_DNG = 256, 257, 254, 50706

# Baseline, extended, progressive, lossless; and the arithmetic-coded ones.
_JPEG_PROCESSES = (0xC0, 0xC1, 0xC2, 0xC3, 0xC9, 0xCA)

# What Pillow warns of (odd TIFF tags, APNG that is none) either does not matter or fails anyway.
warnings.filterwarnings("ignore", module=r"PIL\.")


def open_image(data: bytes, *, max_pixels: int) -> tuple[str, ImageFile.ImageFile]:
    """Reads the header only.

    Returns:
      The format's name in lower case, and an image whose pixels are not decoded yet.

    Raises:
      SampleError: no image, a format or a mode that cannot be decoded, or more than `max_pixels`.
    """
    name = formats.sniff(data)
    if name == "webp" and (size := formats.webp_size(data)):
        check_pixels(*size, max_pixels)
    if name == "jpeg" and (header := parse_jpeg_header(data)):
        _refuse_unusual_jpeg(header)
    try:
        with decoder_errors():
            image = _OPENERS[name](io.BytesIO(data))
    except SampleError:
        formats.check_cut(data, name)
        raise
    check_pixels(image.height, image.width, max_pixels)
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        _refuse_camera_raw(image)
    return name, image


def stored_size(image: ImageFile.ImageFile) -> tuple[int, int]:
    """(height, width) of the file as it is stored; Pillow's size of a TIFF is that of the turned picture."""
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        return int(image.tag_v2[_TIFF_HEIGHT]), int(image.tag_v2[_TIFF_WIDTH])
    return image.height, image.width


def load_pixels(data: bytes, name: str, image: ImageFile.ImageFile, *, allow_truncated: bool) -> Image.Image:
    """Decodes every pixel of the (first) picture of a file, in the mode that it has.

    Args:
      data: the file.
      name: its format.
      image: as `open_image` gives it.
      allow_truncated: take what there is of a file that ends too early; the rest stays grey or black.

    Raises:
      SampleError: reason `truncated` or `corrupt`.
    """
    try:
        _load_whole(data, name, image)
    except SampleError as error:
        if not allow_truncated or error.reason is not FailureReason.TRUNCATED:
            raise
        image = _load_truncated(data, name)
    if image.mode == "P" and image.palette is None:
        raise refusal(FailureReason.CORRUPT, "the palette is missing")
    return image


def is_whole_jpeg(data: bytes) -> bool:
    """Reads a JPEG to its end and refuses it if it is cut or broken; Pillow does not ask libjpeg for that.

    Every coefficient is decoded, but pixels are made at an eighth of the size, so this costs about half
    of a full decoding.

    Returns:
      False if only Pillow can tell (an unusual subsampling, for example).

    Raises:
      SampleError: reason `truncated` or `corrupt`.
    """
    header = parse_jpeg_header(data)
    if header is not None and not header.has_end(data):
        raise refusal(FailureReason.TRUNCATED, f"JPEG ends at byte {len(data)} without an end marker")
    try:
        simplejpeg.decode_jpeg(data, "GRAY", min_height=1, min_width=1, min_factor=8)
    except ValueError as error:
        refuse_broken_jpeg(str(error))
        return False
    return True


def refuse_broken_jpeg(message: str) -> None:
    """Raises if libjpeg's message means lost pixels.

    Other messages are about an odd header, or about a kind of JPEG that TurboJPEG cannot read.

    Raises:
      SampleError: reason `truncated` or `corrupt`.
    """
    if message.startswith("Premature end"):
        raise refusal(FailureReason.TRUNCATED, message)
    if message.startswith(("Corrupt JPEG data", "Inconsistent progression")) and "ICC" not in message:
        raise refusal(FailureReason.CORRUPT, message)


def _load_whole(data: bytes, name: str, image: ImageFile.ImageFile) -> None:
    if name == "jpeg":
        is_whole_jpeg(data)
    else:
        formats.check_end(data, name)
    try:
        with decoder_errors():
            image.load()
    except SampleError:
        formats.check_cut(data, name)
        raise


def _load_truncated(data: bytes, name: str) -> ImageFile.ImageFile:
    """What there is of a truncated file, without Pillow's process-wide LOAD_TRUNCATED_IMAGES."""
    # libjpeg fills the rest itself once it meets an end marker; Pillow's own switch does the same.
    end = b"\xff\xd9" if name == "jpeg" else b""
    with decoder_errors():
        image = _OPENERS[name](io.BytesIO(data + end))
    try:
        image.load()
    except DECODER_ERRORS:
        # The rows that were decoded are in memory. With tiles left, Pillow's load did not get to its end.
        if image.tile:
            image.tile = []
            with decoder_errors():
                image.load_end()
    with decoder_errors():
        image.load()
    return image


def _refuse_camera_raw(image: TiffImagePlugin.TiffImageFile) -> None:
    """Camera raw files are TIFFs whose first picture is a small preview: not what a person means."""
    if _TIFF_DNG in image.tag_v2 or image.tag_v2.get(_TIFF_SUBFILE, 0) == 1:
        detail = "camera raw files (DNG, NEF, ...) cannot be decoded"
        raise refusal(FailureReason.UNSUPPORTED_FORMAT, detail)


def _refuse_unusual_jpeg(header: JpegHeader) -> None:
    """Names the kinds of JPEG that libjpeg-turbo or Pillow cannot read."""
    if header.precision != 8:
        kind = f"{header.precision} bits per channel"
    elif header.components not in (1, 3, 4):
        kind = f"{header.components} channels"
    elif header.process not in _JPEG_PROCESSES:
        kind = f"process 0x{header.process:x} (hierarchical or differential)"
    else:
        return
    raise refusal(FailureReason.UNSUPPORTED_MODE, f"JPEG with {kind}")
