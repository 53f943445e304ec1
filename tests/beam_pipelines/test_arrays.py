"""Files of pixels as datasets: every number of the source is in the records."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.beam_pipelines.dataset_checks import manifest_of
from tests.pixel_files import save_cifar, save_mnist
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow

GREY = np.random.default_rng(0).integers(0, 256, (40, 28, 28), dtype=np.uint8)
COLORS = np.random.default_rng(1).integers(0, 256, (40, 32, 32, 3), dtype=np.uint8)
LABELS = np.arange(40) % 4


def save_deep(folder: Path) -> None:
    np.savez(folder / "in.npz", x=GREY.astype(np.uint16) * 255, y=LABELS)


# What saves the input, its name, the split of each image, the images, and flags.
FORMS: dict[str, tuple[Callable[[Path], None], str, np.ndarray, list[str]]] = {
    "npz": (lambda folder: np.savez(folder / "in.npz", x=COLORS, y=LABELS), "in.npz", COLORS, []),
    "compressed npz": (
        lambda folder: np.savez_compressed(folder / "in.npz", x=COLORS.transpose(0, 3, 1, 2), y=LABELS),
        "in.npz",
        COLORS,
        [],
    ),
    "16 bits": (save_deep, "in.npz", GREY.astype(np.uint16) * 255, ["--channels=1", "--bit_depth=16"]),
    "idx": (
        lambda folder: save_mnist(folder, {"train": GREY, "test": GREY}, {"train": LABELS, "test": LABELS}),
        "train-images-idx3-ubyte.gz",
        GREY,
        ["--channels=1"],
    ),
    "cifar": (
        lambda folder: save_cifar(folder / "data_batch_1.bin", COLORS, LABELS),
        "data_batch_1.bin",
        COLORS,
        [],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_pixel_and_label_is_stored(form, tmp_path, build, read):
    save, name, images, flags = FORMS[form]
    save(tmp_path)
    out = build(tmp_path / "out", f"--input={tmp_path / name}", "--image_encoding=png", *flags)
    records = read(out, "train")
    assert len(records) == 40
    for record in records:
        number = int(record.key[-12:])
        stored = cv2.imdecode(np.frombuffer(record["image"], np.uint8), cv2.IMREAD_UNCHANGED)
        np.testing.assert_array_equal(stored[..., ::-1] if stored.ndim == 3 else stored, images[number])
        assert record["label"] == number % 4


def test_fer2013_has_its_three_splits(tmp_path, build, read):
    usage = ["Training"] * 30 + ["PublicTest"] * 6 + ["PrivateTest"] * 4
    with (tmp_path / "fer2013.csv").open("w", newline="") as file:
        texts = (" ".join(map(str, image.ravel())) for image in GREY)
        csv.writer(file).writerows([("emotion", "pixels", "Usage"), *zip(LABELS, texts, usage, strict=True)])
    out = build(tmp_path / "out", f"--input={tmp_path / 'fer2013.csv'}", "--image_encoding=png", "--channels=1")
    for split, numbers in (("train", range(30)), ("validation", range(30, 36)), ("test", range(36, 40))):
        records = {int(record.key): record for record in read(out, split)}
        assert sorted(records) == list(numbers)
        for number, record in records.items():
            stored = cv2.imdecode(np.frombuffer(record["image"], np.uint8), cv2.IMREAD_UNCHANGED)
            np.testing.assert_array_equal(stored, GREY[number])
            assert record["label"] == number % 4


def test_pixels_are_resized_and_kept_as_images_are(tmp_path, build):
    np.savez(tmp_path / "in.npz", x=COLORS, y=LABELS)
    out = build(tmp_path / "small", f"--input={tmp_path / 'in.npz'}", "--image_size=16")
    assert {example["image"].shape for example in load(out, "train").as_numpy_iterator()} == {(16, 16, 3)}
    kept = build(tmp_path / "kept", f"--input={tmp_path / 'in.npz'}", "--image_encoding=keep")
    found = sorted(example["image"].tobytes() for example in load(kept, "train").as_numpy_iterator())
    assert found == sorted(image.tobytes() for image in COLORS)


def test_the_same_pixels_are_duplicates_in_whatever_file_they_are(tmp_path, build):
    np.savez_compressed(tmp_path / "a.npz", x=COLORS, y=LABELS)
    np.savez(tmp_path / "b.npz", x=COLORS.transpose(0, 3, 1, 2), y=LABELS)
    out = build(tmp_path / "out", f"--input={tmp_path / 'a.npz'}", f"--input={tmp_path / 'b.npz'}", "--duplicates=drop")
    assert manifest_of(out)["records"] == 40


def test_pixels_in_records_come_back_from_a_dataset_of_ours(tmp_path, build, read):
    np.savez(tmp_path / "in.npz", x=COLORS, y=LABELS)
    raw = build(tmp_path / "raw", f"--input={tmp_path / 'in.npz'}", "--layout=raw", "--image_encoding=raw")
    again = build(tmp_path / "again", f"--input={raw}", "--source=tfrecord", "--layout=raw", "--image_encoding=raw")
    pixels = [sorted(record["image_raw"] for record in read(path, "train")) for path in (raw, again)]
    assert pixels[0] == pixels[1] == sorted(image.tobytes() for image in COLORS)
