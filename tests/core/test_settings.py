"""Settings of a dataclass: reading, defaults, writing, and what an error says."""

from __future__ import annotations

import dataclasses
import enum

import pytest

from beam_tfrecords.byte_sizes import number_of_bytes
from beam_tfrecords.transforms.settings import (
    FAILURES,
    IMAGES,
    one_of,
    read_settings,
    setting,
    settings_of,
    share,
    slice_of,
    switch,
    whole_number,
    write_settings,
)
from tests.each import each
from tests.refusals import Refusal, refuses


class Shape(str, enum.Enum):
    ROUND = "round"
    SQUARE = "square"


@dataclasses.dataclass(frozen=True)
class Toy:
    """A dataclass with settings of every kind, and a field that is none."""

    colors: tuple[str, ...] = setting(help="names", group=IMAGES, read=lambda word: tuple(word.split(",")))
    shape: Shape = setting(Shape.ROUND, help="round or square", group=IMAGES, read=one_of(Shape))
    corners: int | None = setting(
        None,
        help="how many",
        group=IMAGES,
        read=whole_number(0, 9),
        default_from=lambda earlier: 4 if earlier["shape"] is Shape.SQUARE else 0,
        shown_default="4 for a square",
    )
    loud: bool = setting(False, help="with sound", group=FAILURES, read=switch, in_spec=False)
    weight: int = 7


def test_settings_are_read_from_words_in_the_order_of_the_fields():
    toy = read_settings(Toy, {"loud": "true", "shape": "square", "colors": "red,blue"})
    assert toy == Toy(("red", "blue"), Shape.SQUARE, 4, True)


def test_a_default_can_depend_on_the_settings_before_it():
    assert read_settings(Toy, {"colors": "red"}).corners == 0
    assert read_settings(Toy, {"colors": "red", "shape": "square"}).corners == 4
    assert read_settings(Toy, {"colors": "red", "shape": "square", "corners": 3}).corners == 3


def test_only_fields_that_are_settings_are_settings():
    assert [one.name for one in settings_of(Toy)] == ["colors", "shape", "corners", "loud"]
    assert [one.is_switch for one in settings_of(Toy)] == [False, False, False, True]


def test_the_shown_default_is_made_from_the_default():
    assert [one.shown_default for one in settings_of(Toy)] == ["", "round", "4 for a square", ""]


def test_settings_are_written_as_plain_values_and_read_back():
    toy = Toy(("red", "blue"), Shape.SQUARE, 3)
    written = write_settings(toy)
    assert written == {"colors": ["red", "blue"], "shape": "square", "corners": 3}
    assert read_settings(Toy, {**written, "colors": ",".join(written["colors"])}) == toy


@dataclasses.dataclass(frozen=True)
class Corners:
    radius: int = setting(1, help="radius", group=IMAGES, read=whole_number(0))
    sharp: bool = setting(False, help="sharp", group=IMAGES, read=switch)


@dataclasses.dataclass(frozen=True)
class Box(Corners):
    """Settings that are inherited, with an order of their own."""

    order = ("sharp", "depth")
    depth: int = setting(3, help="depth", group=IMAGES, read=whole_number(0))


def test_a_request_has_the_settings_of_its_groups_and_gives_slices_of_them():
    assert [one.name for one in settings_of(Box)] == ["sharp", "depth", "radius"]
    box = read_settings(Box, {"radius": 5, "depth": 4})
    assert list(write_settings(box).items()) == [("sharp", False), ("depth", 4), ("radius", 5)]
    assert slice_of(Corners, box) == Corners(radius=5)


def test_a_missing_setting_without_a_default_is_named_with_what_was_expected():
    with refuses("missing_setting", "colors", says=["names"]):
        read_settings(Toy, {})


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ({"shape": "oval"}, Refusal("invalid_value", "shape", says=["shape=oval", "round, square"])),
        ({"corners": "10"}, Refusal("invalid_value", "corners", says=["corners=10", "0 to 9"])),
        ({"loud": "very"}, Refusal("invalid_value", "loud", says=["loud=very", "true or false"])),
    ],
)
def test_a_wrong_word_is_quoted_with_its_setting_and_what_was_expected(words, refusal):
    with refuses(refusal):
        read_settings(Toy, {"colors": "red", **words})


@pytest.mark.parametrize(
    ("word", "size"),
    [("150MB", 150_000_000), ("16 MiB", 1 << 24), ("1.5kb", 1500), ("7B", 7), ("20000", 20_000), (10**8, 10**8)],
)
def test_numbers_of_bytes_have_decimal_and_binary_units(word, size):
    assert number_of_bytes(word) == size


@pytest.mark.parametrize("word", ["150", 1, "9999"])
def test_a_small_number_of_bytes_needs_a_unit(word):
    with pytest.raises(ValueError, match=rf"^{word} bytes\? say {word}MB, or {word}B if bytes are meant$"):
        number_of_bytes(word)


@pytest.mark.parametrize("word", ["big", "150XB", "0", "-1MB", "", "1e9", None])
def test_other_words_are_not_numbers_of_bytes(word):
    with pytest.raises(ValueError, match="150MB"):
        number_of_bytes(word)


@pytest.mark.parametrize(("word", "number"), [("0", 0), ("0.01", 0.01), (1, 1), ("1e-3", 0.001)])
def test_shares_are_numbers_from_0_to_1(word, number):
    assert share(word) == number


@each("word", ["nan", "inf", "-0.1", "1.01", "some", "", None, True])
def test_other_words_are_not_shares(word):
    with pytest.raises(ValueError, match=r"0\.01"):
        share(word)


@pytest.mark.parametrize("word", ["1.5", "", "0x10", True, None, "1" * 30, "٣"])
def test_other_words_are_not_whole_numbers(word):
    with pytest.raises(ValueError, match="whole number of 1 or more"):
        whole_number(1)(word)
