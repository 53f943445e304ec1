"""Geometry when reading: what a build with the same settings would have stored, in NumPy and in TensorFlow."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from beam_tfrecords import open_dataset
from beam_tfrecords.dataset.manifest import StoredImages
from beam_tfrecords.geometry.sizes import ResizeMode, read_image_size
from beam_tfrecords.reading.resizing import Resize, resize_pixels
from beam_tfrecords.transforms.images import image_spec
from beam_tfrecords.transforms.images.orient import plan_geometry
from tests import tensorflow as tf
from tests.each import each
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow

MODES = ResizeMode.__args__
FIXED = ("crop", "pad", "exact")
SIZES = ((30, 40), (40, 30), (61, 23), (17, 64))
KEYPOINTS = [f"image/object/keypoint/{name}" for name in ("x", "y", "visibility")]
LAYOUT = {
    "image": "image.encoded",
    "name": "filename",
    **{side: f"objects.{side}" for side in ("xmin", "ymin", "xmax", "ymax")},
    "boxes": "objects.bbox",
    "labels": "objects.index",
    "names": "objects.name",
    "areas": "objects.area",
    "masks": "objects.mask",
    "polygons": "objects.polygon",
    "corners": "objects.polygon_points",
    **{name: f"objects.keypoint_{name.rpartition('/')[2]}" for name in KEYPOINTS},
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Pictures of soft colors with three objects each: words of a build, which keeps their pixels."""
    root, random = tmp_path_factory.mktemp("geometry"), np.random.default_rng(5)
    (root / "pictures").mkdir()
    images, annotations = [], []
    for number, (height, width) in enumerate(SIZES, 1):
        coarse = Image.fromarray(random.integers(0, 256, (4, 4, 3), np.uint8))
        coarse.resize((width, height), Image.Resampling.BICUBIC).save(root / "pictures" / f"{number}.png")
        images.append({"id": number, "file_name": f"{number}.png", "height": height, "width": width})
        for category in (1, 2, 1):
            left, top = random.integers(0, width - 6), random.integers(0, height - 6)
            right, bottom = random.integers(left + 3, width), random.integers(top + 3, height)
            box = [int(left), int(top), int(right - left), int(bottom - top)]
            corners = [[int(one) for one in (left, top, right, top, right, bottom, left, bottom)]]
            corners[0] = corners[0][: 4 + 2 * category]
            points = [int(left), int(top), 2, int(right - 1), int(bottom - 1), 1, 0, 0, 0]
            annotations.append(
                {
                    "id": len(annotations) + 1, "image_id": number, "category_id": category, "bbox": box,
                    "area": box[2] * box[3] / 2, "iscrowd": 0, "segmentation": corners, "keypoints": points,
                }
            )  # fmt: skip
    categories = [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}]
    content = {"images": images, "annotations": annotations, "categories": categories}
    (root / "instances_train.json").write_text(json.dumps(content))
    spec = {
        "input": str(root / "instances_train.json"), "image_root": str(root / "pictures"), "layout": LAYOUT,
        "image_encoding": "png", "resample": "bilinear",
    }  # fmt: skip
    (root / "spec.yaml").write_text(json.dumps(spec))
    return f"--spec={root / 'spec.yaml'}"


@pytest.fixture(scope="module")
def stored(source, build, tmp_path_factory):
    """The pictures in their own sizes."""
    return build(tmp_path_factory.mktemp("stored") / "out", source)


def by_name(examples) -> dict[str, dict]:
    return {
        example["name"].decode() if isinstance(example["name"], bytes) else example["name"]: example
        for example in examples
    }


