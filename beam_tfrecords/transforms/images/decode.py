"""Opens and decodes image files, with a reason for every failure."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import NamedTuple

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
    WebPImagePlugin,
)

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.extras import install_hint
from beam_tfrecords.transforms.images import formats
from beam_tfrecords.transforms.images.decode_errors import (
    DECODER_ERRORS,
    check_pixels,
    decode_error,
    decoder_errors,
    is_about_kind,
    raise_pillow_limit,
    unsupported,
)
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.images.jpeg_header import JpegHeader, bare_jpeg, parse_jpeg_header
from beam_tfrecords.transforms.images.memory import check_memory, decoding_memory, webp_memory
from beam_tfrecords.transforms.images.plain_png import parse_plain_png
from beam_tfrecords.transforms.images.tiff import (
    TiffImage,
    bits_of,
    check_tiff_checksums,
    correct_tiff,
    libtiff_errors,
    open_tiff,
)


def _open_heic(file: io.BytesIO) -> ImageFile.ImageFile:
    """Opens a HEIC file. libheif turns it upright, and converts more than 8 bits to 8."""
    try:
        from pillow_heif import HeifImageFile
    except ImportError as error:
        detail = f"HEIC files need an extra: {install_hint('heif')}"
        raise decode_error(FailureReason.UNSUPPORTED_FORMAT, detail) from error
    return HeifImageFile(file)


# Calls Pillow's classes directly instead of Image.open, so that no other decoder, such as Ghostscript, ever reads a
# file.
_OPENERS: dict[str, Callable[[io.BytesIO], ImageFile.ImageFile]] = {
    "avif": AvifImagePlugin.AvifImageFile,
    "bmp": BmpImagePlugin.BmpImageFile,
    "gif": GifImagePlugin.GifImageFile,
    "heic": _open_heic,
    "jpeg": JpegImagePlugin.JpegImageFile,
    "jpeg2000": Jpeg2KImagePlugin.Jpeg2KImageFile,
    "png": PngImagePlugin.PngImageFile,
    "ppm": PpmImagePlugin.PpmImageFile,
    "tiff": open_tiff,
    "webp": WebPImagePlugin.WebPImageFile,
}
_TIFF_WIDTH, _TIFF_HEIGHT = 256, 257
_LOSSLESS = 0xC3
# libjpeg's messages about lost pixels. Its other messages concern headers, or files that only Pillow reads.
_SCAN_DAMAGE = ("Premature end", "Inconsistent progression")


class OpenedImage(NamedTuple):
    """An image file, opened by Pillow.

    Attributes:
      data: the file.
      format: lower-case name of its format.
      image: the image; its pixels are decoded by `load`.
    """

    data: bytes
    format: str
    image: Image.Image

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of the image in the file. For a TIFF, Pillow itself gives the size after turning."""
        if isinstance(self.image, TiffImage):
            return int(self.image.tag_v2[_TIFF_HEIGHT]), int(self.image.tag_v2[_TIFF_WIDTH])
        return self.image.height, self.image.width

    @property
    def is_16_bit(self) -> bool:
        """Whether the values of the file have more than 8 bits, so that white is 65535."""
        if is_wide_grey(self.image):
            return True
        if isinstance(self.image, TiffImage):
            return bits_of(self.image.tag_v2) > 8
        return self.format == "png" and formats.png_depth(self.data) > 8

    def load(self, spec: ImageSpec) -> OpenedImage:
        """Decodes every pixel of the file's first image, in its own mode.

        Args:
          spec: `allow_truncated` accepts a file that ends too early; its missing pixels are gray or black.

        Raises:
          SampleError: reason `truncated`, `corrupt`, or `too_much_memory` if decoding takes more than
            `max_image_memory`.
        """
        data, name, image = self.data, self.format, self.image
        assert isinstance(image, ImageFile.ImageFile)
        check_memory(decoding_memory(data, name, image), spec, height=image.height, width=image.width)
        is_cut = False
        try:
            _load_whole(data, name, image)
        except SampleError as error:
            if not spec.allow_truncated or error.reason is not FailureReason.TRUNCATED:
                raise
            is_cut = True
        if is_cut:  # outside the handler, whose exception keeps the decoded pixels in memory
            image.close()
            image = _load_truncated(data, name)
        if image.mode == "P" and image.palette is None:
            raise decode_error(FailureReason.CORRUPT, "the palette is missing")
        if isinstance(image, TiffImage):
            correct_tiff(image)
        elif name == "png":
            _correct_key(data, image)
        return self._replace(image=image)


def open_image(data: bytes, spec: ImageSpec) -> OpenedImage:
    """Reads the header of a file.

    Raises:
      SampleError: the file is not an image, its format or mode cannot be decoded, it has more than `max_pixels`, or it
        is a WebP beyond `max_image_memory`, because libwebp allocates memory when it opens a file.
    """
    raise_pillow_limit(spec.max_pixels)
    name = formats.sniff(data)
    if name == "webp" and (size := formats.webp_size(data)):
        check_pixels(*size, spec.max_pixels)
        check_memory(webp_memory(data, *size), spec, height=size[0], width=size[1])
    if name == "ppm":
        formats.check_ppm_header(data)
    if name == "bmp":
        formats.check_bmp_kind(data)
    if name == "jpeg" and (header := parse_jpeg_header(data)):
        _check_jpeg_kind(header)
    try:
        with decoder_errors():
            image = _OPENERS[name](io.BytesIO(data))
    except SampleError as error:
        raise _explain(error, data, name) from error.__cause__
    check_pixels(image.height, image.width, spec.max_pixels)
    _check_depth(data, name, image)
    return OpenedImage(data, name, image)


