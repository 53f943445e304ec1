"""Tables of colors: their forms, what is refused, and the numbers that masks get."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.transforms.images.image_spec import ImageSpec, Resample, ResizeMode
from beam_tfrecords.transforms.images.masks import convert_mask, read_mask
from beam_tfrecords.transforms.images.orient import plan_geometry
from beam_tfrecords.transforms.mask_colors import NAMED, VOID, channels_of, read_mask_colors, read_mask_values
from tests.each import each
from tests.image_checks import encoded

ROAD, SKY, VOID_COLOR = [128, 64, 128], [0, 130, 180], [0, 0, 0]
NUMBERS = {tuple(ROAD): 0, tuple(SKY): 1, tuple(VOID_COLOR): 255}


def table_of(word: Any) -> dict[tuple[int, ...], int]:
    return {tuple(channels_of(color)): number for color, number in read_mask_colors(word).numbers}


@each(
    "text",
    [
        "road 128 64 128\nblue sky 0 130 180\nvoid 0 0 0\n",
        "128 64 128 road\n0 130 180 blue sky\n0 0 0 void\n",
        "128 64 128\troad\r\n0 130 180\t\tblue sky\r\n0 0 0\t\tVoid\r\n",
        "\ufeff# a comment\n\nroad,128,64,128\nblue sky, 0, 130, 180\n// and one more\nignore,0,0,0",
        "# label:color_rgb:parts:actions\nroad:128,64,128::\nblue sky:0,130,180::\nignored:0,0,0::\n",
        "road #804080\nblue sky #0082B4\nvoid #000000\n",
        "#804080 road\n#0082b4 blue sky\n#000000 void\n",
        "road (128, 64, 128)\nblue sky (0, 130, 180)\nvoid (0, 0, 0)\n",
        "0 road 128 64 128\n1 blue sky 0 130 180\n2 void 0 0 0\n",
        "1: blue sky 0 130 180\n0: road 128 64 128\n2: void 0 0 0\n",
        "name,r,g,b\nroad,128,64,128\nblue sky,0,130,180\nvoid,0,0,0\n",
        "r,g,b,name\n128 64 128\troad\n0 130 180\tblue sky\n0 0 0\t\tvoid\n",
        "Blue;Green;Red;Class\n128;64;128;road\n180;130;0;blue sky\n0;0;0;void\n",
        'name\tcolor\nroad\t"128,64,128"\nblue sky\t(0, 130, 180)\nvoid\t#000000\n',
        "id,name,hex\n1,blue sky,0082b4\n0,road,804080\n255,void,000000\n",
        json.dumps({"road": ROAD, "blue sky": SKY, "void": VOID_COLOR}),
        json.dumps({"road": "#804080", "blue sky": {"r": 0, "g": 130, "b": 180}, "void": {"color": "0 0 0"}}),
        json.dumps({"128,64,128": "road", "(0, 130, 180)": "blue sky", "#000000": "void"}),
        json.dumps({"1": {"name": "blue sky", "color": SKY}, "0": {"name": "road", "color": ROAD},
                    "2": {"name": "void", "color": VOID_COLOR}}),
        json.dumps([{"label": "road", "rgb": ROAD}, {"label": "blue sky", "rgb": SKY}, {"label": "void",
                                                                                      "rgb": VOID_COLOR}]),
        json.dumps([{"title": "road", "colour": "#804080"}, {"title": "blue sky", "colour": "rgb"[3:] + "0,130,180"},
                    {"title": "void", "colour": "#000000"}]),
    ],
)  # fmt: skip
def test_a_table_may_have_many_forms(text, tmp_path):
    (tmp_path / "colors.txt").write_text(text, encoding="utf-8", newline="")
    colors = read_mask_colors(str(tmp_path / "colors.txt"))
    assert colors.names == ("road", "blue sky")
    assert table_of(str(tmp_path / "colors.txt")) == NUMBERS
    assert read_mask_colors(colors.to_json()) == colors


def test_names_may_begin_or_end_with_numbers_and_have_several_colors(tmp_path):
    (tmp_path / "colors.txt").write_text("lane 1 9 9 1\nlane 2 9 9 2\nroad 9 9 9\nlane 1 7 7 7\n")
    colors = read_mask_colors(str(tmp_path / "colors.txt"))
    assert colors.names == ("lane 1", "lane 2", "road")
    assert [number for _, number in colors.numbers] == [0, 1, 2, 0]


@each(
    "text, says",
    [
        ("", "the line nothing"),
        ("cat\ndog\n", "the line cat"),
        ("cat 1 2 3\ndog\n", "the line dog"),
        ("cat 1 2 300\n", "no color of three numbers from 0 to 255"),
        ("cat 1 2 3\ndog 1 2 3\n", "cat and dog have one color, 1,2,3"),
        ("cat 1 2 3 255\ndog 4 5 6 255\n", "which are the color is unclear"),
        ("1 2 3 255 cat\n4 5 6 255 dog\n", "the number 255"),
        ("1 2 3 4 5 6\n", "which are the color is unclear"),
        ("id,name,r,g,b\n7,cat,1,2,3\n8,dog,4,5,6\n", "gives cat the number 7"),
        ("name,r,g\ncat,1,2\n", "no color"),
        ("void 0 0 0\n", "0 classes"),
        ('{"cat": [1, 2]}', "[1, 2]"),
        ('{"cat": [0.1, 0.2, 0.3]}', "[0.1, 0.2, 0.3]"),
        ('[{"name": "cat"}]', "no color"),
        ("[[1, 2, 3]]", "[1, 2, 3]"),
        ("3", "expected lines such as"),
        ("\n".join(f"c{n} 1 {n >> 8} {n & 255}" for n in range(256)) + "\nvoid 0 0 0", "256 classes"),
    ],
)
def test_what_is_no_table_of_colors_is_refused(text, says, tmp_path):
    (tmp_path / "colors.txt").write_text(text)
    with pytest.raises(ValueError, match=re.escape(says)):
        read_mask_colors(str(tmp_path / "colors.txt"))


def test_ade20k_has_a_color_of_two_classes():
    with pytest.raises(ValueError, match="skyscraper and road have one color"):
        read_mask_colors("ade20k")


@each("name", NAMED)
def test_each_named_table_has_unique_colors(name):
    colors = read_mask_colors(name)
    assert len({color for _, color in colors.rows}) == len(colors.rows)
    assert read_mask_colors(name.upper()) == colors


def test_the_named_tables_have_the_numbers_of_their_datasets():
    # Indices of Pascal's palette, and Cityscapes' trainId.
    assert table_of("pascal")[(192, 128, 128)] == 15
    assert table_of("pascal")[(224, 224, 192)] == VOID
    assert read_mask_colors("cityscapes").names[13] == "car"
    assert (table_of("cityscapes")[(0, 0, 142)], table_of("cityscapes")[(111, 74, 0)]) == (13, VOID)
    assert (table_of("camvid")[(64, 128, 64)], table_of("camvid")[(64, 192, 0)]) == (0, 30)
    assert [len(read_mask_colors(name).names) for name in NAMED] == [31, 19, 21]


@st.composite
def colored_masks(draw: Any) -> tuple[dict[str, list[int]], np.ndarray]:
    """A table of colors, and a mask of its names' positions."""
    colors = draw(st.lists(st.tuples(*[st.integers(0, 255)] * 3), min_size=1, max_size=40, unique=True))
    names = [f"class {number}" for number in range(len(colors))]
    if len(colors) > 1 and draw(st.booleans()):
        names[draw(st.integers(0, len(colors) - 1))] = "void"
    height, width, seed = draw(st.integers(1, 40)), draw(st.integers(1, 40)), draw(st.integers(0, 2**32 - 1))
    places = np.random.default_rng(seed).integers(0, len(colors), (height, width))
    return dict(zip(names, map(list, colors), strict=True)), places


