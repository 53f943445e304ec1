"""Images that records store as numbers: every form that programs write gives the pixels that they had, or is asked."""

from __future__ import annotations

import contextlib
import gzip
import io
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from beam_tfrecords import RequestError, build
from tests import tensorflow as tf
from tests.each import each
from tests.pictures import picture
from tests.pixel_files import npy_of
from tests.published import Published, read_published
from tests.record_pixels import tensor, write_records
from tests.refusals import Refusal, refuses

pytestmark = pytest.mark.tensorflow

COLORS = np.random.default_rng(0).integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)
GRAY = COLORS[..., 0]
SIDES = {"height": 6, "width": 5}
SIZE = {**SIDES, "depth": 3}
SHARES = COLORS.astype(np.float32) / 255
NOISE = np.random.default_rng(1).random((4, 6, 5, 3))
Records = Sequence[Mapping[str, Any]]


def planes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.transpose(2, 0, 1))


def made(folder: Path, records: Records, pixels: str = "", *, is_zipped: bool = False, **settings: Any) -> Published:
    """Builds records whose keys are their numbers."""
    numbered = [{"number": number, **record} for number, record in enumerate(records)]
    path = write_records(folder / "a.tfrecord", numbered)
    if is_zipped:
        path.write_bytes(gzip.compress(path.read_bytes()))
    known = {"source": "tfrecord", "key_column": "number", "name": "x", "image_encoding": "png", "layout": "image"}
    known |= {"pixels": pixels} if pixels else {}
    known |= {"output": tempfile.mkdtemp(dir=folder), "quiet": True, **settings}
    return read_published(build(input=str(path), **known).path)


def decoded(data: bytes) -> np.ndarray:
    """The pixels of a PNG, [H, W, C]."""
    pixels = np.asarray(Image.open(io.BytesIO(data)))
    return pixels.reshape(*pixels.shape[:2], -1)


def by_key(published: Published, feature: str = "image") -> list[Any]:
    """The values of a feature in the order of the input."""
    return [one.values[feature][0] for one in sorted(published.records, key=lambda record: int(record.key))]


def check(folder: Path, records: Records, expected: np.ndarray, pixels: str = "", **settings: Any) -> None:
    """Checks that records give pixels, [N, H, W] or [N, H, W, C]."""
    whole = [one.reshape(*one.shape[:2], -1) for one in expected]
    found = map(decoded, by_key(made(folder, records, pixels, channels=whole[0].shape[2], **settings)))
    for one, other in zip(found, whole, strict=True):
        np.testing.assert_array_equal(one, other)


class Form(NamedTuple):
    """Records of a program.

    Attributes:
      write: array -> features.
      arrays: [N, H, W] or [N, H, W, C].
      pixels: the setting; "" without it.
      pixels_of: arrays -> pixels of the images.
    """

    write: Callable[[np.ndarray], Mapping[str, Any]]
    arrays: np.ndarray = COLORS
    pixels: str = ""
    pixels_of: Callable[[np.ndarray], np.ndarray] = np.asarray


def level(low: float, high: float) -> Callable[[np.ndarray], np.ndarray]:
    """The nearest of the 256 levels of a range."""
    return lambda array: np.floor((array.astype(np.float64) - low) / (high - low) * 255 + 0.5).astype(np.uint8)


def opaque(array: np.ndarray) -> np.ndarray:
    return np.concatenate([array, np.full_like(array[..., :1], 255)], axis=-1)