def check_objects(ours, expected) -> None:
    """Checks objects; masks are drawn anew by a build, and may differ at the edges of objects."""
    assert [str(name) for name in ours["names"]] == [str(name) for name in expected["names"]]
    for name in ("labels", KEYPOINTS[2], "corners"):
        np.testing.assert_array_equal(ours[name], expected[name])
    for name in ("xmin", "ymin", "xmax", "ymax", "boxes", "polygons", "areas", *KEYPOINTS[:2]):
        np.testing.assert_allclose(ours[name], expected[name], rtol=1e-4, atol=1e-5, err_msg=name)
    assert ours["masks"].shape == expected["masks"].shape
    for mask, same in zip(ours["masks"], expected["masks"], strict=True):
        perimeter = 2 * sum(mask.shape)
        assert (mask != same).sum() <= perimeter


@pytest.mark.parametrize("size", [(20, 50), (70, 66)])
@pytest.mark.parametrize("mode", MODES)
def test_a_reader_gives_what_a_build_would_have_stored(tmp_path, source, stored, build, mode, size):
    height, width = size
    built = open_dataset(build(tmp_path / "out", source, f"--image_size={height}x{width}", f"--resize_mode={mode}"))
    expected = by_name(built.records("train"))
    read = by_name(open_dataset(stored).records("train", image_size=size, resize_mode=mode))
    assert read.keys() == expected.keys()
    for name, ours in read.items():
        assert ours["image"].shape == expected[name]["image"].shape
        assert np.abs(ours["image"].astype(int) - expected[name]["image"]).mean() < 1.5
        check_objects(ours, expected[name])


@pytest.mark.nightly
@pytest.mark.parametrize("mode", MODES)
def test_tensorflow_gives_what_numpy_gives(stored, mode):
    for size in ((20, 50), 66):
        read = by_name(open_dataset(stored).records("train", image_size=size, resize_mode=mode))
        theirs = by_name(load(stored, "train", image_size=size, resize_mode=mode).as_numpy_iterator())
        assert read.keys() == theirs.keys()
        for name, example in theirs.items():
            example["names"] = [text.decode() for text in example["names"]]
            np.testing.assert_allclose(read[name]["image"], example["image"].astype(int), atol=2)
            check_objects(read[name], example)
            np.testing.assert_array_equal(read[name]["masks"], example["masks"])


@pytest.mark.nightly
@pytest.mark.parametrize("mode", FIXED)
def test_images_masks_and_objects_of_one_size_are_batched(stored, mode):
    (batch,) = load(stored, "train", image_size=24, resize_mode=mode, batch_size=4, num_objects=3)
    assert batch["image"].shape == (4, 24, 24, 3)
    assert batch["masks"].shape == (4, 3, 24, 24)
    assert batch["boxes"].shape == (4, 3, 4)
    (batch,) = load(stored, "train", image_size=24, resize_mode=mode, batch_size=4)
    assert batch["boxes"].shape[:2] == (4, None)


@pytest.mark.nightly
@pytest.mark.parametrize("mode", ["shorter", "longer"])
def test_images_that_keep_their_aspect_ratio_are_batched_only_if_they_had_one_size(
    tmp_path, source, stored, build, mode
):
    with pytest.raises(ValueError, match="'crop', 'pad' or 'exact'"):
        load(stored, "train", image_size=24, resize_mode=mode, batch_size=4)
    cut = build(tmp_path / "out", source, "--image_size=20x30", "--resize_mode=exact")
    (batch,) = load(cut, "train", image_size=24, resize_mode=mode, batch_size=4, num_objects=3)
    assert batch["image"].shape[1:3] == ((24, 36) if mode == "shorter" else (16, 24))


SIDE = st.integers(1, 5000)


