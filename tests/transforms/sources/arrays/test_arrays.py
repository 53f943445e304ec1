"""Files of arrays as sources: where pixels are, labels, splits, and what is refused."""

from __future__ import annotations

import gzip
import io
import tracemalloc
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.refs.fetching import read_image
from beam_tfrecords.transforms.refs.sample_refs import PixelRange, SampleRef
from beam_tfrecords.transforms.sources.arrays import numpy_arrays
from beam_tfrecords.transforms.sources.tables.table_settings import LabelType
from tests.pixel_files import save_cifar, save_idx, save_mnist
from tests.refusals import Refusal, refuses
from tests.source_requests import FRACTIONS

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 9), dtype=np.uint8)
COLORS = np.random.default_rng(1).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, 2])
RAW = ImageSpec(image_encoding=ImageEncoding.RAW, channels=None)


@pytest.fixture
def read(opened, read_containers) -> Callable[..., list[SampleRef]]:
    return lambda *inputs, **fields: read_containers(opened(*inputs, **fields))[0]


def pixels_of(samples: list[SampleRef]) -> np.ndarray:
    """[N, H, W, C] of samples of one shape, as the converter reads them."""
    found = []
    for sample in samples:
        data = read_image(sample.locator, size=sample.size, max_file_size=10**6)
        assert isinstance(data, bytes), data
        image = convert_image(data, RAW)
        found.append(np.frombuffer(image.data, np.uint8).reshape(image.height, image.width, image.channels))
    return np.stack(found)


def summary(samples: list[SampleRef]) -> list[tuple[str, Any, str | None]]:
    return [(sample.key, sample.label, sample.split) for sample in samples]


# NumPy


@pytest.mark.parametrize("name", ["{}", "_{}", "{}_", "__{}__", "train_{}", "_train_{}_", "{}-train-"])
def test_what_separates_words_is_no_part_of_a_name(read, tmp_path, name):
    np.savez(tmp_path / "a.npz", **{name.format("images"): PIXELS, name.format("labels"): LABELS})
    assert [sample.label for sample in read(tmp_path / "a.npz")] == LABELS.tolist()


def test_an_array_may_have_a_name_without_words(read, tmp_path):
    np.savez(tmp_path / "a.npz", images=PIXELS, labels=LABELS, **{"_": LABELS})
    assert [sample.label for sample in read(tmp_path / "a.npz")] == LABELS.tolist()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_one_archive_belong_together_by_their_names(read, tmp_path, save):
    parts = {"train": slice(0, 4), "val": slice(4, 5), "test": slice(5, 6)}
    arrays = {f"{split}_images": PIXELS[part] for split, part in parts.items()}
    arrays |= {f"{split}_labels": LABELS[part, None] for split, part in parts.items()}
    save(tmp_path / "medmnist.npz", **arrays)
    samples = read(tmp_path / "medmnist.npz")
    np.testing.assert_array_equal(pixels_of(samples)[..., 0], PIXELS)
    assert summary(samples) == [
        *((f"train_images/{number:012d}", number % 3, "train") for number in range(4)),
        ("val_images/000000000000", 1, "validation"),
        ("test_images/000000000000", 2, "test"),
    ]
    assert (tmp_path / "staging").exists() is (save is np.savez_compressed)
    assert len({sample.fingerprint for sample in samples}) == 6


@pytest.mark.parametrize(
    ("names", "label_column"),
    [
        (("x_train", "y_train", "x_test", "y_test"), "y"),
        (("images", "labels"), "labels"),
        (("x", "y"), "y"),
        (("arr_0", "arr_1"), "arr_1"),
        (("trainX", "trainy"), None),
    ],
)
def test_usual_names_of_arrays(opened, tmp_path, names, label_column):
    arrays = [LABELS if place % 2 else PIXELS for place in range(len(names))]
    np.savez(tmp_path / "a.npz", **dict(zip(names, arrays, strict=True)))
    source = opened(tmp_path / "a.npz")
    assert source.description.label_column == label_column or label_column is None


def test_the_request_has_the_last_word_on_splits(read, tmp_path):
    np.savez(tmp_path / "a.npz", x_train=PIXELS, y_train=LABELS, x_test=PIXELS, y_test=LABELS)
    assert {sample.split for sample in read(tmp_path / "a.npz", splits=FRACTIONS)} == {None}
    assert {sample.split for sample in read(f"test={tmp_path / 'a.npz'}")} == {"test"}