FORMS = {
    "the bytes and three sizes": Form(lambda one: {"image_raw": one.tobytes(), **SIZE}),
    "the bytes, height and width": Form(lambda one: {"image_raw": one.tobytes(), **SIDES}),
    "the bytes of gray": Form(lambda one: {"image_raw": one.tobytes(), **SIDES}, GRAY),
    "bytes of another image's size": Form(lambda one: {"image/raw": one.tobytes(), "image/rows": 6, "image/cols": 5}),
    "opaque colors": Form(lambda one: {"image": opaque(one).tobytes(), **SIDES, "depth": 4}, pixels_of=opaque),
    "sizes of other names": Form(lambda one: {"imageRaw": one.tobytes(), "imageHeight": 6.0, "imageWidth": 5.0}),
    "encoded, of the format raw": Form(
        lambda one: {"image/encoded": one.tobytes(), "image/format": b"raw", "image/height": 6, "image/width": 5}
    ),
    "bytes and a shape": Form(lambda one: {"x": one.tobytes(), "shape": [*one.shape]}),
    "bytes of planes and a shape": Form(lambda one: {"x": planes(one).tobytes(), "shape": [3, 6, 5]}),
    "bytes without a size": Form(lambda one: {"image": one.tobytes()}, pixels="6x5x3:uint8"),
    "planes without a size": Form(lambda one: {"image": planes(one).tobytes()}, pixels="3x6x5:uint8"),
    "gray without a size": Form(lambda one: {"image": one.tobytes()}, GRAY, pixels="6x5:uint8"),
    "uint16": Form(lambda one: {"image": (one.astype(np.uint16) * 257).tobytes(), **SIZE}, pixels="uint16"),
    "uint16 of 12 bits": Form(
        lambda one: {"image": np.round(one / 255 * 4095).astype("<u2").tobytes(), **SIZE}, pixels="uint16:0..4095"
    ),
    "int64 bytes": Form(lambda one: {"image": one.astype(np.int64).tobytes(), **SIZE}, pixels="int64:0..255"),
    "int32 bytes": Form(lambda one: {"image": one.astype(np.int32).tobytes(), **SIZE}, pixels="int32:0..255"),
    "float32 bytes of levels": Form(lambda one: {"image": one.tobytes(), **SIZE}, SHARES, "float32:0..1", level(0, 1)),
    "float64 bytes of levels": Form(lambda one: {"image": (one / 127.5 - 1).tobytes(), **SIZE}, pixels="float64:-1..1"),
    "float32 bytes": Form(
        lambda one: {"image": one.tobytes()}, NOISE.astype(np.float32), "6x5x3:float32:0..1", level(0, 1)
    ),
    "float64 bytes": Form(lambda one: {"image": one.tobytes()}, NOISE * 2 - 1, "6x5x3:float64:-1..1", level(-1, 1)),
    "float16 bytes": Form(
        lambda one: {"image": one.tobytes(), **SIZE}, NOISE.astype(np.float16), "float16:0..1", level(0, 1)
    ),
    "a list of floats": Form(lambda one: {"image": one, **SIZE}, SHARES, "float32:0..1", level(0, 1)),
    "a list of floats of 0 to 255": Form(
        lambda one: {"image": one.astype(np.float32), "shape": [6, 5, 3]}, pixels="float32:0..255"
    ),
    "a list of floats that are levels": Form(lambda one: {"image": one.astype(np.float32), **SIZE}, pixels="uint8"),
    "a list of integers": Form(lambda one: {"image": one, **SIZE}),
    "a list of integers without a size": Form(lambda one: {"image": one}, pixels="6x5x3:uint8"),
    "a tensor of uint8": Form(lambda one: {"image": tensor(one)}),
    "a tensor of uint16": Form(lambda one: {"image": tensor(one.astype(np.uint16) * 257)}),
    "a tensor of a batch": Form(lambda one: {"image": tensor(one[np.newaxis])}),
    "a tensor of float32": Form(lambda one: {"image": tensor(one)}, SHARES, "float32:0..1", level(0, 1)),
    "a tensor of float64": Form(lambda one: {"image": tensor(one)}, NOISE, "float64:0..1", level(0, 1)),
    "a flat tensor": Form(lambda one: {"image": tensor(one.ravel())}, pixels="6x5x3:uint8"),
    "a tensor of int32": Form(lambda one: {"image": tensor(one.astype(np.int32))}),
    "a .npy file": Form(lambda one: {"image": npy_of(one)}),
    "a .npy file in the other order of bytes": Form(lambda one: {"image": npy_of(one.astype(">i4"))}),
}


