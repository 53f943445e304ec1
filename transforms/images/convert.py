"""One image from the bytes of its file to what is stored of it."""

from __future__ import annotations

import dataclasses

from PIL import Image, ImageFile

from transforms.images.color import stored_channels, to_channels, to_srgb
from transforms.images.decode import is_whole_jpeg, load_pixels, open_image, stored_size
from transforms.images.encode import COLORSPACES, encode
from transforms.images.fast_jpeg import convert_plain_jpeg
from transforms.images.fast_resize import fast_resize
from transforms.images.jpeg_header import JPEG_START, parse_jpeg_header
from transforms.images.orient import orient, orientation_of
from transforms.images.refusals import check_pixels
from transforms.images.resize import FILTERS, SizePlan, plan_size, resize
from transforms.images.shrink import shrink_large
from transforms.images.spec import Check, Codec, ConvertedImage, ImageEncoding, ImageSpec, Resample

# JPEG holds no transparency, WebP no grey.
_IMPOSSIBLE = ((ImageEncoding.JPEG, 4), (ImageEncoding.WEBP, 1))
_KEPT_ENCODINGS = {"jpeg": ImageEncoding.JPEG, "png": ImageEncoding.PNG, "webp": ImageEncoding.WEBP}


def convert_image(data: bytes, spec: ImageSpec) -> ConvertedImage:
    """Validates, decodes, turns, resizes and encodes one image; pure.

    Args:
      data: the file's bytes, whatever they are.
      spec: what is asked.

    Raises:
      SampleError: the bytes are no image, or none that can be taken; the only error there is.
    """
    if spec.encoding is ImageEncoding.KEEP:
        return _keep(data, spec)
    if spec.codec is Codec.FAST and data.startswith(JPEG_START):
        converted = convert_plain_jpeg(data, spec)
        if converted is not None:
            return converted
    name, image = open_image(data, max_pixels=spec.max_pixels)
    picture = load_pixels(data, name, image, allow_truncated=spec.allow_truncated)
    return encode(_as_asked(picture, spec), spec.encoding, quality=spec.jpeg_quality)


def _describe(data: bytes, name: str, image: ImageFile.ImageFile) -> ConvertedImage:
    height, width = stored_size(image)
    channels = stored_channels(image)
    return ConvertedImage(data, name, height, width, channels, COLORSPACES[channels])


def _keep(data: bytes, spec: ImageSpec) -> ConvertedImage:
    """The source's own bytes, unless the request asks for a change that this image needs.

    Then it is encoded anew: in its own format if that is JPEG, PNG or WebP, else as PNG. A size is a
    request about the picture as it is seen, so with a size an EXIF orientation is applied too; without,
    it stays in the file, and height and width are those of the stored picture.
    """
    plain = _keep_plain_jpeg(data, spec)
    if plain is not None:
        return plain
    name, image = open_image(data, max_pixels=spec.max_pixels)
    kept = _describe(data, name, image)
    if _needs_change(image, kept, spec):
        encoding = _KEPT_ENCODINGS.get(name, ImageEncoding.PNG)
        if (encoding, spec.channels) in _IMPOSSIBLE:
            encoding = ImageEncoding.PNG
        return convert_image(data, dataclasses.replace(spec, encoding=encoding))
    if spec.check is Check.DECODE:
        whole = name == "jpeg" and not spec.allow_truncated and is_whole_jpeg(data)
        if not whole:
            load_pixels(data, name, image, allow_truncated=spec.allow_truncated)
    return kept


def _keep_plain_jpeg(data: bytes, spec: ImageSpec) -> ConvertedImage | None:
    """A plain JPEG of which no change is asked; Pillow takes longer to open it than all else that is done with it."""
    header = parse_jpeg_header(data) if data.startswith(JPEG_START) and spec.size is None else None
    if header is None or not header.is_plain or spec.channels not in (None, header.components):
        return None
    check_pixels(header.height, header.width, spec.max_pixels)
    if spec.check is Check.DECODE and (spec.allow_truncated or not is_whole_jpeg(data)):
        return None
    channels = header.components
    return ConvertedImage(data, "jpeg", header.height, header.width, channels, COLORSPACES[channels])


def _needs_change(image: ImageFile.ImageFile, stored: ConvertedImage, spec: ImageSpec) -> bool:
    if spec.channels not in (None, stored.channels):
        return True
    if spec.size is None:
        return False
    plan = plan_size(stored.height, stored.width, spec)
    unchanged = SizePlan(stored.height, stored.width, stored.height, stored.width)
    return plan != unchanged or orientation_of(image) != 1


def _as_asked(picture: Image.Image, spec: ImageSpec) -> Image.Image:
    """From the decoded picture to an upright one in sRGB, with the channels and the size of the request."""
    channels = spec.channels or stored_channels(picture)
    if spec.encoding is ImageEncoding.JPEG:
        channels = min(channels, 3)

    def convert(part: Image.Image) -> Image.Image:
        return to_channels(to_srgb(part), channels)

    orientation = orientation_of(picture)
    turned = orientation >= 5
    plan = plan_size(*(picture.size if turned else picture.size[::-1]), spec)
    check_pixels(plan.height, plan.width, spec.max_pixels)
    filtered = spec.resample not in (Resample.NEAREST, Resample.BOX)
    if spec.codec is Codec.FAST and filtered:
        size = (plan.height, plan.width) if turned else (plan.width, plan.height)
        small = shrink_large(picture, convert, size, FILTERS[spec.resample])
        if small is not None:
            return resize(orient(small, orientation), plan, spec.resample)
    picture = orient(convert(picture), orientation)
    if spec.codec is Codec.FAST and picture.mode != "RGBA" and picture.size != (plan.width, plan.height):
        picture = fast_resize(picture, plan.height, plan.width, spec.resample)
    return resize(picture, plan, spec.resample)