def test_other_arrays_are_columns(read, tmp_path):
    np.savez(tmp_path / "a.npz", x=PIXELS, fine=LABELS, coarse=LABELS // 2, age=LABELS / 2)
    samples = read(tmp_path / "a.npz", label_column="fine", columns=frozenset({"age", "coarse"}))
    assert samples[5].label == 2
    assert samples[5].columns == {"age": 1.0, "coarse": 1}
    with refuses("missing_label_column", "input", "label_column"):
        read(tmp_path / "a.npz")
    assert [sample.label for sample in read(tmp_path / "a.npz", needs_label=False)] == [None] * 6


@pytest.mark.parametrize(
    ("labels", "expected", "fields"),
    [
        (np.array(["cat", "dög", "cat", "dog", "dog", "cat"]), ["cat", "dög", "cat", "dog", "dog", "cat"], {}),
        (np.eye(3, dtype=np.uint8)[LABELS], [[0], [1], [2], [0], [1], [2]], {}),
        (np.array([[1, 0], [1, 1], [0, 0]] * 2), [[0], [0, 1], []] * 2, {}),
        (LABELS / 4, [0, 0.25, 0.5] * 2, {"label_type": LabelType.FLOAT}),
        (LABELS.astype(">i2"), [0, 1, 2] * 2, {}),
    ],
)
def test_kinds_of_labels(read, tmp_path, labels, expected, fields):
    np.savez(tmp_path / "a.npz", x=PIXELS, y=labels)
    assert [sample.label for sample in read(tmp_path / "a.npz", **fields)] == expected


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (PIXELS[..., None], PIXELS[..., None]),
        (COLORS, COLORS),
        (COLORS.transpose(0, 3, 1, 2), COLORS),
        (np.concatenate([COLORS, COLORS[..., :1]], -1), np.concatenate([COLORS, COLORS[..., :1]], -1)),
    ],
)
def test_shapes_of_images(read, tmp_path, array, expected):
    np.save(tmp_path / "images.npy", array)
    np.testing.assert_array_equal(pixels_of(read(tmp_path / "images.npy", needs_label=False)), expected)


@pytest.mark.parametrize("dtype", ["<u2", ">u2"])
def test_numbers_of_16_bits_are_read_in_their_order_of_bytes(read, tmp_path, dtype):
    array = (PIXELS.astype(np.uint16) * 257).astype(dtype)
    np.save(tmp_path / "images.npy", array)
    (first, *_) = read(tmp_path / "images.npy", needs_label=False)
    data = read_image(first.locator, size=first.size, max_file_size=10**6)
    assert data == b"P5\n9 8\n65535\n" + array[0].astype(">u2").tobytes()


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        ("x_train.npy", "y_train.npy"),
        ("X.npy", "y.npy"),
        ("images.npy", "labels.npy"),
        ("train-images.npy", "train-labels.npy"),
    ],
)
def test_labels_beside_an_array(read, tmp_path, images, labels):
    np.save(tmp_path / images, PIXELS)
    np.save(tmp_path / labels, LABELS)
    samples = read(tmp_path / images)
    assert summary(samples) == [(f"{number:012d}", number % 3, None) for number in range(6)]
    np.testing.assert_array_equal(pixels_of(samples)[..., 0], PIXELS)
    by_folder = read(tmp_path, source="numpy")
    assert [(sample.key, sample.label) for sample in by_folder[:1]] == [(f"{images}/000000000000", 0)]
    assert len(by_folder) == 6


def test_files_of_a_folder_that_are_named_like_splits_are_splits(read, tmp_path):
    for split, part in (("train", slice(0, 4)), ("test", slice(4, 6))):
        np.save(tmp_path / f"X_{split}.npy", PIXELS[part])
        np.save(tmp_path / f"y_{split}.npy", LABELS[part])
    assert [sample.split for sample in read(tmp_path, source="numpy")] == ["test"] * 2 + ["train"] * 4


@pytest.mark.parametrize("name", ["categories", "names"])
def test_texts_among_files_of_images_are_refused(read, tmp_path, name):
    np.save(tmp_path / f"{name}.npy", np.array(["cat", "dog", "emu"]))
    says = [f"{name}.npy [3]", "files of images as `input`", "class names as `class_names`"]
    with refuses("invalid_file", "input", "class_names", says=says):
        read(tmp_path / f"{name}.npy")
    np.save(tmp_path / "images.npy", PIXELS)
    np.save(tmp_path / "labels.npy", LABELS)
    assert [sample.label for sample in read(tmp_path / "images.npy")] == LABELS.tolist()


