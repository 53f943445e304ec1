"""The settings of images: defaults, words and contradictions."""

from __future__ import annotations

import dataclasses
from typing import Any

from beam_tfrecords.features.layouts import parse_layout
from beam_tfrecords.transforms.images.image_spec import (
    Codec,
    ImageEncoding,
    ImageSpec,
    Metadata,
    Resample,
    ResizeMode,
)
from beam_tfrecords.transforms.settings import read_settings, settings_of, write_settings
from tests.each import each

KEEP = ImageEncoding.KEEP


def test_no_words_give_the_defaults() -> None:
    assert read_settings(ImageSpec, {}) == ImageSpec()


@each(
    "words, fields",
    [
        ({"image_size": "256"}, {"image_size": (256, 256)}),
        ({"image_size": 256}, {"image_size": (256, 256)}),
        ({"image_size": "224x160"}, {"image_size": (224, 160)}),
        ({"image_size": " 224 X 160 "}, {"image_size": (224, 160)}),
        ({"resize_mode": "pad"}, {"resize_mode": ResizeMode.PAD}),
        ({"resample": "box"}, {"resample": Resample.BOX}),
        ({"upscale": "false"}, {"upscale": False}),
        ({"orientation": "ignore"}, {"orientation": Metadata.IGNORE}),
        ({"color_profile": "ignore"}, {"color_profile": Metadata.IGNORE}),
        ({"image_encoding": "png"}, {"image_encoding": ImageEncoding.PNG}),
        ({"image_encoding": "keep"}, {"image_encoding": KEEP, "channels": None}),
        ({"image_encoding": "keep", "channels": "3"}, {"image_encoding": KEEP, "channels": 3}),
        ({"channels": "keep"}, {"channels": None}),
        ({"channels": 1}, {"channels": 1}),
        ({"codec": "exact", "jpeg_quality": "80"}, {"codec": Codec.EXACT, "jpeg_quality": 80}),
        ({"image_encoding": "png", "bit_depth": "16"}, {"image_encoding": ImageEncoding.PNG, "bit_depth": 16}),
        ({"max_pixels": "1000"}, {"max_pixels": 1000}),
        ({"allow_truncated": True}, {"allow_truncated": True}),
    ],
)
def test_words_are_read_and_written_again(words: dict[str, Any], fields: dict[str, Any]) -> None:
    spec = read_settings(ImageSpec, words)
    assert spec == dataclasses.replace(ImageSpec(), **fields)
    assert read_settings(ImageSpec, write_settings(spec)) == spec


def test_a_written_size_is_height_x_width() -> None:
    assert write_settings(ImageSpec(image_size=(224, 160)))["image_size"] == "224x160"


def test_kept_channels_are_written_as_keep() -> None:
    assert write_settings(ImageSpec(channels=None))["channels"] == "keep"


@each("layout, encoding", [("raw", ImageEncoding.RAW), ("tfds", ImageEncoding.JPEG)])
def test_a_layout_that_asks_for_pixels_makes_raw_the_default(layout: str, encoding: ImageEncoding) -> None:
    setting = next(one for one in settings_of(ImageSpec) if one.name == "image_encoding")
    assert setting.value_of({}, {"layout": parse_layout(layout)}) is encoding
