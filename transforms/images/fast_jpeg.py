"""The short way for the files that nearly all data sets consist of: plain JPEGs.

Measured against Pillow's way on photos of 500x375 and 4000x3000 (see the benchmarks): TurboJPEG decodes to
an array at 1/2, 1/4 or 1/8 of the size where twice the target remains, which is also the check that the
file is whole; `fast_resize` takes a quarter of Pillow's time; OpenCV's encoder writes Pillow's very bytes
from that array, where simplejpeg's own would use a less exact transform below quality 96.
"""

from __future__ import annotations

import cv2
import numpy as np
import simplejpeg
from PIL import Image

from transforms.images.color import apply_profile, to_channels, to_srgb_transform
from transforms.images.encode import COLORSPACES, check_side, encode
from transforms.images.fast_resize import fast_resize_array
from transforms.images.jpeg_header import JpegHeader, parse_jpeg_header
from transforms.images.refusals import check_pixels
from transforms.images.resize import SizePlan, plan_size
from transforms.images.scratch import SCRATCH
from transforms.images.spec import ConvertedImage, ImageEncoding, ImageSpec, Resample

# A reduced decoding keeps at least this many times the target: 47 dB and more on our photos, where a
# factor of 1.5 has 41 dB.
_SPARE = 2


def convert_plain_jpeg(data: bytes, spec: ImageSpec) -> ConvertedImage | None:
    """What `convert_image` makes of a plain JPEG.

    Returns:
      None if the file is anything else, or is cut or broken: Pillow's way then names the reason.

    Raises:
      SampleError: reason `too_many_pixels`.
    """
    header = parse_jpeg_header(data)
    if header is None or not header.is_plain or not header.has_end(data):
        return None
    check_pixels(header.height, header.width, spec.max_pixels)
    orientation = header.orientation()
    turned = orientation >= 5
    size = (header.width, header.height) if turned else (header.height, header.width)
    plan = plan_size(*size, spec)
    check_pixels(plan.height, plan.width, spec.max_pixels)
    height, width = (plan.width, plan.height) if turned else (plan.height, plan.width)

    profile = header.icc_profile
    if profile and not to_srgb_transform(profile, "L" if header.components == 1 else "RGB"):
        profile = None
    if header.components == 1 or (spec.channels == 1 and profile is None):
        colors = "GRAY"
    else:
        colors = "RGB" if profile or spec.encoding is not ImageEncoding.JPEG else "BGR"
    pixels = _decode(data, header, height, width, spec.resample, colors)
    if pixels is None:
        return None
    if profile:
        pixels = np.asarray(apply_profile(Image.fromarray(pixels), profile))
    pixels = _fit(_turn(pixels, orientation), plan)
    if colors == "RGB" or spec.encoding is not ImageEncoding.JPEG:
        image = Image.fromarray(pixels)
        image = to_channels(image, spec.channels or len(image.getbands()))
        return encode(image, spec.encoding, quality=spec.jpeg_quality)
    return _encode_jpeg(pixels, spec)


def _decode(
    data: bytes, header: JpegHeader, height: int, width: int, resample: Resample, colors: str
) -> np.ndarray | None:
    """The stored picture at height x width: [H, W] (for "GRAY") or [H, W, 3] uint8; None if it is broken."""
    reduction = 1
    if resample not in (Resample.NEAREST, Resample.BOX):
        while reduction < 8 and min(header.height / height, header.width / width) >= 2 * reduction * _SPARE:
            reduction *= 2
    reduced_height, reduced_width = -(-header.height // reduction), -(-header.width // reduction)
    memory = SCRATCH.array("decoded", (reduced_height, reduced_width, 1 if colors == "GRAY" else 3))
    try:
        pixels = simplejpeg.decode_jpeg(data, colors, min_height=reduced_height, min_width=reduced_width, buffer=memory)
    except ValueError:
        return None
    if colors == "GRAY":
        pixels = pixels[:, :, 0]
    if (header.height, header.width) == (height, width):
        return pixels
    scale = header.height / reduction / height, header.width / reduction / width
    return fast_resize_array(pixels, height, width, scale=scale, resample=resample)


def _turn(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """The picture upright, from EXIF's orientation."""
    if orientation >= 5:
        pixels = cv2.transpose(pixels)
    flip = {2: 1, 3: -1, 4: 0, 6: 1, 7: -1, 8: 0}.get(orientation)
    return pixels if flip is None else cv2.flip(pixels, flip)


def _fit(pixels: np.ndarray, plan: SizePlan) -> np.ndarray:
    """Cuts the middle out, or lays the picture on the middle of a black canvas."""
    over_height, over_width = plan.height - plan.final_height, plan.width - plan.final_width
    if over_height > 0 or over_width > 0:
        top, left = over_height // 2, over_width // 2
        return pixels[top : top + plan.final_height, left : left + plan.final_width]
    if over_height < 0 or over_width < 0:
        top, left = -over_height // 2, -over_width // 2
        bottom, right = -over_height - top, -over_width - left
        return cv2.copyMakeBorder(pixels, top, bottom, left, right, cv2.BORDER_CONSTANT, value=0)
    return pixels


def _encode_jpeg(pixels: np.ndarray, spec: ImageSpec) -> ConvertedImage:
    """[H, W] grey or [H, W, 3] BGR uint8 -> the bytes that Pillow would write."""
    height, width = pixels.shape[:2]
    check_side(height, width, ImageEncoding.JPEG)
    if pixels.ndim == 2 and spec.channels == 3:
        pixels = cv2.cvtColor(pixels, cv2.COLOR_GRAY2BGR)
    _, file = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, spec.jpeg_quality])
    channels = 1 if pixels.ndim == 2 else 3
    return ConvertedImage(file.tobytes(), "jpeg", height, width, channels, COLORSPACES[channels])