def test_as_many_texts_as_images_of_another_split_are_no_column(opened, read_containers, tmp_path):
    arrays = {"x_train": PIXELS[:3], "y_train": LABELS[:3], "x_test": PIXELS[3:5], "y_test": LABELS[3:5]}
    np.savez(tmp_path / "a.npz", **arrays, species=np.array(["cat", "dog", "emu"]))
    source = opened(tmp_path / "a.npz")
    assert [sample.label for sample in read_containers(source)[0]] == [0, 1, 2, 0, 1]
    assert any("the array 'species' has 3 texts and is not used" in note for note in source.notes)


class Mark:
    """Says whether it is unpickled."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("an array was unpickled",)


@pytest.mark.parametrize(
    ("arrays", "refusal"),
    [
        ({"x": PIXELS, "y": np.array([Mark()] * 6)}, Refusal("invalid_file", "input", says=["Python objects"])),
        ({"x": np.array([[[Mark()]]])}, Refusal("invalid_file", "input", says=["expected images"])),
        ({"x": PIXELS / 255, "y": LABELS}, Refusal("invalid_file", "input", says=["uint8 or uint16", "white"])),
        ({"x": PIXELS.astype(np.int64), "y": LABELS}, Refusal("invalid_file", "input", says=["uint8 or uint16"])),
        (
            {"x": np.asfortranarray(PIXELS), "y": LABELS},
            Refusal("invalid_file", "input", says=["Fortran order", "ascontiguousarray"]),
        ),
        ({"x": PIXELS.reshape(6, 72), "y": LABELS}, Refusal("invalid_file", "input", says=["no array of images"])),
        ({"x": COLORS[0]}, Refusal("invalid_file", "input", says=["expected images"])),
        (
            {"x": np.zeros((6, 8, 9, 2), np.uint8), "y": LABELS},
            Refusal("invalid_file", "input", says=["1, 3 or 4 channels"]),
        ),
        (
            {"images": PIXELS, "masks": PIXELS, "y": LABELS},
            Refusal("invalid_file", "input", "image_column", says=["several arrays"]),
        ),
        (
            {"x": PIXELS, "x_test": PIXELS, "y": LABELS},
            Refusal("invalid_file", "input", "image_column", says=["several arrays"]),
        ),
        ({"x": PIXELS, "y": LABELS[:5]}, Refusal("missing_label_column", "input", "label_column")),
    ],
)
def test_arrays_that_are_refused(read, tmp_path, arrays, refusal):
    np.savez(tmp_path / "a.npz", **arrays)
    with refuses(refusal):
        read(tmp_path / "a.npz")


def test_the_request_names_the_images(read, tmp_path):
    np.savez(tmp_path / "a.npz", images=PIXELS, masks=PIXELS[:, :4], y=LABELS)
    assert pixels_of(read(tmp_path / "a.npz", image_column="masks")).shape == (6, 4, 9, 1)


def test_damaged_and_foreign_files_are_refused(read, tmp_path):
    np.savez_compressed(tmp_path / "whole.npz", x=PIXELS, y=LABELS)
    whole = (tmp_path / "whole.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[:-30])
    (tmp_path / "text.npz").write_text("no archive")
    (tmp_path / "text.npy").write_text("no array, but long enough")
    (tmp_path / "empty.npy").write_bytes(b"")
    damaged = bytearray(whole)
    damaged[60:120] = bytes(60)
    (tmp_path / "damaged.npz").write_bytes(damaged)
    for name in ("cut.npz", "text.npz", "text.npy", "empty.npy", "damaged.npz"):
        with refuses("invalid_file", "input", says=[name]):
            read(tmp_path / name)


def test_every_image_that_a_cut_file_lacks_is_rejected(read, tmp_path):
    np.save(tmp_path / "x.npy", PIXELS)
    np.save(tmp_path / "y.npy", LABELS)
    with (tmp_path / "x.npy").open("r+b") as file:
        file.truncate(128 + 4 * 72 + 1)
    *samples, cut, last = read(tmp_path / "x.npy")
    assert last.failure == cut.failure
    assert [cut.key, last.key] == ["000000000004", "000000000005"]
    np.testing.assert_array_equal(pixels_of(samples)[..., 0], PIXELS[:4])
    assert cut.failure == ("truncated", "the file is cut: it has 417 bytes, which end in image 4 of 6")


@pytest.mark.nightly
def test_an_archive_that_expands_without_measure_is_rejected(read, tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (1 << 20, 64, 64)})
    with (
        zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w", force_zip64=True) as member,
    ):
        member.write(header.getvalue())
        for _ in range(1100):
            member.write(bytes(1 << 20))
    (rejected,) = read(tmp_path / "bomb.npz", needs_label=False)
    assert (rejected.failure or ("",))[0] == "too_large_file"


@pytest.mark.parametrize("header", [b"{'descr': '|u1', 'shape': (2,", b"{'descr': }", b"{1: [}", b"((("])
def test_a_header_that_is_no_python_is_refused(read, tmp_path, header):
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with refuses("invalid_file", "input"):
        read(tmp_path / "x.npy")


# The product of the second is 0 in 64 bits.
@pytest.mark.parametrize("shape", [(1 << 60, 1 << 20, 1 << 20), (1, 1 << 32, 1 << 32)])
def test_an_array_of_any_claimed_length_takes_no_memory(read, tmp_path, shape):
    with (tmp_path / "x.npy").open("wb") as file:
        head = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, head)
    (cut,) = read(tmp_path / "x.npy", needs_label=False)
    assert (cut.failure or ("",))[0] == "truncated"


# IDX


def test_the_four_files_of_mnist_are_splits_with_labels(read, tmp_path):
    images, labels = {"train": PIXELS[:4], "test": PIXELS[4:]}, {"train": LABELS[:4], "test": LABELS[4:]}
    save_mnist(tmp_path, images, labels)
    samples = read(tmp_path, source="idx")
    assert summary(samples) == [
        *((f"t10k-images-idx3-ubyte/{number:012d}", number + 1, "test") for number in range(2)),
        *((f"train-images-idx3-ubyte/{number:012d}", number % 3, "train") for number in range(4)),
    ]
    np.testing.assert_array_equal(pixels_of(samples)[..., 0], np.concatenate([PIXELS[4:], PIXELS[:4]]))
    assert summary(read(tmp_path / "train-images-idx3-ubyte.gz")) == [
        (f"{number:012d}", number % 3, None) for number in range(4)
    ]


def test_labels_may_be_compressed_where_images_are_not(read, tmp_path):
    save_idx(tmp_path / "train-images.idx3-ubyte", PIXELS)
    save_idx(tmp_path / "train-labels.idx1-ubyte.gz", LABELS)
    assert [sample.label for sample in read(tmp_path / "train-images.idx3-ubyte")] == LABELS.tolist()


def test_images_of_emnist_are_turned_upright(opened, read_containers, tmp_path):
    save_idx(tmp_path / "emnist-letters-train-images-idx3-ubyte.gz", PIXELS.transpose(0, 2, 1))
    save_idx(tmp_path / "emnist-letters-train-labels-idx1-ubyte.gz", LABELS)
    source = opened(tmp_path / "emnist-letters-train-images-idx3-ubyte.gz")
    samples, _ = read_containers(source)
    np.testing.assert_array_equal(pixels_of(samples)[..., 0], PIXELS)
    assert "EMNIST" in source.notes[0]


def test_idx_files_that_are_refused(read, tmp_path):
    save_idx(tmp_path / "a-images-idx3-ubyte", PIXELS)
    with refuses("missing_label_column", "input", "label_column"):
        read(tmp_path / "a-images-idx3-ubyte")
    save_idx(tmp_path / "a-labels-idx1-ubyte", LABELS[:5])
    with refuses("invalid_file", "input", says=["6 images", "a-labels-idx1-ubyte", "5 labels"]):
        read(tmp_path / "a-images-idx3-ubyte")
    with refuses("labels_without_images", "input"):
        read(tmp_path / "a-labels-idx1-ubyte")
    (tmp_path / "b-images-idx3-ubyte").write_bytes(b"text")
    with refuses("invalid_file", "input", says=["IDX"]):
        read(tmp_path / "b-images-idx3-ubyte")
    whole = gzip.compress((tmp_path / "a-images-idx3-ubyte").read_bytes())
    (tmp_path / "c-images-idx3-ubyte.gz").write_bytes(whole[:-100])
    *samples, cut, _ = read(tmp_path / "c-images-idx3-ubyte.gz", needs_label=False)
    assert len(samples) == 4
    assert cut.failure == ("corrupt", "it is damaged, or not complete: Compressed file ended before the end-of-stream marker was reached")  # fmt: skip  # noqa: E501


# CIFAR


def test_cifar_10_has_names_of_classes_and_splits(opened, read_containers, tmp_path):
    save_cifar(tmp_path / "data_batch_1.bin", COLORS[:3], LABELS[:3])
    save_cifar(tmp_path / "data_batch_2.bin", COLORS[3:5], LABELS[3:5])
    save_cifar(tmp_path / "test_batch.bin", COLORS[5:], LABELS[5:])
    (tmp_path / "batches.meta.txt").write_text("airplane\nautomobile\nbird\n\n")
    source = opened(tmp_path, source="cifar")
    samples, _ = read_containers(source)
    assert [one.classes.names for one in source.description.found_classes] == [("airplane", "automobile", "bird")]
    np.testing.assert_array_equal(pixels_of(samples), COLORS)
    assert [sample.label for sample in samples] == [0, 1, 2] * 2
    assert [sample.split for sample in samples] == ["train"] * 5 + ["test"]
    assert samples[3].key == "data_batch_2.bin/000000000000"


def test_cifar_100_has_two_labels(opened, read_containers, tmp_path):
    save_cifar(tmp_path / "train.bin", COLORS, LABELS, LABELS[::-1])
    (tmp_path / "fine_label_names.txt").write_text("apple\nbaby\nbear\n")
    source = opened(tmp_path / "train.bin", columns=frozenset({"coarse_label"}))
    samples, _ = read_containers(source)
    assert [sample.label for sample in samples] == [2, 1, 0] * 2
    assert [sample.columns["coarse_label"] for sample in samples] == LABELS.tolist()
    coarse, _ = read_containers(opened(tmp_path / "train.bin", label_column="coarse_label"))
    assert [sample.label for sample in coarse] == LABELS.tolist()


def test_cifar_files_that_are_refused_or_cut(read, tmp_path):
    save_cifar(tmp_path / "a" / "data_batch_1.bin", np.concatenate([COLORS] * 20), [0] * 120)
    file = tmp_path / "a" / "data_batch_1.bin"
    file.write_bytes(file.read_bytes()[:-1])
    *samples, cut = read(file)
    assert len(samples) == 119
    assert (cut.failure or ("",))[0] == "truncated"
    save_cifar(tmp_path / "a" / "test.bin", COLORS, LABELS, LABELS)
    with refuses("sources_differ", "input"):
        read(tmp_path / "a", source="cifar")
    (tmp_path / "weights.bin").write_bytes(bytes(100))
    with refuses("unknown_file_name", "input"):
        read(tmp_path / "weights.bin")


def test_a_locator_is_of_its_own_kind(read, tmp_path):
    save_idx(tmp_path / "train-images-idx3-ubyte", PIXELS)
    sample = read(tmp_path / "train-images-idx3-ubyte", needs_label=False)[1]
    assert isinstance(sample.locator, PixelRange)
    assert (sample.locator.offset, sample.size) == (16 + 72, 72)
    assert sample.uri == f"{tmp_path / 'train-images-idx3-ubyte'}#000000000001"


@pytest.mark.parametrize(
    "header", ["{'descr': (", "{'descr': '|u1', 'shape': [(,}", "\x00", "1" * 5000 + "**9", "{" * 200]
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_header_that_is_no_python_is_one_refusal(opened, tmp_path, header, version):
    size = len(header).to_bytes(2 * version, "little")
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY" + bytes([version, 0]) + size + header.encode() + bytes(100))
    with refuses("invalid_file", "input"):
        opened(tmp_path / "x.npy")


def test_columns_are_read_by_their_bytes(read, tmp_path, monkeypatch):
    monkeypatch.setattr(numpy_arrays, "MOST_ROW_SIZE", numpy_arrays.MOST_ROW_SIZE // 5)
    arrays = {"x": PIXELS, "y": LABELS, "features": np.zeros((6, 20_000)), "dense": np.zeros((6, 2_000_000), bool)}
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    tracemalloc.start()
    samples = read(tmp_path / "a.npz")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [sample.label for sample in samples] == LABELS.tolist()
    assert peak < 12 << 20
