"""Images that TFDS stores as tensors, in datasets that TFDS has written itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow_datasets as tfds

from beam_tfrecords import open_dataset

pytestmark = pytest.mark.nightly

COLORS = np.random.default_rng(0).integers(0, 256, (9, 6, 5, 3), dtype=np.uint8)


class Tensors(tfds.core.GeneratorBasedBuilder):
    """Images as tensors, with the class of each; the arguments are those of `write_dataset`."""

    VERSION = tfds.core.Version("1.0.0")

    def __init__(self, images: np.ndarray, encoding: str, **options: Any) -> None:
        self.images, self.encoding = images, encoding
        super().__init__(**options)

    def _info(self) -> tfds.core.DatasetInfo:
        image = tfds.features.Tensor(shape=self.images.shape[1:], dtype=self.images.dtype.type, encoding=self.encoding)
        label = tfds.features.ClassLabel(names=["a", "b", "c"])
        return self.dataset_info_from_configs(features=tfds.features.FeaturesDict({"image": image, "label": label}))

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator[Any]]:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Iterator[Any]:
        for number, image in enumerate(self.images):
            yield number, {"image": image, "label": number % 3}


def write_dataset(folder: Path, images: np.ndarray, encoding: str) -> Path:
    """Writes a dataset of images, [N, H, W] or [N, H, W, C]; returns its folder."""
    builder = Tensors(images, encoding, data_dir=folder)
    builder.download_and_prepare()
    return Path(builder.data_path)


@pytest.mark.parametrize("encoding", ["none", "bytes"])
@pytest.mark.parametrize("images", [COLORS, COLORS[..., 0], COLORS.astype(np.float32) / 255], ids=["u8", "grey", "f4"])
def test_a_tensor_is_an_image_of_its_shape(tmp_path, build, images, encoding):
    data = write_dataset(tmp_path / "data", images, encoding)
    channels = 1 if images.ndim == 3 else 3
    flags = ["--source=tfrecord", "--image_encoding=png", f"--channels={channels}"]
    flags += ["--pixels=float32:0..1"] if images.dtype.kind == "f" else []
    out = build(tmp_path / "out", f"--input={data}", *flags)
    records = open_dataset(out).records("train")
    expected = {
        one.tobytes() for one in (images * 255 if images.dtype.kind == "f" else images).round().astype(np.uint8)
    }
    assert {np.asarray(record["image"]).tobytes() for record in records} == expected
    assert open_dataset(out).class_names == ("a", "b", "c")


def test_a_compressed_tensor_is_refused(tmp_path, convert):
    data = write_dataset(tmp_path / "data", COLORS, "zlib")
    ran = convert(f"--input={data}", f"--output={tmp_path / 'out'}", "--source=tfrecord")
    ran.refused("missing_pixel_size", "input", "pixels")
