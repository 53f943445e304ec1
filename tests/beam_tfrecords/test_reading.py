"""Reading with tf.data: shapes, order, batches, and what cannot be batched."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.refusals import refuses
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, photos, build) -> str:
    """Photos of different sizes, as JPEG."""
    folder = tmp_path_factory.mktemp("reading") / "out"
    return str(build(folder, f"--input={photos}", "--image_size=40", "--num_shards=3"))


def names(examples) -> list[bytes]:
    return [example["filename"] for example in examples.as_numpy_iterator()]


def test_every_example_is_read_and_its_image_decoded(dataset):
    examples = list(load(dataset, "train").as_numpy_iterator())
    assert len(examples) == 42
    assert all(example["image"].dtype == np.uint8 and min(example["image"].shape[:2]) == 40 for example in examples)


def test_without_shuffle_the_order_is_always_the_same(dataset):
    assert names(load(dataset, "train")) == names(load(dataset, "train"))


def test_a_shuffle_with_a_seed_keeps_every_example(dataset):
    shuffled = names(load(dataset, "train", shuffle=42, seed=1))
    assert shuffled != names(load(dataset, "train"))
    assert sorted(shuffled) == sorted(names(load(dataset, "train")))


def test_images_of_different_sizes_are_not_batched(dataset):
    with pytest.raises(ValueError, match="image_size="):
        load(dataset, "train", batch_size=4)


def test_batches_of_resized_of_transformed_and_of_encoded_images(dataset):
    batch = next(iter(load(dataset, "train", batch_size=4, image_size=(20, 30), resize_mode="crop")))
    assert batch["image"].shape == (4, 20, 30, 3)
    batch = next(iter(load(dataset, "train", batch_size=4, transform=lambda example: example["image"][:32, :32])))
    assert batch.shape == (4, 32, 32, 3)
    batch = next(iter(load(dataset, "train", batch_size=4, decode=False)))
    assert batch["image"].shape == (4,)


class Renumber:
    """A transform that is an object, with a condition that depends on a tensor."""

    def __call__(self, example):
        if example["label"] == 0:
            example["label"] += 100
        return example


@pytest.mark.parametrize("transform", [Renumber(), Renumber().__call__, functools.partial(Renumber.__call__, None)])
def test_a_transform_may_have_conditions_that_depend_on_tensors(dataset, transform):
    given = [int(example["label"]) for example in load(dataset, "train", decode=False)]
    found = [int(example["label"]) for example in load(dataset, "train", decode=False, transform=transform)]
    assert 0 in given
    assert found == [label or 100 for label in given]


def test_a_last_batch_that_is_not_full_can_be_dropped(dataset):
    def sizes(**options) -> list[int]:
        return [len(batch["label"]) for batch in load(dataset, "train", batch_size=40, decode=False, **options)]

    assert (sizes(), sizes(drop_remainder=True)) == ([40, 2], [40])


def test_an_unknown_split_is_refused_with_the_known_ones(dataset):
    with refuses("unknown_split", says=["'test'", "it has: train"]):
        load(dataset, "test")


@pytest.mark.nightly
@pytest.mark.parametrize("encoding", ["png", "webp", "raw"])
def test_every_encoding_of_the_same_pixels_reads_alike(tmp_path, photos, build, encoding):
    flags = [f"--input={photos}", "--image_size=96x128", "--resize_mode=exact", "--codec=exact", "--jpeg_quality=100"]
    raw = build(tmp_path / "raw", *flags, "--image_encoding=raw")
    other = build(tmp_path / "other", *flags, f"--image_encoding={encoding}")
    pairs = zip(load(str(raw), "train").as_numpy_iterator(), load(str(other), "train").as_numpy_iterator(), strict=True)
    for one, two in pairs:
        assert one["filename"] == two["filename"]
        difference = np.abs(one["image"].astype(int) - two["image"])
        assert difference.mean() < (5 if encoding == "webp" else 0.001)


def test_gzip_and_raw_images_of_different_sizes_read(tmp_path, photos, build):
    path = build(tmp_path / "out", f"--input={photos}", "--image_size=24", "--layout=raw", "--compression=gzip")
    examples = list(load(str(path), "train").as_numpy_iterator())
    assert len(examples) == 42
    for example in examples:
        assert example["image"].shape == (example["height"], example["width"], example["depth"])