@each("name", [*FORMS])
def test_every_form_gives_the_pixels_that_were_written(tmp_path, name):
    form = FORMS[name]
    records, expected = [form.write(array) for array in form.arrays], form.pixels_of(form.arrays)
    for is_zipped in (False, True):
        check(tmp_path, records, expected, form.pixels, is_zipped=is_zipped)


@given(data=st.data())
def test_numbers_of_any_type_form_and_size_keep_their_values(data):
    kind = data.draw(st.sampled_from(["uint8", "uint16", "int32", "int64", "float16", "float32", "float64"]), "type")
    sides = [data.draw(st.integers(5, 9), side) for side in ("height", "width")]
    shape = (*sides, *data.draw(st.sampled_from([(), (1,), (3,), (4,)]), "channels"))
    form = data.draw(st.sampled_from(["bytes", "list", "tensor", "npy"]), "form")
    says = data.draw(st.sampled_from(["sizes", "shape", "pixels"]), "what says the size")
    levels = np.random.default_rng(data.draw(st.integers(0, 99), "seed")).integers(0, 256, (3, *shape))
    levels.flat[0], levels.flat[1] = 0, 255  # the largest is seen
    white = {"f": 1, "i": 255, "u": np.iinfo(kind).max if kind[0] == "u" else 0}[np.dtype(kind).kind]
    arrays = (levels * (white / 255)).astype(kind) if kind[0] == "f" else (levels * (white // 255)).astype(kind)
    write = {
        "bytes": np.ndarray.tobytes,
        "list": lambda one: one.astype(np.float32) if kind[0] == "f" else one,
        "tensor": tensor,
        "npy": npy_of,
    }[form]
    named = dict(zip(("height", "width", "channels"), shape, strict=False))
    size = {"sizes": named, "shape": {"shape": [*shape]}, "pixels": {}}[says]
    records = [{"image": write(one), **size} for one in arrays]
    said = "x".join(map(str, shape)) if says == "pixels" else ""
    typed = ":".join(filter(None, (said, "float32" if form == "list" and kind[0] == "f" else kind)))
    rounded = np.floor(arrays.astype(np.float64) * 255 + 0.5) if kind == "float16" else levels
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder), records, rounded, typed + ("" if kind[0] == "u" else f":0..{white}"))
        stored = kind if kind[0] == "u" else "float32"
        published = made(Path(folder), records, typed, layout="array", array_type=stored, image_encoding=None)
        for data_of, array in zip(by_key(published), arrays, strict=True):
            found = np.frombuffer(data_of, np.dtype(stored).newbyteorder("<"))
            np.testing.assert_array_equal(found, array.astype(stored).ravel())


# Setting, and levels of 8 bits -> numbers.
STORED: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "uint8": lambda levels: levels,
    "uint16": lambda levels: levels.astype("<u2") * 257,
    "int64:0..255": lambda levels: levels.astype(np.int64),
    "float32:0..1": lambda levels: (levels / 255).astype(np.float32),
    "float64:-1..1": lambda levels: levels / 127.5 - 1,
    "float32:0..255": lambda levels: levels.astype(np.float32),
}