@given(SIDE, SIDE, SIDE, SIDE, st.sampled_from(MODES))
def test_sizes_are_those_of_a_build(height, width, target_height, target_width, mode):
    from beam_tfrecords.reading.tf_examples import TensorPlacement  # It imports TensorFlow.

    size = target_height, target_width
    spec = image_spec.ImageSpec(image_size=size, resize_mode=image_spec.ResizeMode(mode), max_pixels=1 << 60)
    planned = plan_geometry(height, width, orientation=1, spec=spec)
    placed = Resize(size, mode).place(height, width)
    assert placed.resized == planned.resized
    assert placed.final == planned.final
    assert placed.offset == planned.offset
    theirs = TensorPlacement.of(tf.broadcast_to(np.uint8(0), (height, width, 0)), Resize(size, mode))
    assert tuple(map(int, theirs.resized)) == placed.resized
    assert tuple(map(int, theirs.final)) == placed.final


@each("dtype", [np.uint8, np.uint16])
@each("channels", [1, 3, 4])
@each("mode", MODES)
def test_every_kind_of_pixels_is_resized(mode, channels, dtype):
    random = np.random.default_rng(1)
    for _ in range(50):
        height, width, *size = random.integers(1, 90, 4).tolist()
        pixels = np.full((height, width, channels), 200, dtype)
        placed = Resize(tuple(size), mode).place(height, width)
        image = resize_pixels(pixels, placed)
        assert (image.shape, image.dtype) == ((*placed.final, channels), dtype)
        # A color stays what it is, and the canvas is black.
        assert set(np.unique(image)) <= {0, 200}
        assert (image == 200).sum() == np.minimum(placed.resized, placed.final).prod() * channels


ONE_SIZE, SIZES_DIFFER = StoredImages("jpeg", 3, (100, 100)), StoredImages("jpeg", 3, None)


def test_a_mode_is_asked_for_where_it_decides():
    for size, stored, found in (
        (223, SIZES_DIFFER, "may have different sizes"),
        ((30, 40), ONE_SIZE, "have 100 x 100 pixels"),
        ("30x40", ONE_SIZE, "have 100 x 100 pixels"),
    ):
        with pytest.raises(ValueError, match=f"stored images {found}, so say how .* 'shorter', the default of a"):
            Resize.of(size, None, stored)
    # Nothing is left out of a square.
    assert Resize.of((225, 225), None, ONE_SIZE) == Resize.of(225, None, ONE_SIZE) == Resize((225, 225), "crop")


@each("given", [20, (20, 50), [20, 50], "20", "20x50"])
def test_a_size_is_read_as_a_build_reads_it(given):
    height, width = read_image_size(given)
    assert Resize.of(given, "shorter", SIZES_DIFFER) == Resize((height, width), "shorter")


def test_a_build_and_a_reader_mean_the_same_size(tmp_path, source, stored, build):
    built = open_dataset(build(tmp_path / "out", source, "--image_size=16"))
    expected = {name: one["image"].shape for name, one in by_name(built.records()).items()}
    with pytest.raises(ValueError, match="resize_mode="):
        load(stored, "train", image_size=16)
    with pytest.raises(ValueError, match="resize_mode="):
        open_dataset(stored).records(image_size=16)
    read = by_name(open_dataset(stored).records(image_size=16, resize_mode="shorter"))
    assert {name: one["image"].shape for name, one in read.items()} == expected
    # Of the stored images too.
    with pytest.raises(ValueError, match="resize_mode="):
        built.records(image_size=16)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, "crop"), "expected an image_size with it"),
        ((224, "squeeze"), "expected 'crop', 'pad'"),
        ((0, None), "in pixels, or one number"),
        (((1, 2, 3), None), "in pixels, or one number"),
        ((True, None), "in pixels, or one number"),
        (("224x", "crop"), "in pixels, or one number"),
        ((-3, "crop"), "in pixels, or one number"),
        ((2.5, None), "in pixels, or one number"),
    ],
)
def test_a_size_that_there_is_not_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Resize.of(*arguments, SIZES_DIFFER)


@pytest.mark.parametrize("form", ["bytes", "features"])
def test_images_as_they_are_stored_have_no_other_size(stored, form):
    with pytest.raises(ValueError, match="these records hold stored images, not pixels"):
        open_dataset(stored).records("train", form=form, image_size=3)
