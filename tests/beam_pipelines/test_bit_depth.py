"""Datasets of 16 bits per channel, from the input to every reader."""

from __future__ import annotations

import hashlib
import json
import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest

from beam_tfrecords import open_dataset
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.image_writers import P3_COLORANTS, icc_profile, png_file
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow

FLAGS = ["--image_encoding=png", "--bit_depth=16"]


def deep(seed: int, channels: int) -> np.ndarray:
    """[30, 50, C] uint16 of 12 bits."""
    return np.random.default_rng(seed).integers(0, 4096, (30, 50, channels), dtype=np.uint16)


@pytest.fixture(scope="module")
def scans(tmp_path_factory) -> Path:
    """Grey images of 16 bits and images of 16 bits per color, of two classes."""
    root = tmp_path_factory.mktemp("scans")
    for number in range(6):
        file = root / f"in/{'grey' if number % 2 else 'color'}/{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png_file(deep(number, 1 if number % 2 else 3)))
    return root


@pytest.fixture(scope="module")
def out(scans, build) -> Path:
    return build(scans / "out", f"--input={scans / 'in'}", *FLAGS)


def source(key: str) -> np.ndarray:
    """[30, 50, 3] uint16: what the file of a name holds."""
    number = int(key.split("/")[-1].split(".")[0])
    array = deep(number, 1 if number % 2 else 3)
    return np.repeat(array, 3, axis=2) if number % 2 else array


def test_load_gives_every_bit(out):
    examples = list(load(out, "train").as_numpy_iterator())
    assert len(examples) == 6
    for example in examples:
        assert example["image"].dtype == np.uint16
        np.testing.assert_array_equal(example["image"], source(example["filename"].decode()))


@pytest.mark.nightly
def test_load_resizes_and_batches_them(out):
    batch = next(load(out, "train", batch_size=6, image_size=20, resize_mode="crop").as_numpy_iterator())
    assert (batch["image"].shape, batch["image"].dtype) == ((6, 20, 20, 3), np.uint16)
    assert 1500 < batch["image"].mean() < 2500


def test_records_give_every_bit(out):
    records = open_dataset(out).records("train")
    assert len(records) == 6
    for example in records:
        assert example["image"].dtype == np.uint16
        np.testing.assert_array_equal(example["image"], source(example["filename"]))


@pytest.mark.parametrize("channels", ["1", "4", "keep"])
def test_other_channels_are_read_alike(scans, tmp_path, build, channels):
    out = build(tmp_path / "out", f"--input={scans / 'in'}", *FLAGS, f"--channels={channels}")
    records = {example["filename"]: example["image"] for example in open_dataset(out).records("train")}
    for example in load(out, "train").as_numpy_iterator():
        image = records[example["filename"].decode()]
        assert (image.dtype, image.shape[2]) == (np.uint16, 3 if channels == "keep" else int(channels))
        np.testing.assert_array_equal(image, example["image"])
        if channels != "1":
            np.testing.assert_array_equal(image[..., :3], source(example["filename"].decode()))


@pytest.mark.parametrize("layout", ["imagenet", "tutorial"])
def test_every_layout_holds_them_as_image(scans, tmp_path, build, layout):
    out = build(tmp_path / "out", f"--input={scans / 'in'}", *FLAGS, f"--layout={layout}", "--image_size=24")
    for example in load(out, "train").as_numpy_iterator():
        assert (example["image"].dtype, example["image"].shape) == (np.uint16, (24, 40, 3))


def test_the_features_for_tfds_say_uint16(out):
    features = json.loads((out / "features.json").read_text())["featuresDict"]["features"]
    assert features["image"]["image"]["dtype"] == "uint16"
    assert features["image"]["image"]["encodingFormat"] == "png"


def test_inspect_says_how_many_bits_there_are(out, run):
    assert (
        "a PNG of 30 x 50 pixels (height x width), RGB, 16 bits per channel" in run("inspect", f"--dataset={out}").out
    )


def test_verify_finds_images_of_other_bits(scans, out, tmp_path, build, verify):
    assert verify(out).code == 0
    shallow = build(tmp_path / "out", f"--input={scans / 'in'}", "--image_encoding=png")
    manifest = manifest_of(shallow)
    manifest["spec"]["bit_depth"] = 16
    data = json.dumps(manifest).encode()
    (shallow / "manifest.json").write_bytes(data)
    (shallow / "_SUCCESS").write_text(json.dumps({"manifest_sha256": hashlib.sha256(data).hexdigest()}))
    ran = verify(shallow)
    assert ran.code == 1
    assert ran.out.count("expected a PNG of 16 bits per channel") == 6


def test_a_profile_that_cannot_be_applied_is_told_with_the_flag(scans, tmp_path, convert):
    shutil.copytree(scans / "in", tmp_path / "in")
    profile = b"p\0\0" + zlib.compress(icc_profile(P3_COLORANTS, 2.2))
    (tmp_path / "in/color/9.png").write_bytes(png_file(deep(9, 3), chunks=[(b"iCCP", profile)]))
    flags = [f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", *FLAGS, "--max_failures=0.5"]
    ran = convert(*flags)
    assert "unsupported_mode" in ran.out
    assert "--color_profile=ignore stores the numbers as they are" in ran.out
    ran = convert(*flags, "--overwrite", "--color_profile=ignore")
    assert manifest_of(tmp_path / "out")["records"] == 7