@given(data=st.data())
def test_photos_are_right_or_asked_for_and_right_by_the_setting(data):
    pixels = data.draw(st.sampled_from([*STORED]), "numbers")
    height, width = data.draw(st.integers(12, 40), "height"), data.draw(st.integers(12, 40), "width")
    drawn = [data.draw(st.integers(0, 99), "scene") for _ in range(data.draw(st.integers(1, 4), "count"))]
    levels = np.stack([decoded(picture(f"scene {width}x{height} {number}")) for number in drawn])
    levels = levels[..., 1] if data.draw(st.booleans(), "is gray") else levels
    arrays = STORED[pixels](levels)
    is_planes = levels.ndim == 4 and data.draw(st.booleans(), "is planes")
    stored = np.ascontiguousarray(arrays.transpose(0, 3, 1, 2)) if is_planes else arrays
    form = data.draw(st.sampled_from([np.ndarray.tobytes, np.asarray, tensor, npy_of]), "form")
    sides = {"height": height, "width": width} | ({"depth": 3} if levels.ndim == 4 else {})
    says = {"shape": [*stored.shape[1:]]} if is_planes or data.draw(st.booleans(), "has a shape") else sides
    records = [{"image": form(one), **says} for one in stored]
    if form is np.asarray and pixels == "float64:-1..1":
        pixels = "float32:-1..1"
    with tempfile.TemporaryDirectory() as folder:
        if not (form is np.asarray and pixels == "uint16"):
            check(Path(folder), records, levels, pixels)
        with contextlib.suppress(RequestError):
            check(Path(folder), records, levels)


def test_images_of_several_sizes_have_their_own(tmp_path):
    arrays = [COLORS[0], COLORS[1, :4], COLORS[2, :, :2]]
    sides = ("height", "width", "channels")
    records = [{"image": one.ravel(), **dict(zip(sides, one.shape, strict=True))} for one in arrays]
    for data, array in zip(by_key(made(tmp_path, records)), arrays, strict=True):
        np.testing.assert_array_equal(decoded(data), array)


@each("form", [("uint16", lambda one: one.tobytes()), ("float32:0..1", lambda one: one.astype(np.float32) / 65535)])
def test_16_bits_are_kept_where_they_are_asked_for(tmp_path, form):
    pixels, write = form
    wide = np.random.default_rng(2).integers(0, 65536, (2, 6, 5), dtype=np.uint16)
    check(tmp_path, [{"image": write(one), **SIDES} for one in wide], wide, pixels, bit_depth=16)


MASKS = {
    "bytes": lambda one: one.astype(np.uint8).tobytes(),
    "a list": np.asarray,
    "a tensor": lambda one: tensor(one.astype(np.int32)),
}


@each("form, largest", [("bytes", 255), ("a list", 255), ("a list", 5000), ("a tensor", 5000)])
def test_a_mask_of_numbers_has_the_size_of_its_image(tmp_path, form, largest):
    masks = np.random.default_rng(3).integers(0, largest + 1, (4, 6, 5))
    masks[:, 0, 0] = largest
    pairs = zip(COLORS, masks, strict=True)
    records = [{"image_raw": image.tobytes(), "mask": MASKS[form](mask), **SIZE} for image, mask in pairs]
    published = made(tmp_path, records, layout="segmentation", mask_bit_depth=8 if largest < 256 else 16)
    for data, mask in zip(by_key(published, "mask"), masks, strict=True):
        np.testing.assert_array_equal(decoded(data)[..., 0], mask)


# What is open is asked