def expected_of(places: np.ndarray, numbers: list[int], size: tuple[int, int] | None) -> np.ndarray:
    """The numbers of the nearest pixels, computed pixel by pixel."""
    height, width = places.shape
    rows, columns = size or places.shape
    made = np.zeros((rows, columns), int)
    for row in range(rows):
        for column in range(columns):
            at = ((2 * row + 1) * height // (2 * rows), (2 * column + 1) * width // (2 * columns))
            made[row, column] = numbers[places[at]]
    return made


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P"])
@given(colored_masks(), st.none() | st.tuples(st.integers(1, 40), st.integers(1, 40)), st.booleans())
def test_colors_become_numbers_as_in_a_computation_pixel_by_pixel(mode, drawn, size, is_nearest):
    table, places = drawn
    colors = np.array(list(table.values()), np.uint8)
    image = Image.fromarray(colors[places]).convert(mode) if mode != "P" else Image.fromarray(places.astype(np.uint8))
    if mode == "P":
        image.putpalette(colors.tobytes())
    spec = ImageSpec(
        image_size=size,
        resize_mode=ResizeMode.EXACT if size else ResizeMode.SHORTER,
        resample=Resample.NEAREST if is_nearest else Resample.BICUBIC,
        mask_colors=read_mask_colors(table) if len(table) > ("void" in table) else None,
    )
    classes = iter(range(len(table)))
    numbers = [VOID if name == "void" else next(classes) for name in table]
    geometry = plan_geometry(*places.shape, orientation=1, spec=spec)
    stored = read_mask(convert_mask(encoded(image, "PNG"), geometry, spec), ImageSpec())
    if not is_nearest or not size:
        np.testing.assert_array_equal(stored, expected_of(places, numbers, size))
    else:
        plain = np.array(numbers, np.uint8)[places]
        file = encoded(Image.fromarray(plain), "PNG")
        by_numbers = convert_mask(file, geometry, ImageSpec(**{**vars(spec), "mask_colors": None}))
        np.testing.assert_array_equal(stored, read_mask(by_numbers, ImageSpec()))


@given(st.dictionaries(st.integers(0, 300), st.integers(0, 65535), min_size=1, max_size=60), st.integers(1, 30))
def test_numbers_become_others(values, side):
    file_numbers = np.random.default_rng(side).choice(list(values), (side, side + 3)).astype(np.uint16)
    bits = 16 if max(values.values()) > 255 else 8
    spec = ImageSpec(mask_values=read_mask_values(values), mask_bit_depth=bits)
    found = read_mask(encoded(Image.fromarray(file_numbers), "PNG"), spec)
    np.testing.assert_array_equal(found, np.vectorize(values.get)(file_numbers))


def rgb(*colors: tuple[int, ...], mode: str = "RGB") -> bytes:
    image = Image.new(mode, (len(colors), 1))
    image.putdata(colors)
    return encoded(image, "PNG")


SPEC = ImageSpec(mask_colors=read_mask_colors({"road": ROAD, "sky": SKY, "void": VOID_COLOR, "snow": "#ffffff"}))


@each(
    "data, detail",
    [
        (
            rgb((12, 40, 7), (12, 40, 7), (0, 0, 0), (0, 0, 1)),
            "color 12,40,7 in 2 and 0,0,1 in 1 of 4 pixels; `mask_colors` has none like it",
        ),
        (rgb(*[(n, 0, 0) for n in range(9)]), "color 1,0,0 in 1 and 2,0,0 in 1 and 3,0,0 in 1 and 5 others of 9"),
        (rgb((0, 0, 0, 255), (0, 0, 0, 0), mode="RGBA"), "the mask has transparent pixels"),
        (encoded(Image.fromarray(np.full((2, 2), 300, np.uint16)), "PNG"), "the mask has no colors of 8 bits"),
        (encoded(Image.new("RGB", (4, 4)), "JPEG"), "the mask is a JPEG file"),
        (encoded(Image.new("CMYK", (4, 4)), "TIFF"), "the mask has no colors of 8 bits (mode CMYK)"),
    ],
)
def test_a_color_without_a_class_rejects_the_sample(data, detail):
    with pytest.raises(SampleError, match=re.escape(detail)) as refused:
        read_mask(data, SPEC)
    assert refused.value.reason is FailureReason.INVALID_MASK


def test_grey_pixels_are_colors_too():
    assert read_mask(encoded(Image.fromarray(np.array([[0, 255]], np.uint8)), "PNG"), SPEC).tolist() == [[255, 2]]
    assert read_mask(encoded(Image.fromarray(np.array([[False, True]])), "PNG"), SPEC).tolist() == [[255, 2]]


def test_a_number_without_another_rejects_the_sample():
    spec = ImageSpec(mask_values=read_mask_values("255:1,128:0"))
    with pytest.raises(SampleError, match=r"value 3 in 1 of 2 pixels; `mask_values` has none like it"):
        read_mask(encoded(Image.fromarray(np.array([[3, 255]], np.uint8)), "PNG"), spec)


@each("word", ["255", "255:1:2", "255:1,255:2", "a:1", "-1:0", "", "70000:1", "255:"])
def test_other_words_for_values_are_refused(word):
    with pytest.raises(ValueError, match="such as 255:1,128:0"):
        read_mask_values(word)
