"""Images that records store as numbers: every form that programs write gives the pixels that they had."""

from __future__ import annotations

import contextlib
import gzip
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.images.image_spec import ArrayType
from beam_tfrecords.transforms.refs.sample_refs import PixelRange, SampleRef
from beam_tfrecords.transforms.sources.tables.table_settings import read_pixels
from tests import tensorflow as tf
from tests.each import each
from tests.record_pixels import array_of, image_of, tensor, write_records
from tests.refusals import refuses

pytestmark = pytest.mark.tensorflow

PHOTOS = Path(__file__).parents[3] / "data/photos"
COLORS = np.random.default_rng(0).integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)
GREY = COLORS[..., 0]
SIDES = {"height": 6, "width": 5}
SIZE = {**SIDES, "depth": 3}
SHARES = COLORS.astype(np.float32) / 255
NOISE = np.random.default_rng(1).random((4, 6, 5, 3))


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def planes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.transpose(2, 0, 1))


# [H, W, C] uint8.
PHOTO = np.asarray(Image.open(PHOTOS / "cat/cat_01.jpg").resize((40, 48)))


def encoded(array: np.ndarray) -> Any:
    return tf.io.encode_png(array)


class Form(NamedTuple):
    """Records of a program.

    Attributes:
      write: array -> features.
      arrays: [N, H, W] or [N, H, W, C].
      pixels: the setting; "" without it.
      pixels_of: array -> pixels of the image.
    """

    write: Callable[[np.ndarray], Mapping[str, Any]]
    arrays: np.ndarray = COLORS
    pixels: str = ""
    pixels_of: Callable[[np.ndarray], np.ndarray] = np.asarray


def level(low: float, high: float) -> Callable[[np.ndarray], np.ndarray]:
    """The nearest of the 256 levels of a range."""
    return lambda array: np.floor((array.astype(np.float64) - low) / (high - low) * 255 + 0.5).astype(np.uint8)


FORMS = {
    "the bytes and three sizes": Form(lambda one: {"image_raw": one.tobytes(), **SIZE}),
    "the bytes, height and width": Form(lambda one: {"image_raw": one.tobytes(), **SIDES}),
    "the bytes of grey": Form(lambda one: {"image_raw": one.tobytes(), **SIDES}, GREY),
    "bytes of another image's size": Form(lambda one: {"image/raw": one.tobytes(), "image/rows": 6, "image/cols": 5}),
    "opaque colors": Form(
        lambda one: {"image": np.dstack([one, np.full((6, 5), 255, np.uint8)]).tobytes(), **SIDES, "depth": 4},
        pixels_of=lambda one: np.dstack([one, np.full((6, 5), 255, np.uint8)]),
    ),
    "sizes of other names": Form(lambda one: {"imageRaw": one.tobytes(), "imageHeight": 6.0, "imageWidth": 5.0}),
    "encoded, of the format raw": Form(
        lambda one: {"image/encoded": one.tobytes(), "image/format": b"raw", "image/height": 6, "image/width": 5}
    ),
    "bytes and a shape": Form(lambda one: {"x": one.tobytes(), "shape": [*one.shape]}),
    "bytes of planes and a shape": Form(lambda one: {"x": planes(one).tobytes(), "shape": [3, 6, 5]}),
    "bytes without a size": Form(lambda one: {"image": one.tobytes()}, pixels="6x5x3:uint8"),
    "planes without a size": Form(lambda one: {"image": planes(one).tobytes()}, pixels="3x6x5:uint8"),
    "grey without a size": Form(lambda one: {"image": one.tobytes()}, GREY, pixels="6x5:uint8"),
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
    "a .npy file": Form(lambda one: {"image": npy(one)}),
    "a .npy file in the other order of bytes": Form(lambda one: {"image": npy(one.astype(">i4"))}),
}


@pytest.fixture
def read(opened, read_containers) -> Callable[..., list[SampleRef]]:
    def run(path: Path, pixels: str = "", **fields: Any) -> list[SampleRef]:
        said = {"pixels": read_pixels(pixels)} if pixels else {}
        return read_containers(opened(path, source="tfrecord", **said, **fields))[0]

    return run