@each(
    "name, features, code, says",
    [
        ("no size", {"image": GRAY[0, :5].tobytes()}, "missing_pixel_size",
         ["25 bytes and no features", "`pixels=28x28:uint8`"]),
        ("a list without a size", {"image": COLORS[0, :5]}, "missing_pixel_size", ["75 values"]),
        ("another size", {"image": COLORS[0].tobytes(), "height": 6, "width": 6}, "missing_pixel_size",
         ["90 bytes beside height 6, width 6"]),
        ("another type", {"image": NOISE[0].tobytes(), **SIZE}, "missing_pixel_size",
         ["720 bytes beside height 6, width 5, depth 3", "uint8 pixels"]),
        ("one float or four colors", {"image": SHARES[0, ..., 0].tobytes(), **SIDES}, "missing_pixel_size",
         ["120 bytes"]),
        ("no range", {"image": NOISE[0] * 9 - 4, **SIZE}, "unclear_pixels",
         ["90 values", "float32 from -3.", "`pixels=float32:0..1`"]),
        ("a tensor of floats", {"image": lambda: tensor(SHARES[0])}, "unclear_pixels", ["`pixels=float32:0..1`"]),
        ("zeros and ones", {"image": (COLORS[0] > 99).astype(int), **SIZE}, "unclear_pixels",
         ["`pixels=int64:0..1`"]),
        ("4 bits", {"image": (COLORS[0] // 16).tobytes(), **SIZE}, "unclear_pixels", ["`pixels=uint8:0..15`"]),
        ("12 bits in a list", {"image": COLORS[0].astype(int) * 16, **SIZE}, "unclear_pixels",
         ["`pixels=int64:0..4095`"]),
        ("five channels", {"image": np.arange(210), "shape": [6, 7, 5]}, "arrays_as_images", ["`layout=array`"]),
        ("base64", {"image": lambda: tf.io.encode_base64(picture("red 8x6")).numpy()}, "images_as_texts", ["base64"]),
        ("a data URL", {"image": b"data:image/png;base64,AAAA"}, "images_as_texts", ["decode them"]),
    ],
    ids=lambda value: value[0],
)  # fmt: skip
def test_what_the_records_leave_open_is_asked(tmp_path, name, features, code, says):
    record = {key: value() if callable(value) else value for key, value in features.items()}
    settings = {"missing_pixel_size": ["pixels"], "unclear_pixels": ["pixels"], "arrays_as_images": ["layout"]}
    with refuses(code, "input", *settings.get(code, []), says=says):
        made(tmp_path, [record] * 3)


def test_the_order_of_three_axes_is_asked_if_it_is_unknown(tmp_path):
    arrays = np.random.default_rng(3).integers(0, 60000, (6, 10, 12, 13))
    records = [{"image": one, "shape": [10, 12, 13]} for one in arrays]
    settings = {"layout": "array", "image_encoding": None}
    with refuses("unclear_array", "array_axes", "input") as asked:
        made(tmp_path, records, "uint16", **settings)
    assert [one.settings for one in asked.value.suggestions] == [{"array_axes": "CHW"}, {"array_axes": "HWC"}]
    for axes, order in (("HWC", (0, 1, 2, 3)), ("CHW", (0, 2, 3, 1))):
        found = by_key(made(tmp_path, records, "uint16", array_axes=axes, **settings))
        for data, array in zip(found, arrays.transpose(order), strict=True):
            np.testing.assert_array_equal(np.frombuffer(data, "<u2"), array.ravel())


WORDS = ("", "28x28", "28x28x3x1:uint8", "uint9", "0..1", "uint8:0..0", "uint8:0..", "0..1:float32", "0x4:uint8")


@each("word", WORDS)
def test_a_form_that_cannot_be_read_is_refused(tmp_path, word):
    with refuses("invalid_value", "pixels"):
        build(str(tmp_path), str(tmp_path / "out"), pixels=word)


ARRAY = {"layout": "array", "image_encoding": None}
INTEGERS = {"image": COLORS[0].astype(int) * 16, **SIZE}
SIZES_DIFFER = "90 bytes beside height 6, width 5, depth 3"


@each(
    "record, pixels, settings, refusal",
    [
        (FORMS["the bytes and three sizes"].write(COLORS[0]), "6x5x4:uint8", {},
         Refusal("missing_pixel_size", "pixels", says=["6x5x4:uint8", SIZES_DIFFER])),
        (FORMS["the bytes and three sizes"].write(COLORS[0]), "float32", {},
         Refusal("missing_pixel_size", "pixels", says=["float32", SIZES_DIFFER])),
        ({"image": picture("red 8x6")}, "6x5x3:uint8", {},
         Refusal("setting_not_applicable", "pixels", "image_column", says=["6x5x3:uint8", "encoded images"])),
        (FORMS["float64 bytes"].write(NOISE[0]) | SIZE, "float64:0..1", ARRAY,
         Refusal("setting_not_applicable", "pixels", says=["pixels=float64:0..1", "leave the range out"])),
        (INTEGERS, "", ARRAY, Refusal("unclear_pixels", "input", "pixels", says=["`pixels=uint16`"])),
    ],
    ids=lambda value: str(value[3]),
)  # fmt: skip
def test_a_form_that_does_not_fit_or_act_is_refused(tmp_path, record, pixels, settings, refusal):
    with refuses(refusal):
        made(tmp_path, [record], pixels, **settings)


def test_a_record_that_does_not_fit_is_rejected(tmp_path):
    shares = NOISE.astype(np.float32)
    shares[1, 0, 0, 0], shares[2, 0, 0, 0] = 1.5, np.nan
    records = [{"image": one, **SIZE} for one in shares] + [{"image": shares[0], **SIDES}]
    failures = made(tmp_path, records, "float32:0..1", max_failures=1).failures
    assert {key: why.partition(":")[0] for key, why in failures.items()} == dict.fromkeys("124", "invalid_row")
    assert "expected 0 to 1 (`pixels`)" in failures["1"]


def test_a_record_of_another_type_is_rejected(tmp_path):
    arrays = [COLORS[0], COLORS[1].astype(np.float32), COLORS[2].astype(np.int64) * 9]
    records = [{"image": tensor(one)} for one in [*arrays[:1] * 32, *arrays[1:]]]
    assert sorted(made(tmp_path, records, max_failures=1).failures) == ["32", "33"]


def test_reading_a_record_in_another_way_is_a_change(tmp_path):
    versions = {"output": str(tmp_path / "out"), "versioned": True, "guard": "off"}
    records = [{"image": one.tobytes(), **SIZE} for one in NOISE]
    for low in (0, -1):
        published = made(tmp_path, records, f"float64:{low}..1", **versions)
    assert published.manifest["reuse"] == {"copied": 0, "reserialized": 0, "converted": 4}


# Labels


@each("write", [lambda one: one, lambda one: one.astype(int)], ids=["floats", "integers"])
def test_labels_that_are_zeros_and_ones_are_classes(tmp_path, write):
    records = [{"image": COLORS[0].tobytes(), **SIZE, "label": write(np.eye(4)[number])} for number in (2, 0, 3)]
    assert by_key(made(tmp_path, records, layout="tfds"), "label") == [2, 0, 3]


@each(
    "label",
    [
        lambda: np.int64(3).tobytes(), lambda: np.float32(3).tobytes(), lambda: np.uint8(3).tobytes(),
        lambda: tensor(np.int64(3)), lambda: tensor(np.array("cat")), lambda: np.eye(4)[1].tobytes(),
        lambda: b"\xff\xfe\xfd", lambda: np.uint8(9).tobytes(),
    ],
    ids=["int64", "float32", "uint8", "tensor", "tensor of a text", "flags", "bytes", "tabs"],
)  # fmt: skip
def test_labels_that_are_neither_texts_nor_numbers_are_refused(tmp_path, label):
    records = [{"image": COLORS[0].tobytes(), **SIZE, "label": one} for one in (b"cat", label())]
    with refuses("column_without_labels", "input", "label_column", says=["'label'"]):
        made(tmp_path, records, layout="tfds")


def test_a_label_of_another_kind_than_the_first_is_rejected(tmp_path):
    labels = [*[b"cat", b"dog"] * 20, np.int64(3).tobytes()]
    records = [{"image": COLORS[0].tobytes(), **SIZE, "label": one} for one in labels]
    assert [*made(tmp_path, records, layout="tfds", max_failures=1).failures] == ["40"]
