"""The settings of images: defaults, words and contradictions."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from beam_tfrecords.errors import RequestError
from beam_tfrecords.examples.layouts import parse_layout
from beam_tfrecords.transforms.images.image_spec import (
    Check,
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
        (
            {"image_encoding": "keep", "keep_any_format": True},
            {"image_encoding": KEEP, "channels": None, "keep_any_format": True},
        ),
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


@each(
    "words, message",
    [
        ({"image_size": "big"}, "`image_size=big`: expected pixels as 256, or height x width as 224x160"),
        ({"image_size": "0x5"}, "`image_size=0x5`: expected pixels"),
        ({"channels": "2"}, "`channels=2`: expected 1, 3, 4 or keep"),
        ({"jpeg_quality": "101"}, "`jpeg_quality=101`: expected a whole number from 1 to 100"),
        ({"resample": "cubic"}, "`resample=cubic`: expected one of bicubic, bilinear, lanczos, box, nearest"),
        ({"color_profile": "srgb"}, "`color_profile=srgb`: expected one of apply, ignore"),
        ({"max_pixels": "0"}, "`max_pixels=0`: expected a whole number of 1 or more"),
        ({"allow_truncated": "maybe"}, "`allow_truncated=maybe`: expected true or false"),
        ({"bit_depth": "12"}, "`bit_depth=12`: expected 8 or 16"),
        (
            {"bit_depth": 16},
            "`bit_depth=16`: `image_encoding=jpeg` stores 8 bits per channel; say `image_encoding=png`",
        ),
        ({"bit_depth": 16, "image_encoding": "keep"}, "`bit_depth=16`: `image_encoding=keep` stores 8 bits"),
        ({"channels": "4"}, "`channels=4`: JPEG has no transparency; say `image_encoding=png`"),
        ({"channels": "1", "image_encoding": "webp"}, "`channels=1`: WEBP has no grey images"),
        ({"check": "header"}, "`check=header`: only `image_encoding=keep` can do without decoding"),
        ({"check": "header", "image_encoding": "keep", "image_size": "9"}, "`check=header`: `image_size` needs"),
        ({"keep_any_format": "true"}, "`keep_any_format`: it has a meaning with `image_encoding=keep` only"),
    ],
)
def test_a_wrong_word_is_named_with_what_was_expected(words: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as error:
        read_settings(ImageSpec, words)
    assert str(error.value).startswith(message)


@each(
    "fields",
    [
        {"image_size": (0, 5)}, {"channels": 2}, {"jpeg_quality": 0}, {"jpeg_quality": 101}, {"channels": 4},
        {"channels": 1, "image_encoding": ImageEncoding.WEBP}, {"check": Check.HEADER},
    ],
)  # fmt: skip
def test_a_request_that_no_image_can_meet_is_an_error_at_once(fields: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=r"^`"):
        ImageSpec(**fields)