@each("name", [*FORMS])
@each("is_zipped", [False, True])
def test_every_form_gives_the_pixels_that_were_written(tmp_path, read, name, is_zipped):
    form = FORMS[name]
    records = [{**form.write(array), "label": number} for number, array in enumerate(form.arrays)]
    path = write_records(tmp_path / "a.tfrecord", records)
    if is_zipped:
        path.write_bytes(gzip.compress(path.read_bytes()))
    samples = read(path, form.pixels)
    assert [sample.label for sample in samples] == [0, 1, 2, 3]
    for sample, array in zip(samples, form.arrays, strict=True):
        expected = form.pixels_of(array).reshape(6, 5, -1)
        assert np.array_equal(image_of(sample, channels=expected.shape[2]), expected)


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_numbers_of_any_type_form_and_size_keep_their_values(tmp_path_factory, opened, read_containers, data):
    kind = data.draw(st.sampled_from(["uint8", "uint16", "int32", "int64", "float16", "float32", "float64"]), "type")
    height, width = data.draw(st.integers(5, 9), "height"), data.draw(st.integers(5, 9), "width")
    channels = data.draw(st.sampled_from([(), (1,), (3,), (4,)]), "channels")
    shape = (height, width, *channels)
    form = data.draw(st.sampled_from(["bytes", "list", "tensor", "npy"]), "form")
    says = data.draw(st.sampled_from(["sizes", "shape", "pixels"]), "what says the size")
    random = np.random.default_rng(data.draw(st.integers(0, 99), "seed"))
    levels = random.integers(0, 256, (3, *shape))
    levels.flat[0], levels.flat[1] = 0, 255  # the largest is seen
    white = {"f": 1, "i": 255, "u": np.iinfo(kind).max if kind[0] == "u" else 0}[np.dtype(kind).kind]
    arrays = (levels * (white / 255)).astype(kind) if kind[0] == "f" else (levels * (white // 255)).astype(kind)
    features = {
        "bytes": np.ndarray.tobytes,
        "list": lambda one: one.astype(np.float32) if kind[0] == "f" else one,
        "tensor": tensor,
        "npy": npy,
    }[form]
    sides = dict(zip(("height", "width", "channels"), shape, strict=False))
    size = {"sizes": sides, "shape": {"shape": [*shape]}, "pixels": {}}[says]
    records = [{"image": features(one), "label": number, **size} for number, one in enumerate(arrays)]
    path = write_records(tmp_path_factory.mktemp("records") / "a.tfrecord", records)
    said = "x".join(map(str, shape)) if says == "pixels" else ""
    stated = "float32" if form == "list" and kind[0] == "f" else kind
    typed = ":".join(filter(None, (said, stated)))
    ranged = "" if kind[0] == "u" else f":0..{white}"
    samples = read_containers(opened(path, source="tfrecord", pixels=read_pixels(typed + ranged)))[0]
    for sample, one, array in zip(samples, levels, arrays, strict=True):
        rounded = np.floor(array.astype(np.float64) * 255 + 0.5) if kind == "float16" else one
        expected = rounded.reshape(height, width, -1)
        assert np.array_equal(image_of(sample, channels=expected.shape[2]), expected)
    samples = read_containers(opened(path, source="tfrecord", array=True, pixels=read_pixels(typed)))[0]
    stored = ArrayType(kind if kind[0] == "u" else "float32")
    for sample, array in zip(samples, arrays, strict=True):
        assert np.array_equal(array_of(sample, stored), array.astype(stored.value).reshape(height, width, -1))


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
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_photos_are_right_or_asked_for_and_right_by_the_setting(tmp_path_factory, read, data):
    pixels = data.draw(st.sampled_from([*STORED]), "numbers")
    height, width = data.draw(st.integers(12, 40), "height"), data.draw(st.integers(12, 40), "width")
    photos = data.draw(st.lists(st.sampled_from(sorted(PHOTOS.rglob("*.jpg"))), min_size=1, max_size=4), "photos")
    levels = np.stack([np.asarray(Image.open(photo).convert("RGB").resize((width, height))) for photo in photos])
    levels = levels[..., 1] if data.draw(st.booleans(), "is grey") else levels
    arrays = STORED[pixels](levels)
    is_planes = levels.ndim == 4 and data.draw(st.booleans(), "is planes")
    stored = np.ascontiguousarray(arrays.transpose(0, 3, 1, 2)) if is_planes else arrays
    form = data.draw(st.sampled_from([np.ndarray.tobytes, np.asarray, tensor, npy]), "form")
    sides = {"height": height, "width": width} | ({"depth": 3} if levels.ndim == 4 else {})
    says = {"shape": [*stored.shape[1:]]} if is_planes or data.draw(st.booleans(), "has a shape") else sides
    records = [{"image": form(one), "label": number, **says} for number, one in enumerate(stored)]
    path = write_records(tmp_path_factory.mktemp("records") / "a.tfrecord", records)
    expected = levels.reshape(len(levels), height, width, -1)

    def are_right(pixels: str) -> bool:
        images = [image_of(sample, channels=expected.shape[3]) for sample in read(path, pixels)]
        return all(map(np.array_equal, images, expected))

    is_list = form is np.asarray
    if is_list and pixels == "float64:-1..1":
        pixels = "float32:-1..1"
    if not (is_list and pixels == "uint16"):
        assert are_right(pixels)
    with contextlib.suppress(RequestError):
        assert are_right("")


def test_photos_have_the_channels_of_a_pixel_together(tmp_path, read):
    photos = [np.asarray(Image.open(path).convert("RGB").resize((30, 36))) for path in sorted(PHOTOS.rglob("*.jpg"))]
    for number, photo in enumerate(photos):
        record = {"image": photo.tobytes(), "label": 0, "height": 36, "width": 30, "depth": 3}
        (sample,) = read(write_records(tmp_path / f"{number}.tfrecord", [record]))
        assert np.array_equal(image_of(sample), photo)


def test_images_of_several_sizes_have_their_own(tmp_path, read):
    arrays = [COLORS[0], COLORS[1, :4], COLORS[2, :, :2]]
    sides = ("height", "width", "channels")
    records = [{"image": one.ravel(), "label": 0, **dict(zip(sides, one.shape, strict=True))} for one in arrays]
    samples = read(write_records(tmp_path / "a.tfrecord", records))
    assert all(np.array_equal(image_of(sample), one) for sample, one in zip(samples, arrays, strict=True))


def test_16_bits_are_kept_where_they_are_asked_for(tmp_path, read):
    wide = np.random.default_rng(2).integers(0, 65536, (2, 6, 5), dtype=np.uint16)
    records = [{"image": one.tobytes(), "label": 0, **SIDES} for one in wide]
    (sample, _) = read(write_records(tmp_path / "a.tfrecord", records), "uint16")
    assert np.array_equal(image_of(sample, channels=1, bit_depth=16)[..., 0], wide[0])
    records = [{"image": one.astype(np.float32) / 65535, "label": 0, **SIDES} for one in wide]
    (sample, _) = read(write_records(tmp_path / "b.tfrecord", records), "float32:0..1")
    assert np.array_equal(image_of(sample, channels=1, bit_depth=16)[..., 0], wide[0])


@each(
    "value, pixels, kind, is_in_place",
    [
        (COLORS[0].tobytes(), "", "|u1", True),
        (SHARES[0], "float32:0..1", "<f4", True),
        (lambda: tensor(SHARES[0]), "float32:0..1", "<f4", True),
        (COLORS[0], "", "|u1", False),
        (COLORS[0].astype(int).tobytes(), "int64:0..255", "<i8", True),
    ],
    ids=["bytes", "floats", "a tensor", "integers", "bytes of integers"],
)
def test_numbers_are_read_in_place_if_their_type_needs_no_change(tmp_path, read, value, pixels, kind, is_in_place):
    image = value() if callable(value) else value
    path = write_records(tmp_path / "a.tfrecord", [{"image": image, "label": 0, **SIZE}])
    (sample,) = read(path, pixels)
    assert isinstance(sample.locator, PixelRange)
    assert (sample.locator.dtype, sample.locator.uri == str(path)) == (kind, is_in_place)


def test_a_mask_of_numbers_has_the_size_of_its_image(tmp_path, read):
    masks = np.random.default_rng(3).integers(0, 9, (4, 6, 5))
    forms = {"bytes": lambda one: one.astype(np.uint8).tobytes(), "list": np.asarray, "int32": tensor}
    for name, write in forms.items():
        records = [
            {"image_raw": image.tobytes(), "mask": write(mask), **SIZE}
            for image, mask in zip(COLORS, masks, strict=True)
        ]
        path = write_records(tmp_path / f"{name}.tfrecord", records)
        samples = read(path, mask=True, needs_label=False)
        for sample, mask in zip(samples, masks, strict=True):
            place = sample.images["mask"]
            assert isinstance(place, PixelRange)
            data = Path(place.uri).read_bytes()[place.offset : place.offset + place.length]
            assert np.array_equal(np.frombuffer(data, place.dtype).reshape(6, 5), mask)


# What is open is asked


@each(
    "name, features, code, says",
    [
        ("no size", {"image": GREY[0, :5].tobytes()}, "missing_pixel_size",
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
        ("base64", {"image": lambda: tf.io.encode_base64(encoded(COLORS[0])).numpy()}, "images_as_texts", ["base64"]),
        ("a data URL", {"image": b"data:image/png;base64,AAAA"}, "images_as_texts", ["decode them"]),
    ],
    ids=lambda value: value[0],
)  # fmt: skip
def test_what_the_records_leave_open_is_asked(tmp_path, read, name, features, code, says):
    record = {key: value() if callable(value) else value for key, value in features.items()}
    path = write_records(tmp_path / "a.tfrecord", [{**record, "label": number} for number in range(3)])
    settings = {"missing_pixel_size": ["pixels"], "unclear_pixels": ["pixels"], "arrays_as_images": ["layout"]}
    with refuses(code, "input", *settings.get(code, []), says=says):
        read(path)


def test_the_type_of_integers_of_an_array_is_asked(tmp_path, read):
    path = write_records(tmp_path / "a.tfrecord", [{"image": COLORS[0].astype(int) * 16, "label": 0, **SIZE}])
    with refuses("unclear_pixels", "input", "pixels", says=["`pixels=uint16`"]):
        read(path, array=True)


@each("pixels, code", [("6x5x4:uint8", "missing_pixel_size"), ("float32", "missing_pixel_size")])
def test_a_form_that_does_not_fit_is_refused(tmp_path, read, pixels, code):
    path = write_records(tmp_path / "a.tfrecord", [{"image": COLORS[0].tobytes(), "label": 0, **SIZE}])
    with refuses(code, "pixels", says=[pixels, "90 bytes beside height 6, width 5, depth 3"]):
        read(path, pixels)


def test_a_setting_that_cannot_act_is_refused(tmp_path, read):
    path = write_records(tmp_path / "a.tfrecord", [{"image": encoded(COLORS[0]).numpy(), "label": 0}])
    with refuses("setting_not_applicable", "pixels", "image_column", says=["6x5x3:uint8", "encoded images"]):
        read(path, "6x5x3:uint8")
    path = write_records(tmp_path / "b.tfrecord", [{"image": NOISE[0].tobytes(), "label": 0, **SIZE}])
    with refuses("setting_not_applicable", "pixels", says=["pixels=float64:0..1", "leave the range out"]):
        read(path, "float64:0..1", array=True)


def test_a_record_that_does_not_fit_is_rejected(tmp_path, read):
    shares = NOISE.astype(np.float32)
    shares[1, 0, 0, 0], shares[2, 0, 0, 0] = 1.5, np.nan
    records = [{"image": one, "label": 0, **SIZE} for one in shares] + [{"image": shares[0], "label": 0, **SIDES}]
    samples = read(write_records(tmp_path / "a.tfrecord", records), "float32:0..1")
    found = [sample.failure and sample.failure[0] for sample in samples]
    assert found == [None, "invalid_row", "invalid_row", None, "invalid_row"]
    assert "expected 0 to 1 (`pixels`)" in samples[1].failure[1]


def test_a_record_of_another_type_is_rejected(tmp_path, read):
    arrays = [COLORS[0], COLORS[1].astype(np.float32), COLORS[2].astype(np.int64) * 9]
    records = [{"image": tensor(one), "label": 0} for one in [*arrays[:1] * 32, *arrays[1:]]]
    samples = read(write_records(tmp_path / "a.tfrecord", records))
    assert [sample.failure and sample.failure[0] for sample in samples] == [None] * 32 + ["invalid_row"] * 2


def test_reading_a_record_in_another_way_is_a_change(tmp_path, read):
    path = write_records(tmp_path / "a.tfrecord", [{"image": NOISE[0].tobytes(), "label": 0, **SIZE}])
    assert read(path, "float64:0..1")[0].fingerprint != read(path, "float64:-1..1")[0].fingerprint


# Labels


@each("write", [lambda one: one, lambda one: one.astype(int)], ids=["floats", "integers"])
def test_labels_that_are_zeros_and_ones_are_classes(tmp_path, read, write):
    records = [{"image": COLORS[0].tobytes(), **SIZE, "label": write(np.eye(4)[number])} for number in (2, 0, 3)]
    samples = read(write_records(tmp_path / "a.tfrecord", records))
    assert [sample.label for sample in samples] == [[2], [0], [3]]


@each(
    "label",
    [
        lambda: np.int64(3).tobytes(), lambda: np.float32(3).tobytes(), lambda: np.uint8(3).tobytes(),
        lambda: tensor(np.int64(3)), lambda: tensor(np.array("cat")), lambda: np.eye(4)[1].tobytes(),
        lambda: b"\xff\xfe\xfd", lambda: np.uint8(9).tobytes(),
    ],
    ids=["int64", "float32", "uint8", "tensor", "tensor of a text", "flags", "bytes", "tabs"],
)  # fmt: skip
def test_labels_that_are_neither_texts_nor_numbers_are_refused(tmp_path, read, label):
    records = [{"image": COLORS[0].tobytes(), **SIZE, "label": one} for one in (b"cat", label())]
    path = write_records(tmp_path / "a.tfrecord", records)
    with refuses("column_without_labels", "input", "label_column", says=["'label'"]):
        read(path)


def test_a_label_of_another_kind_than_the_first_is_rejected(tmp_path, read):
    records = [{"image": COLORS[0].tobytes(), **SIZE, "label": b"cat"} for _ in range(40)]
    records += [{"image": COLORS[0].tobytes(), **SIZE, "label": np.int64(3).tobytes()}]
    samples = read(write_records(tmp_path / "a.tfrecord", records))
    assert [sample.failure is None for sample in samples] == [True] * 40 + [False]
