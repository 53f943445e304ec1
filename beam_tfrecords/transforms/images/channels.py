"""Plans which channels of an image are stored. A channel of the file is never replaced by a constant."""

from __future__ import annotations

from PIL import Image

from beam_tfrecords.errors import FailureReason
from beam_tfrecords.transforms.images.color import FOUR_COLORS, stored_channels
from beam_tfrecords.transforms.images.decode_errors import decode_error
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.images.tiff import spare_channels

# Encodings that can store any fourth channel. WebP cannot, because it changes colors where this channel is 0.
_HOLD_FOUR = (ImageEncoding.PNG, ImageEncoding.RAW)


def plan_channels(image: Image.Image, spec: ImageSpec) -> tuple[int, int]:
    """Returns the number of channels to store of a decoded image, and the number of other channels that are left out.

    Transparency does not count as left out.

    Raises:
      SampleError: reason `unsupported_mode`; 4 channels would need a made-up transparency beside other extra channels.
    """
    has = stored_channels(image)
    if image.mode == FOUR_COLORS and spec.image_encoding not in _HOLD_FOUR:
        has = 3
    channels = spec.channels or has
    if spec.image_encoding is ImageEncoding.JPEG:
        channels = min(channels, 3)
    left_out = spare_channels(image)
    if image.mode == FOUR_COLORS and has == channels == 4:
        left_out -= 1
    if left_out and has < channels == 4:
        detail = f"`channels=4` would make up a transparency for a file with other channels: {left_out}"
        raise decode_error(FailureReason.UNSUPPORTED_MODE, f"{detail}; `channels=3` leaves these out")
    return channels, left_out
