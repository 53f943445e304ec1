"""Computes digests of results for a small fixed image, which differ between machines that would write other bytes.

The versions of libraries do not show this: zlib comes from the system, and code for another processor may round
differently.
"""

from __future__ import annotations

import functools
import hashlib
import io
import zlib
from collections.abc import Callable, Mapping, Sequence

import cv2
import numpy as np
import simplejpeg
from PIL import Image

from beam_tfrecords.transforms.images import PROBED_STEPS
from beam_tfrecords.transforms.images.object_masks import encode_mask
from beam_tfrecords.transforms.images.quality import measure_array, measure_together
from beam_tfrecords.transforms.images.resize import FILTERED, FILTERS, resize_array

_HEIGHT, _WIDTH = 67, 83
# Height and width of the resized image: reduced, enlarged, and one of each.
_SIZES = ((31, 50), (90, 101), (40, 120))


@functools.cache
def probe_digests() -> Mapping[str, str]:
    """Returns name of a step -> digest of its result on this machine, 8 hex digits."""
    image = _make_image()
    return {
        name: hashlib.blake2b(make(image), digest_size=4).hexdigest()
        for name, make in zip(PROBED_STEPS, _STEPS, strict=True)
    }


def _make_image() -> np.ndarray:
    """Makes the fixed image, [H, W, 3] uint8: ramps, and noise from a multiplicative hash."""
    number = np.arange(_HEIGHT * _WIDTH * 3, dtype=np.uint32).reshape(_HEIGHT, _WIDTH, 3)
    noise = (number * np.uint32(2_654_435_761)) >> 26
    return (noise + number[:, :1] // 97 + number[:1] // 2).astype(np.uint8)


def _resize(image: np.ndarray) -> bytes:
    made = [Image.fromarray(image).resize(size[::-1], FILTERS[one]).tobytes() for one in FILTERED for size in _SIZES]
    for height, width in _SIZES:
        scale = _HEIGHT / height, _WIDTH / width
        for one in FILTERED:
            made.append(resize_array(image, height, width, one, scale=scale).tobytes())
            made.append(resize_array(image[..., 0], height, width, one, scale=scale).tobytes())
    return b"".join(made)


def _resize_16_bit(image: np.ndarray) -> bytes:
    wide = np.dstack([image, image[..., 0]]).astype(np.uint16) * 251
    forms = wide[..., 0], wide[..., :3], wide
    kinds = zip(_SIZES, FILTERED, strict=True)
    return b"".join(resize_array(pixels, *size, one).tobytes() for size, one in kinds for pixels in forms)


def _measure(image: np.ndarray) -> bytes:
    found = [measure_array(np.ascontiguousarray(pixels), "RGB") for pixels in (image, image[:40, :30])]
    return repr(measure_together(found)).encode()


def _jpeg(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=95)
    data = file.getvalue()
    half = simplejpeg.decode_jpeg(data, "RGB", min_height=_HEIGHT // 2, min_width=_WIDTH // 2)
    with Image.open(io.BytesIO(data)) as opened:
        return data + opened.tobytes() + half.tobytes() + cv2.imencode(".jpg", image)[1].tobytes()


def _webp(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "WEBP", quality=90)
    return file.getvalue()


def _deflate(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    gzip = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    made = file.getvalue(), cv2.imencode(".png", image)[1].tobytes(), encode_mask(image[..., 0] >> 6)
    return b"".join((*made, gzip.compress(image.tobytes()), gzip.flush()))


_STEPS: Sequence[Callable[[np.ndarray], bytes]] = (_resize, _resize_16_bit, _measure, _jpeg, _webp, _deflate)
