"""Colors, depths and transparency are converted to what a viewer shows."""

from __future__ import annotations

import numpy as np
from PIL import Image

from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec, Metadata, Resample
from tests.each import each
from tests.image_checks import encoded, pixels
from tests.image_writers import P3_COLORANTS, icc_profile


def stored(data: bytes, *, channels: int | None = 3, color_profile: Metadata = Metadata.APPLY) -> np.ndarray:
    """[H, W, C] uint8 pixels of a converted file."""
    spec = ImageSpec(
        image_encoding=ImageEncoding.RAW, channels=channels, codec=Codec.EXACT, color_profile=color_profile
    )
    return pixels(convert_image(data, spec))


def test_all_65536_levels_of_grey_are_rounded_to_the_nearest_of_256() -> None:
    levels = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    expected = np.round(levels / 257).astype(np.uint8)
    np.testing.assert_array_equal(stored(encoded(Image.fromarray(levels), "PNG"), channels=1)[..., 0], expected)


def test_colors_outside_srgb_are_clipped() -> None:
    red = Image.new("RGB", (2, 2), (255, 0, 0))
    assert stored(encoded(red, "PNG", icc_profile=icc_profile(P3_COLORANTS, 2.2)))[0, 0].tolist() == [255, 0, 0]
    green = Image.new("RGB", (2, 2), (0, 200, 0))
    seen = stored(encoded(green, "PNG", icc_profile=icc_profile(P3_COLORANTS, 2.2)))[0, 0]
    assert seen[1] > 203
    assert seen[0] == 0


@each("resample", Resample)
def test_invisible_pixels_do_not_color_a_transparent_edge(resample: Resample) -> None:
    image = Image.new("RGBA", (64, 64), (0, 255, 0, 0))
    image.paste((255, 0, 0, 255), (0, 0, 33, 64))
    spec = ImageSpec(image_size=(20, 20), image_encoding=ImageEncoding.RAW, channels=4, resample=resample)
    result = pixels(convert_image(encoded(image, "PNG"), spec))
    visible = result[..., 3] > 8
    assert result[visible][:, 1].max() < 30
