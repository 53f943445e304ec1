"""Images with any number of channels: files become arrays, which every reader returns as they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import beam_tfrecords
from beam_tfrecords import BuildError
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.framing import Example, framed, records_of
from tests.refusals import refuses
from tests.tensorflow import load
from tests.tiff_files import tiff_of

pytestmark = pytest.mark.tensorflow

CLASSES = ("forest", "river")
NAMES = [f"{name}/{number}" for name in CLASSES for number in range(3)]


def noise(seed: int, *shape: int, dtype: str = "uint16") -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 10_000 if dtype != "uint8" else 256, shape).astype(dtype)


def scenes(*shape: int, dtype: str = "uint16") -> dict[str, np.ndarray]:
    return {name: noise(seed, *shape, dtype=dtype) for seed, name in enumerate(NAMES)}


def write_tiffs(folder: Path, arrays: Mapping[str, np.ndarray], **how) -> Path:
    for name, pixels in arrays.items():
        path = folder / f"{name}.tif"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tiff_of(pixels, **how))
    return folder


def write_npys(folder: Path, arrays: Mapping[str, np.ndarray]) -> Path:
    for name, pixels in arrays.items():
        path = folder / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, pixels)
    return folder


def build(source: Path | None, output: Path, **settings) -> beam_tfrecords.Dataset:
    given = {"input": str(source)} if source else {}
    return beam_tfrecords.build(**given, output=str(output), quiet=True, report=False, **settings)


def arrays_of(dataset, **how) -> dict[str, np.ndarray]:
    return {example["key"]: example["image"] for example in dataset.records("train", **how)}


LAYOUT = {
    "image": "image.array",
    "shape": "image.shape",
    "dtype": "image.dtype",
    "label": "label.index",
    "key": "key",
}


@pytest.mark.report
@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize(("dtype", "channels"), [("uint8", 2), ("uint16", 13), ("float32", 5)])
def test_tiff_files_of_any_channels_become_arrays(tmp_path, verify, planar, dtype, channels):
    arrays = scenes(24, 20, channels, dtype=dtype)
    dataset = build(write_tiffs(tmp_path / "in", arrays, planar=planar), tmp_path / "out", layout=LAYOUT)
    for example in dataset.records("train"):
        expected = arrays[example["key"].removesuffix(".tif")]
        assert (example["image"].dtype, example["dtype"]) == (expected.dtype, dtype)
        np.testing.assert_array_equal(example["image"], expected)
        assert example["shape"].tolist() == [24, 20, channels]
        assert CLASSES[example["label"]] == example["key"].split("/")[0]
    stored = manifest_of(tmp_path / "out")
    assert (stored["spec"]["array_type"], stored["spec"]["channels"]) == (dtype, channels)
    assert f"arrays of {channels} channels of {dtype}, as the first samples have them" in stored["notes"]
    described = json.loads((tmp_path / "out/croissant.json").read_text())["distribution"][0]["description"]
    assert f"The feature image is an array, [24, 20, {channels}] of {dtype}, row by row" in described
    assert verify(tmp_path / "out").code == 0


def test_every_reader_returns_the_same_numbers(tmp_path):
    arrays = scenes(24, 20, 13, dtype="float32")
    dataset = build(write_npys(tmp_path / "in", arrays), tmp_path / "out", layout="array,label")
    records = list(dataset.records("train"))
    loaded = load(dataset, "train", batch_size=6)
    assert loaded.element_spec["image"].shape.as_list() == [None, 24, 20, 13]
    (batch,) = loaded.as_numpy_iterator()
    for record, image, label in zip(records, batch["image"], batch["label"], strict=True):
        np.testing.assert_array_equal(record["image"], image)
        np.testing.assert_array_equal(image, arrays[f"{CLASSES[label]}/{record['filename'].removesuffix('.npy')}"])
    resized = dataset.records("train").resized((12, 10), "exact")
    (batch,) = load(dataset, "train", batch_size=6, image_size=(12, 10), resize_mode="exact").as_numpy_iterator()
    np.testing.assert_allclose([one["image"] for one in resized], batch["image"], atol=0.01)


def test_arrays_of_several_sizes_have_their_channels(tmp_path):
    arrays = {name: noise(seed, 10 + seed, 12, 5) for seed, name in enumerate(NAMES)}
    dataset = build(write_tiffs(tmp_path / "in", arrays), tmp_path / "out", layout=LAYOUT)
    assert manifest_of(tmp_path / "out")["array_size"] is None
    loaded = load(dataset, "train")
    assert loaded.element_spec["image"].shape.as_list() == [None, None, 5]
    for example in loaded.as_numpy_iterator():
        np.testing.assert_array_equal(example["image"], arrays[example["key"].decode().removesuffix(".tif")])
    (batch,) = load(dataset, "train", batch_size=6, image_size=8, resize_mode="crop").as_numpy_iterator()
    assert batch["image"].shape == (6, 8, 8, 5)


def test_verify_finds_arrays_that_are_not_those_of_the_index(tmp_path, verify):
    layout = {**LAYOUT, "height": "image.height"}
    build(write_tiffs(tmp_path / "in", scenes(24, 20, 5)), tmp_path / "out", layout=layout)
    (shard,) = (tmp_path / "out").glob("*.tfrecord-*")
    records = [Example.FromString(record) for record in records_of(shard)]
    records[0].features.feature["shape"].int64_list.value[:] = [20, 24, 5]
    records[1].features.feature["dtype"].bytes_list.value[:] = [b"int16"]
    records[2].features.feature["image"].bytes_list.value[:] = [b"short"]
    shard.write_bytes(framed(*(record.SerializeToString(deterministic=True) for record in records)))
    found = verify(tmp_path / "out").out
    assert "says the shape [20, 24, 5]; expected [24, 20, 5]" in found
    assert "says the type b'int16'; expected uint16" in found
    assert "has 5 bytes of pixels; expected 24 x 20 x 5 of uint16" in found


def test_a_mask_lies_beside_an_array(tmp_path):
    arrays = scenes(24, 20, 13)
    for name, pixels in arrays.items():
        path = tmp_path / "masks" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels[..., 0] > 5000).astype(np.uint8)).save(path)
    write_tiffs(tmp_path / "in", arrays)
    settings = {"mask_root": str(tmp_path / "masks"), "layout": "array,mask"}
    dataset = build(tmp_path / "in", tmp_path / "out", **settings, image_size="12x10", resample="nearest")
    for example in dataset.records("train"):
        assert example["image"].shape == (12, 10, 13)
        np.testing.assert_array_equal(example["mask"][..., 0], example["image"][..., 0] > 5000)


# Several files for each sample: (folder, pattern of names, extension, depth and type of each band), and its order.
JOINED: dict[str, tuple[list[tuple[str, str, str, int, str]], list[int]]] = {
    "folders": ([("B02", "{}", "tif", 1, "uint16"), ("B03", "{}", "tif", 1, "uint16"),
                 ("B08", "{}", "tif", 1, "uint16")], [2, 0, 1]),
    "suffixes": ([("in", "{}_red", "tif", 1, "uint16"), ("in", "{}_nir", "tif", 1, "uint16")], [1, 0]),
    "color and depth": ([("rgb", "{}", "png", 3, "uint8"), ("depth", "{}", "png", 1, "uint16")], [0, 1]),
}  # fmt: skip


@pytest.mark.parametrize("name", JOINED)
def test_bands_of_several_files_are_joined_in_their_order(tmp_path, name):
    bands, order = JOINED[name]
    arrays, images = [], []
    for seed, (folder, pattern, kind, depth, dtype) in enumerate(bands):
        shape = (8, 9, depth) if depth > 1 else (8, 9)
        arrays.append({f"tile{n}": noise(10 * seed + n, *shape, dtype=dtype) for n in range(3)})
        for tile, pixels in arrays[-1].items():
            path = tmp_path / folder / f"{pattern.format(tile)}.{kind}"
            path.parent.mkdir(exist_ok=True)
            if kind == "tif":
                path.write_bytes(tiff_of(pixels))
            else:
                Image.fromarray(pixels).save(path)
        place = f"{tmp_path}/{folder}" + (f"/*{pattern.removeprefix('{}')}.{kind}" if pattern != "{}" else "")
        images.append(f"band{seed}={place}")
    layout = {"image": "image.array", "key": "key"}
    dataset = build(None, tmp_path / "out", images=",".join(images[n] for n in order), layout=layout)
    assert len(dataset.records("train")) == 3
    for key, image in arrays_of(dataset).items():
        np.testing.assert_array_equal(image, np.dstack([arrays[n][key[:5]] for n in order]))


def test_bands_of_several_sizes_need_one_size(tmp_path):
    for band, side in (("B02", 20), ("B05", 10)):
        write_tiffs(tmp_path / band, {name: noise(n, side, side) for n, name in enumerate(NAMES)})
    settings = {"images": f"B02={tmp_path}/B02,B05={tmp_path}/B05", "layout": "array"}
    with refuses("unclear_array", "input", "image_size", "resize_mode", says=["20 x 20", "10 x 10"]) as refusal:
        build(None, tmp_path / "out", **settings)
    (reading,) = refusal.value.suggestions
    assert reading.settings == {"image_size": "20x20", "resize_mode": "exact"}
    dataset = build(None, tmp_path / "out", **settings, **reading.settings)
    assert {example["image"].shape for example in dataset.records("train")} == {(20, 20, 2)}


# Questions.


def write_pages(folder: Path, arrays: Mapping[str, np.ndarray]) -> Path:
    for name, pixels in arrays.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.tif").write_bytes(tiff_of(*np.moveaxis(pixels, 2, 0)))
    return folder


def write_channels_first(folder: Path, arrays: Mapping[str, np.ndarray]) -> Path:
    return write_npys(folder, {name: np.ascontiguousarray(np.moveaxis(one, 2, 0)) for name, one in arrays.items()})


DEEP = {"image_encoding": "png", "bit_depth": 16, "channels": 1}
NONE = dict.fromkeys(["image_encoding", "channels", "bit_depth"])
# What writes arrays of a type, the request, code, settings and words of the refusal, and the offer that reads them.
ASKED: dict[str, tuple[Callable[..., Path], str, dict[str, Any], str, list[str], dict[str, Any]]] = {
    "channels first": (write_channels_first, "uint16", {"layout": LAYOUT}, "unclear_array input array_axes",
                       ["river/1"], {"array_axes": "CHW"}),
    "pages": (write_pages, "uint16", {"layout": LAYOUT}, "unclear_array input pages", ["river/1"], {"pages": "bands"}),
    "int16": (write_npys, "int16", {"layout": "array"}, "unclear_array input array_type", ["int16"],
              {"array_type": "float32"}),
    "float64": (write_npys, "float64", {"layout": "array"}, "unclear_array input array_type", ["float64"],
                {"array_type": "float32"}),
    "images": (write_tiffs, "uint16", {}, "arrays_as_images input", ["13 channels"], {"layout": "array,label", **NONE}),
    "images of 16 bits": (write_tiffs, "uint16", DEEP, "arrays_as_images input", ["13 channels"],
                          {"layout": "array,label", **NONE}),
    "files of NumPy": (write_npys, "float32", {}, "no_samples input", [], {"layout": "array,label"}),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_what_is_unclear_is_asked_and_an_offer_reads_it(tmp_path, name):
    write, dtype, settings, code, says, answer = ASKED[name]
    arrays = scenes(24, 20, 13, dtype=dtype)
    write(tmp_path / "in", arrays)
    with refuses(*code.split(), says=says) as refusal:
        build(tmp_path / "in", tmp_path / "out", **settings)
    offered = [one.settings for one in refusal.value.suggestions]
    chosen = next(one for one in offered if answer.items() <= one.items())
    dataset = build(tmp_path / "in", tmp_path / "out", **{**settings, "layout": LAYOUT, **chosen})
    for example in dataset.records("train"):
        key = example.get("key") or f"{CLASSES[example['label']]}/{example['filename']}"
        expected = arrays[key.rpartition(".")[0]]
        np.testing.assert_array_equal(example["image"], expected.astype(np.float32) if "64" in dtype else expected)


def test_two_questions_are_answered_together_and_damaged_files_are_refused_without_an_offer(tmp_path):
    write_npys(tmp_path / "in", scenes(5, 24, 20, dtype="int16"))
    with refuses("unclear_array", "array_axes", "input") as refusal:
        build(tmp_path / "in", tmp_path / "out", layout="array")
    answers = [(one.meaning, one.settings) for one in refusal.value.suggestions]
    assert answers == [
        ("arrays of 5 channels of float32", {"array_axes": "CHW", "array_type": "float32"}),
        ("arrays of 20 channels of float32", {"array_axes": "HWC", "array_type": "float32"}),
    ]
    (tmp_path / "cut").mkdir()
    for number in range(3):
        (tmp_path / f"cut/{number}.tif").write_bytes(b"II*\0" + bytes(number))
    with refuses("unclear_array", "input") as refusal:
        build(tmp_path / "cut", tmp_path / "out", layout="array")
    assert not refusal.value.suggestions


def test_a_sample_of_other_channels_is_rejected(tmp_path):
    arrays = scenes(24, 20, 13)
    write_tiffs(tmp_path / "in", {**arrays, NAMES[2]: arrays[NAMES[2]][..., :12]})
    settings = {"layout": LAYOUT, "channels": 13, "array_type": "uint16"}
    with pytest.raises(BuildError, match="1 of 6 samples failed"):
        build(tmp_path / "in", tmp_path / "out", **settings)
    dataset = build(tmp_path / "in", tmp_path / "out", **settings, max_failures=0.5)
    (failure,) = map(json.loads, (tmp_path / "out/failures.jsonl").read_text().splitlines())
    assert failure["reason"] == "unsupported_mode"
    assert failure["detail"] == "12 channels, where the dataset has 13 (`channels`)"
    assert len(dataset.records("train")) == 5


def test_other_settings_of_arrays_make_other_records(tmp_path):
    write_npys(tmp_path / "in", scenes(20, 20, 20))
    settings = {"layout": LAYOUT, "versioned": True}
    build(tmp_path / "in", tmp_path / "out", **settings, array_axes="CHW")
    dataset = build(tmp_path / "in", tmp_path / "out", **settings, array_axes="HWC", accept="settings")
    for key, image in arrays_of(dataset).items():
        np.testing.assert_array_equal(image, scenes(20, 20, 20)[key.removesuffix(".npy")])


def doubled(sample):
    return sample.replace(image=sample.image * 2)


def test_a_function_changes_arrays(tmp_path, monkeypatch):
    arrays = scenes(24, 20, 13)
    write_tiffs(tmp_path / "in", arrays)
    with refuses("needs_setting", "layout", "array_type", "channels"):
        build(tmp_path / "in", tmp_path / "out", layout=LAYOUT, map=doubled)
    dataset = build(tmp_path / "in", tmp_path / "out", layout=LAYOUT, map=doubled, array_type="uint16", channels=13)
    for key, image in arrays_of(dataset).items():
        np.testing.assert_array_equal(image, arrays[key.removesuffix(".tif")] * 2)
