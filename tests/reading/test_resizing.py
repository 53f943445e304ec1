"""Geometry when reading: what a build with the same settings would have stored, in NumPy and in TensorFlow."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from beam_tfrecords import open_dataset
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow

FIXED = ("crop", "pad", "exact")
MODES = ("shorter", "longer", *FIXED)
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


@pytest.mark.parametrize("form", ["bytes", "features"])
def test_images_as_they_are_stored_have_no_other_size(stored, form):
    with pytest.raises(ValueError, match="these records hold stored images, not pixels"):
        open_dataset(stored).records("train", form=form, image_size=3)
