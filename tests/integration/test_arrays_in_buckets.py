"""Arrays of pixels in buckets: the same examples as from a disk."""

from __future__ import annotations

import numpy as np
import pytest

from tests.integration.buckets import SCHEMES, build, content_of, services, upload
from tests.pixel_files import save_cifar, save_mnist

GREY = np.random.default_rng(0).integers(0, 256, (40, 28, 28), dtype=np.uint8)
COLORS = np.random.default_rng(1).integers(0, 256, (40, 32, 32, 3), dtype=np.uint8)
LABELS = np.arange(40) % 4


@pytest.fixture(scope="module", params=SCHEMES)
def bucket(request, tmp_path_factory):
    with services(tmp_path_factory.mktemp("services"), request.param):
        yield f"{request.param}://photos"


@pytest.fixture(scope="module")
def arrays(bucket, tmp_path_factory):
    """A folder of arrays; the same is in the bucket."""
    folder = tmp_path_factory.mktemp("arrays")
    np.savez(folder / "plain.npz", x_train=COLORS[:30], y_train=LABELS[:30], x_test=COLORS[30:], y_test=LABELS[30:])
    np.savez_compressed(folder / "small.npz", images=GREY, labels=LABELS)
    np.save(folder / "x.npy", GREY)
    np.save(folder / "y.npy", LABELS)
    save_mnist(folder / "mnist", {"train": GREY, "test": 255 - GREY[:8]}, {"train": LABELS, "test": LABELS[:8]})
    save_cifar(folder / "cifar/data_batch_1.bin", COLORS, LABELS)
    upload(folder, bucket)
    return folder


@pytest.mark.parametrize("name", ["plain.npz", "small.npz", "x.npy", "mnist", "cifar"])
def test_arrays_are_read_by_ranges(bucket, arrays, tmp_path, name):
    source = [f"--source={ {'mnist': 'idx'}.get(name, name) }"] if "." not in name else []
    for root in (str(arrays), bucket):
        output = tmp_path / ("local" if root == str(arrays) else "bucket")
        build(f"--input={root}/{name}", f"--output={output}", "--name=arrays", "--image_encoding=png", *source)
    assert content_of(str(tmp_path / "bucket")) == content_of(str(tmp_path / "local"))