def decode_image(data: bytes, spec: ImageSpec) -> OpenedImage:
    """Reads a file and decodes every pixel of its first image.

    Raises:
      SampleError: as `open_image` and `OpenedImage.load`.
    """
    raise_pillow_limit(spec.max_pixels)
    png = parse_plain_png(data, spec)
    image = png.load(spec) if png else None
    return OpenedImage(data, "png", image) if image is not None else open_image(data, spec).load(spec)


def is_wide_grey(image: Image.Image) -> bool:
    """Whether Pillow represents an image as one channel of more than 8 bits."""
    return image.mode in ("I", "F") or image.mode.startswith("I;16")


def check_whole_jpeg(data: bytes) -> bool:
    """Checks that a JPEG is complete, which Pillow does not check.

    Decodes every coefficient but only an eighth of the rows and columns, which takes half the time of full decoding.
    Decodes a file in full unless it is known to have DCT coefficients.

    Returns:
      Whether the check was possible. It is not for an unusual subsampling, for example.

    Raises:
      SampleError: reason `truncated` or `corrupt`.
    """
    header = parse_jpeg_header(data)
    if header is not None and not header.has_end(data):
        raise decode_error(FailureReason.TRUNCATED, f"JPEG ends at byte {len(data)} without an end marker")
    reduces = header is not None and header.is_reducible
    message = _first_jpeg_warning(data, reduces=reduces)
    if message and not message.startswith(_SCAN_DAMAGE):
        # libjpeg reports only its first warning, so one about the header would hide damage.
        message = _first_jpeg_warning(bare_jpeg(data) or data, reduces=reduces)
    if message.startswith("Premature end"):
        raise decode_error(FailureReason.TRUNCATED, message)
    if message.startswith((*_SCAN_DAMAGE, "Corrupt JPEG data")):
        raise decode_error(FailureReason.CORRUPT, message)
    return not message


def _first_jpeg_warning(data: bytes, *, reduces: bool) -> str:
    """Decodes a file in full or at 1/8 of its size; returns libjpeg's first error or warning, or ""."""
    size = {"min_height": 1, "min_width": 1, "min_factor": 8} if reduces else {}
    try:
        simplejpeg.decode_jpeg(data, "GRAY", **size)
    except ValueError as error:
        return str(error)
    return ""


def _load_whole(data: bytes, name: str, image: ImageFile.ImageFile) -> None:
    if name == "jpeg":
        check_whole_jpeg(data)
    else:
        formats.check_end(data, name)
    with libtiff_errors() as errors:
        try:
            with decoder_errors():
                image.load()
                if isinstance(image, TiffImage):
                    check_tiff_checksums(data, image)
        except SampleError as error:
            # Raised without a variable, because a frame that references its own exception would keep the pixels.
            raise _explain(decode_error(error.reason, errors[0]) if errors else error, data, name) from error.__cause__
    if errors:  # Pillow ignores some errors, and returns wrong pixels
        raise _explain(decode_error(FailureReason.CORRUPT, errors[0]), data, name)


def _explain(error: SampleError, data: bytes, name: str) -> SampleError:
    """Returns a decoder's error, with a more precise reason if the structure of the file shows one.

    Raises:
      SampleError: reason `truncated`, or from `formats.check_end`.
    """
    if error.reason is FailureReason.UNSUPPORTED_FORMAT:
        return error
    formats.check_cut(data, name)
    if is_about_kind(error):  # and the file is complete
        return decode_error(FailureReason.UNSUPPORTED_MODE, error.detail)
    return error


def _load_truncated(data: bytes, name: str) -> ImageFile.ImageFile:
    """Decodes a truncated file without Pillow's process-wide switch LOAD_TRUNCATED_IMAGES."""
    # At an end marker, libjpeg fills in the missing pixels, as with Pillow's switch.
    end = b"\xff\xd9" if name == "jpeg" else b""
    with decoder_errors():
        image = _OPENERS[name](io.BytesIO(data + end))
    try:
        image.load()
    except DECODER_ERRORS:
        # The decoded rows are in memory. Remaining tiles mean that Pillow's load was interrupted.
        if image.tile:
            image.tile = []
            with decoder_errors():
                image.load_end()
    with decoder_errors():
        image.load()
    return image


def _check_jpeg_kind(header: JpegHeader) -> None:
    """Rejects the kinds of JPEG that libjpeg-turbo or Pillow cannot read."""
    if header.precision != 8:
        kind = f"{header.precision} bits per channel"
    elif header.components not in (1, 3, 4):
        kind = f"{header.components} channels"
    elif not (header.is_reducible or header.process == _LOSSLESS):
        kind = f"process 0x{header.process:x} (hierarchical or differential)"
    else:
        return
    raise unsupported(f"JPEG with {kind}")


def _check_depth(data: bytes, name: str, image: ImageFile.ImageFile) -> None:
    """Rejects colors of more than 8 bits that Pillow decodes to wrong pixels: it turns white to black, for example."""
    if name == "png" and image.mode == "RGB" and "transparency" in image.info and formats.png_depth(data) > 8:
        raise unsupported("PNG with a transparent color of 3 x 16 bits")
    if name == "jpeg2000" and len(image.getbands()) > 1 and (depth := formats.jpeg2000_depth(data)) > 8:
        raise unsupported(f"JPEG 2000 with several channels of {depth} bits")


def _correct_key(data: bytes, image: Image.Image) -> None:
    """Scales the color key of a decoded PNG. Pillow stretches pixels of 2 and 4 bits to 8, but not the key.

    Ignores bits of the key beyond the depth of the file.
    """
    key, white = image.info.get("transparency"), (1 << formats.png_depth(data)) - 1
    if isinstance(key, tuple):
        image.info["transparency"] = tuple(value & white for value in key)
    elif image.mode == "L" and key is not None:
        image.info["transparency"] = (key & white) * (255 // white)
