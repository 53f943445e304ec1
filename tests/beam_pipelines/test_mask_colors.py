"""Masks of colors and of other numbers: the same records from every source, and nothing without a class."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from PIL import Image

from beam_tfrecords import Sample, open_dataset
from beam_tfrecords.beam_pipelines.build.sample_transforms import ConvertSamples, ReadSamples
from beam_tfrecords.transforms.mask_colors import channels_of, read_mask_colors
from tests.annotated_inputs import PICTURES, write_voc
from tests.beam_pipelines.dataset_checks import find_all, manifest_of
from tests.beam_pipelines.listed_records import commands_of
from tests.beam_pipelines.test_segmentation import CONTAINERS, write_table
from tests.each import each

NAMES = ("a", "b", "c", "d")
COLORS = {"road": [128, 64, 128], "blue sky": [0, 130, 180], "void": [1, 2, 3]}
NUMBERS = np.array([0, 1, 255], np.uint8)
PALETTE = np.array(list(COLORS.values()), np.uint8)


def places_of(name: str) -> np.ndarray:
    """[H, W] of positions in `COLORS`."""
    coarse = np.random.default_rng(ord(name[0])).integers(0, 3, (5, 8))
    coarse.flat[:3] = 0, 1, 2
    return np.kron(coarse, np.ones((6, 5), int))


@pytest.fixture
def colored(tmp_path, picture, save) -> Path:
    """Images, with masks of the same names in colors; and the table of the colors."""
    for name in NAMES:
        save(tmp_path / f"in/{name}.jpg", picture(ord(name), 30, 40))
        save(tmp_path / f"in/{name}.png", PALETTE[places_of(name)])
        save(tmp_path / f"images/{name}.jpg", picture(ord(name), 30, 40))
        save(tmp_path / f"masks/{name}.png", PALETTE[places_of(name)])
    (tmp_path / "colors.txt").write_text("".join(f"{name} {' '.join(map(str, of))}\n" for name, of in COLORS.items()))
    return tmp_path


def folders_of(root: Path, *more: str, output: str = "out") -> list[str]:
    return [f"--input={root}/images", f"--mask_root={root}/masks", f"--output={root / output}", *more]


def check(out: Path, names: tuple[str, ...] = NAMES) -> None:
    """Checks that each image has the numbers of its colors, and the dataset the classes."""
    dataset = open_dataset(out)
    found = {record["filename"][:1]: record["mask"][..., 0] for record in dataset.records("train")}
    assert sorted(found) == sorted(names)
    for name, mask in found.items():
        np.testing.assert_array_equal(mask, NUMBERS[places_of(name)])
    assert tuple(dataset.class_names) == ("road", "blue sky")
    assert find_all(out) == []


def failures_of(out: Path) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in (out / "failures.jsonl").read_text().splitlines()]


# Every source


def test_colors_of_a_folder_become_indices(colored, convert):
    ran = convert(*folders_of(colored, f"--mask_colors={colored}/colors.txt"))
    assert ran.code == 0, ran.err
    check(colored / "out")


@pytest.mark.parametrize("mode", ["RGBA", "P"])
def test_palettes_and_opaque_pixels_have_colors_too(mode, colored, convert, save):
    for name in NAMES:
        places = places_of(name)
        # The order of the palette is another one.
        image = Image.fromarray(PALETTE[places]).convert("RGBA")
        if mode == "P":
            image = Image.fromarray((2 - places).astype(np.uint8))
            image.putpalette(PALETTE[::-1].tobytes())
        image.save(colored / f"masks/{name}.png")
    assert convert(*folders_of(colored, f"--mask_colors={colored}/colors.txt")).code == 0
    check(colored / "out")


def test_colors_of_masks_beside_the_images_become_indices(colored, convert):
    for name in NAMES:
        (colored / f"in/{name}.png").rename(colored / f"in/{name}_L.png")
    flags = [f"--input={colored}/in", "--mask_suffix=_L", f"--mask_colors={colored}/colors.txt"]
    assert convert(*flags, f"--output={colored}/out").code == 0
    check(colored / "out")


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "hf_folder"])
def test_colors_of_a_table_become_indices(kind, colored, convert):
    is_folder = kind == "hf_folder"
    image, mask = ("file_name", "mask_file_name") if is_folder else ("image", "mask")
    rows = [{image: f"{name}.jpg", mask: f"{name}.png"} for name in NAMES]
    table = write_table("csv" if is_folder else kind, colored / "in", rows)
    flags = [f"--input={table.parent if is_folder else table}", f"--mask_colors={colored}/colors.txt"]
    flags += ["--source=hf_folder"] if is_folder else []
    ran = convert(*flags, f"--output={colored}/out", "--layout=segmentation")
    assert ran.code == 0, ran.err
    check(colored / "out")


@pytest.mark.parametrize("kind", ["parquet", "webdataset", "tfrecord"])
def test_colors_in_files_that_hold_the_images_become_indices(kind, colored, convert):
    (colored / "data").mkdir()
    mask = {"parquet": "mask", "webdataset": "mask.png", "tfrecord": "segmentation_mask"}[kind]
    CONTAINERS[kind][0](colored / "data", colored / "in", mask, "none")
    (path,) = (colored / "data").iterdir()
    flags = [f"--input={path}", f"--source={kind.replace('parquet', 'hf_parquet')}", "--key_column=name"]
    flags += ["--layout=segmentation", f"--mask_colors={colored}/colors.txt", "--max_failures=0.5"]
    ran = convert(*flags, f"--output={colored}/out")
    assert ran.code == 0, ran.err
    check(colored / "out", ("a", "b", "c"))


def test_colors_of_pascal_voc_have_the_indices_of_its_palette(tmp_path, build):
    root = write_voc(tmp_path / "VOC2012", {"train": PICTURES})
    flags = [f"--input={root}", "--source=voc", "--layout=segmentation"]
    plain = {one["filename"]: one["mask"] for one in open_dataset(build(tmp_path / "plain", *flags)).records("train")}
    for path in sorted(root.glob("SegmentationClass/*.png")):
        numbers = np.asarray(Image.open(path))
        colors = {number: channels_of(color) for color, number in read_mask_colors("pascal").numbers}
        Image.fromarray(np.array([[colors[one] for one in row] for row in numbers.tolist()], np.uint8)).save(path)
    out = build(tmp_path / "out", *flags, "--mask_colors=pascal")
    for record in open_dataset(out).records("train"):
        np.testing.assert_array_equal(record["mask"], plain[record["filename"]])
    assert open_dataset(out).class_names[15] == "person"


def yielded(root: str) -> Any:
    """Samples whose masks are files, and one whose mask is an array."""
    for name in NAMES:
        mask = f"{root}/in/{name}.png" if name < "d" else NUMBERS[places_of(name)]
        yield Sample(f"{name}.jpg", image=f"{root}/in/{name}.jpg", mask=mask)


def test_files_of_a_function_have_colors_and_its_arrays_are_refused(colored, convert):
    flags = [f"--input={__name__}:yielded", f"--parts={colored}", "--layout=segmentation"]
    flags += [f"--mask_colors={colored}/colors.txt", f"--output={colored}/out"]
    assert convert(*flags, "--max_failures=0.5").code == 0
    check(colored / "out", ("a", "b", "c"))
    assert "`mask_colors` has none like it" in failures_of(colored / "out")[0]["detail"]


def flipped_twice(sample: Sample) -> Sample:
    """Replaces the mask of some samples by an equal one."""
    assert set(np.unique(sample.mask)) <= {0, 1, 255}
    return sample.replace(mask=sample.mask[::-1][::-1].copy()) if sample.key > "b" else sample


def test_a_function_of_the_user_gets_numbers(colored, convert):
    flags = folders_of(colored, f"--mask_colors={colored}/colors.txt", f"--map={__name__}:flipped_twice")
    ran = convert(*flags)
    assert ran.code == 0, ran.err
    check(colored / "out")


def test_the_transforms_of_a_pipeline_read_colors(colored):
    settings = {"mask_colors": str(colored / "colors.txt"), "layout": "segmentation"}
    with beam.Pipeline() as root:
        samples = root | ReadSamples(input=f"{colored}/images", mask_root=f"{colored}/masks", **settings)
        numbers = samples | beam.Map(lambda sample: sorted(map(int, np.unique(sample.mask))))
        examples = samples | ConvertSamples(**settings)
        _ = numbers | "check" >> beam.Map(_is_numbers)
        _ = examples | beam.combiners.Count.Globally() | "count" >> beam.Map(_is_four)


def _is_numbers(numbers: list[int]) -> None:
    assert numbers == [0, 1, 255]


def _is_four(count: int) -> None:
    assert count == 4


# Resizing, versions, datasets as input


def test_masks_are_resized_by_their_numbers(colored, convert):
    flags = folders_of(colored, f"--mask_colors={colored}/colors.txt", "--image_size=50x50", "--resize_mode=pad")
    assert convert(*flags, "--mask_padding=255").code == 0
    for record in open_dataset(colored / "out").records("train"):
        places = places_of(record["filename"])
        rows, columns = ((2 * np.arange(new) + 1) * old // (2 * new) for old, new in ((30, 38), (40, 50)))
        expected = np.full((50, 50), 255)
        expected[6:44] = NUMBERS[places[np.ix_(rows, columns)]]
        np.testing.assert_array_equal(record["mask"][..., 0], expected)


def test_the_content_of_the_file_is_the_identity_and_not_its_path(colored, convert):
    flags = folders_of(colored, "--versioned", "--guard=off")
    assert convert(*flags, f"--mask_colors={colored}/colors.txt").code == 0
    os.rename(colored / "colors.txt", colored / "other.txt")
    assert "nothing has changed" in convert(*flags, f"--mask_colors={colored}/other.txt").out
    lines = (colored / "other.txt").read_text().splitlines()
    (colored / "other.txt").write_text("\n".join([lines[1], lines[0], lines[2]]))
    assert convert(*flags, f"--mask_colors={colored}/other.txt").code == 0
    latest = colored / "out" / (colored / "out/LATEST").read_text().strip()
    assert manifest_of(latest)["reuse"]["converted"] == 4
    assert open_dataset(latest).class_names == ("blue sky", "road")
    assert str(colored) not in json.dumps(manifest_of(latest)["spec"]["mask_colors"])


def test_a_dataset_that_is_the_input_keeps_its_numbers_and_classes(colored, convert):
    assert convert(*folders_of(colored, f"--mask_colors={colored}/colors.txt")).code == 0
    again = [f"--input={colored}/out", f"--output={colored}/again"]
    ran = convert(*again)
    assert ran.code == 0, ran.err
    check(colored / "again")
    assert convert(f"--input={colored}/out", f"--output={colored}/third", "--image_encoding=png").code == 0
    check(colored / "third")
    for flag in ("--mask_colors=pascal", "--mask_values=1:2"):
        ran = convert(*again, "--overwrite", flag)
        ran.refused("setting_not_applicable", flag[2:].partition("=")[0], says=["have their numbers already"])


def test_the_classes_of_labels_are_those_of_a_layout_with_labels(colored, convert):
    spec = colored / "spec.yaml"
    spec.write_text("layout: {image: image.encoded, mask: mask.encoded, filename: filename, label: label.index}")
    for name in NAMES:
        for folder, ending in (("images", "jpg"), ("masks", "png")):
            source = colored / f"{folder}/{name}.{ending}"
            os.renames(source, colored / f"{folder}/{'x' if name < 'c' else 'y'}/{name}.{ending}")
    ran = convert(*folders_of(colored, f"--mask_colors={colored}/colors.txt", f"--spec={spec}"))
    assert ran.code == 0, ran.err
    assert open_dataset(colored / "out").class_names == ("x", "y")
    assert "the class names of the masks are not stored" in ran.out


# Numbers


def test_numbers_become_others(colored, convert, save):
    for name in NAMES:
        save(colored / f"masks/{name}.png", np.array([128, 255, 7], np.uint8)[places_of(name)])
    ran = convert(*folders_of(colored, "--mask_values=255:1,128:0,7:255", "--class_names=road,blue sky"))
    assert ran.code == 0, ran.err
    check(colored / "out")
    ran = convert(*folders_of(colored, "--mask_values=255:1,128:0", "--max_failures=0.9", output="other"))
    assert ran.code == 3
    assert "invalid_mask" in ran.err


# What is wrong


def test_a_color_without_a_class_rejects_its_sample(colored, convert, save):
    wrong = PALETTE[places_of("a")]
    wrong[:3, :7] = 12, 40, 7
    save(colored / "masks/a.png", wrong)
    ran = convert(*folders_of(colored, f"--mask_colors={colored}/colors.txt", "--max_failures=0.5"))
    assert ran.code == 0
    check(colored / "out", ("b", "c", "d"))
    (failure,) = failures_of(colored / "out")
    assert failure["reason"] == "invalid_mask"
    assert failure["detail"] == "color 12,40,7 in 21 of 1,200 pixels; `mask_colors` has none like it"


def test_masks_of_colors_without_a_table_are_refused(colored, convert):
    (colored / "colors.txt").unlink()
    # The first three are opened, in the order of the storage.
    ran = convert(*folders_of(colored, "--exclude=d.jpg"))
    refusal = ran.refused("masks_of_colors", "input", "mask_colors", says=["the mask of a.jpg"])
    assert not refusal.suggestions
    assert not (colored / "out").exists()


def test_the_refusal_offers_the_named_table_that_has_the_colors(colored, convert, save):
    (colored / "colors.txt").unlink()
    for name in NAMES:
        camvid = np.array([[64, 128, 64], [192, 0, 128], [0, 0, 0]], np.uint8)
        save(colored / f"masks/{name}.png", camvid[places_of(name)])
    ran = convert(*folders_of(colored))
    ran.refused("masks_of_colors", "input", "mask_colors")
    (command,) = commands_of(ran.err.splitlines())
    assert convert(*command).code == 0
    dataset = open_dataset(colored / "out")
    assert list(dataset.class_names[:2]) == ["Animal", "Archway"]
    for record in dataset.records("train"):
        np.testing.assert_array_equal(record["mask"][..., 0], NUMBERS[places_of(record["filename"])])


def test_single_masks_of_colors_are_failures(colored, convert, save):
    for name in NAMES[1:]:
        save(colored / f"masks/{name}.png", places_of(name).astype(np.uint8))
    assert convert(*folders_of(colored, "--max_failures=0.5")).code == 0
    (failure,) = failures_of(colored / "out")
    assert "`mask_colors`" in failure["detail"]


@each(
    "flags, refusal",
    [
        (["--mask_colors={}/nowhere.txt"], ("invalid_value", "mask_colors", ["does not exist", "camvid"])),
        (["--mask_colors=ade20k"], ("invalid_value", "mask_colors", ["skyscraper"])),
        (["--mask_colors={}/colors.txt", "--mask_values=1:0"], ("conflicting_settings", "mask_values", ["exclude"])),
        (["--mask_values=1:256"], ("conflicting_settings", "mask_values", ["mask_bit_depth"])),
        (["--mask_colors={}/colors.txt", "--class_names=x,y"], ("setting_not_applicable", "class_names", ["names"])),
        (["--mask_colors={}/colors.txt", "--layout=image"], ("setting_not_applicable", "mask_root", ["layout"])),
        (["--mask_values=1"], ("invalid_value", "mask_values", ["255:1,128:0"])),
    ],
)
def test_requests_that_cannot_be_met_are_refused(flags, refusal, colored, convert):
    code, name, says = refusal
    ran = convert(*folders_of(colored, *(flag.replace("{}", str(colored)) for flag in flags)))
    assert ran.code == 2, ran.err
    assert (ran.refusal.code, name in ran.refusal.settings) == (code, True), ran.err
    assert all(word in ran.err for word in says), ran.err


# One mask for each class


CLASSES = ("cat", "dog", "big emu")
# Positions of the classes in names of files, and the flags.
CLASS_TREES = {
    "folders": ("masks/{0}/{1}.png", ["--input={}/images", "--mask_root={}/masks"], "{0}/"),
    "folders in the input": ("images/masks/{0}/{1}.png", ["--input={}/images", "--mask_root={}/images"], "{0}/"),
    "folders with a suffix": (
        "m/{0}/{1}_seg.png", ["--input={}/images", "--mask_root={}/m", "--mask_suffix=_seg"], "{0}/",
    ),
    "suffixes": ("masks/{1}_{0}.png", ["--input={}/images", "--mask_root={}/masks"], "_{0}"),
    "suffixes beside the images": ("images/{1}-{0}.png", ["--input={}/images"], "-{0}"),
}  # fmt: skip


def class_flags(root: Path, tree: str) -> list[str]:
    _, flags, part = CLASS_TREES[tree]
    parts = ",".join(f"{name}={part.format(name)}" for name in CLASSES)
    return [*(flag.format(root) for flag in flags), f"--mask_classes={parts}", f"--output={root}/out"]


@pytest.fixture
def of_classes(tmp_path, picture, save) -> Path:
    for name in NAMES:
        save(tmp_path / f"images/{name}.jpg", picture(ord(name), 30, 40))
    return tmp_path


def save_classes(root: Path, tree: str, save: Any) -> dict[str, np.ndarray]:
    """Saves the masks of the classes; returns the merged mask of each image. Image d has no big emu."""
    merged = {}
    for name in NAMES:
        places = places_of(name) + np.kron(np.eye(5, 8, dtype=int), np.ones((6, 5), int))
        places[places > 2 + (name != "d")] = 0
        for number, one in enumerate(CLASSES, 1):
            if (name, number) != ("d", 3):
                inside = (places == number).astype(np.uint8)
                save(root / CLASS_TREES[tree][0].format(one, name), inside * (255 if number == 1 else 1))
        merged[name] = places
    return merged


@pytest.mark.parametrize("tree", CLASS_TREES)
def test_a_mask_of_each_class_is_merged(tree, of_classes, save, convert):
    merged = save_classes(of_classes, tree, save)
    ran = convert(*class_flags(of_classes, tree))
    assert ran.code == 0, ran.err
    assert "belong to no image" not in ran.out
    dataset = open_dataset(of_classes / "out")
    assert dataset.class_names == ("background", *CLASSES)
    found = {record["filename"][:1]: record["mask"][..., 0] for record in dataset.records("train")}
    assert found.keys() == merged.keys()
    for name, mask in found.items():
        np.testing.assert_array_equal(mask, merged[name])
    assert find_all(of_classes / "out") == []


def test_masks_of_classes_that_do_not_fit_reject_their_sample(of_classes, save, convert):
    save_classes(of_classes, "folders", save)
    full = np.ones((30, 40), np.uint8)
    save(of_classes / "masks/dog/a.png", full)
    save(of_classes / "masks/cat/b.png", np.arange(1200, dtype=np.uint8).reshape(30, 40))
    save(of_classes / "masks/big emu/c.png", full[:20])
    for name in CLASSES[:2]:
        (of_classes / f"masks/{name}/d.png").unlink()
    save(of_classes / "images/e.jpg", np.zeros((30, 40, 3), np.uint8))
    save(of_classes / "masks/cat/e.png", full)
    assert convert(*class_flags(of_classes, "folders"), "--max_failures=0.9").code == 0
    found = {one["key"][:1]: (one["reason"], one["detail"]) for one in failures_of(of_classes / "out")}
    overlap = np.count_nonzero(np.asarray(Image.open(of_classes / "masks/cat/a.png")))
    assert found["a"] == ("invalid_mask", f"the masks of cat and dog overlap in {overlap:,} pixels")
    assert found["b"][0] == "invalid_mask"
    assert found["b"][1].startswith("the mask of cat has several numbers besides 0")
    assert found["c"] == ("invalid_mask", "the mask of big emu has another size than the mask of cat")
    assert found["d"][0] == "mask_missing"
    (record,) = open_dataset(of_classes / "out").records("train")
    assert (record["mask"] == 1).all()


@pytest.mark.nightly
def test_masks_of_classes_are_merged_for_functions_and_transforms_too(of_classes, save, convert):
    merged = save_classes(of_classes, "suffixes", save)
    ran = convert(*class_flags(of_classes, "suffixes"), f"--map={__name__}:merged_twice")
    assert ran.code == 0, ran.err
    for record in open_dataset(of_classes / "out").records("train"):
        np.testing.assert_array_equal(record["mask"][..., 0], merged[record["filename"][:1]])
    settings = {"input": f"{of_classes}/images", "mask_root": f"{of_classes}/masks", "layout": "segmentation"}
    with beam.Pipeline() as root:
        samples = root | ReadSamples(**settings, mask_classes={name: f"_{name}" for name in CLASSES})
        examples = samples | ConvertSamples(layout="segmentation")
        _ = samples | beam.Map(merged_twice)
        _ = examples | beam.combiners.Count.Globally() | "count" >> beam.Map(_is_four)


def merged_twice(sample: Sample) -> Sample:
    """Replaces the mask of some samples by an equal one."""
    assert set(np.unique(sample.mask)) <= {0, 1, 2, 3}
    return sample.replace(mask=sample.mask[::-1][::-1].copy()) if sample.key > "b" else sample


def test_a_changed_order_of_the_classes_remakes_the_masks(of_classes, save, convert):
    save_classes(of_classes, "suffixes", save)
    flags = [*class_flags(of_classes, "suffixes"), "--versioned", "--guard=off"]
    assert convert(*flags).code == 0
    assert "nothing has changed" in convert(*flags).out
    flags[2] = "--mask_classes=" + ",".join(f"{name}=_{name}" for name in CLASSES[::-1])
    assert convert(*flags).code == 0
    latest = of_classes / "out" / (of_classes / "out/LATEST").read_text().strip()
    assert manifest_of(latest)["reuse"]["converted"] == 4
    assert open_dataset(latest).class_names == ("background", *CLASSES[::-1])


@each(
    "flags, refusal",
    [
        (["--mask_classes=cat"], ("invalid_value", "mask_classes")),
        (["--mask_classes=cat=_a,cat=_b"], ("invalid_value", "mask_classes")),
        (["--mask_classes=cat=_a,dog=_a"], ("invalid_value", "mask_classes")),
        (["--mask_classes=cat=_cat", "--mask_suffix=_m"], ("conflicting_settings", "mask_suffix")),
        (["--mask_classes=cat=_cat", "--mask_colors=pascal"], ("conflicting_settings", "mask_colors")),
        (["--mask_classes=cat=_cat", "--class_names=x"], ("setting_not_applicable", "class_names")),
        (["--mask_classes=cat=_cat,cow=_cow"], ("missing_masks", "input")),
        (["--mask_classes=cow=cow/", "--mask_root={}/masks"], ("missing_masks", "input")),
        (["--mask_classes=cat=_cat", "--layout=image"], ("setting_not_applicable", "mask_classes")),
    ],
)
def test_masks_of_classes_that_cannot_be_found_are_refused(flags, refusal, of_classes, save, convert):
    save_classes(of_classes, "suffixes", save)
    words = [f"--input={of_classes}/images", f"--output={of_classes}/out", *(one.format(of_classes) for one in flags)]
    words += [] if flags[-1].startswith(("--mask_root", "--layout")) else [f"--mask_root={of_classes}/masks"]
    ran = convert(*words)
    assert ran.code == 2, ran.err
    assert (ran.refusal.code, refusal[1] in ran.refusal.settings) == (refusal[0], True), ran.err


def test_a_folder_with_masks_of_colors_leads_to_the_settings_that_read_them(colored, convert, save):
    for path in (colored / "in").glob("*.*"):
        path.unlink()
    for folder in ("images", "masks"):
        (colored / folder).rename(colored / f"in/{folder}")
    flags = [f"--input={colored}/in", f"--output={colored}/out"]
    ran = convert(*flags)
    assert f"--mask_root={colored}/in/masks --layout=segmentation" in ran.err
    assert "with a file of the colors' classes in --mask_colors" in ran.err
    assert not any("segmentation" in " ".join(command) for command in commands_of(ran.err.splitlines()))
    # With a named table, one command is enough.
    camvid = np.array([[64, 128, 64], [192, 0, 128], [0, 0, 0]], np.uint8)
    for name in NAMES:
        save(colored / f"in/masks/{name}.png", camvid[places_of(name)])
    command = commands_of(convert(*flags[:1], f"--output={colored}/other").err.splitlines())[0]
    assert "--mask_colors=camvid" in command
    assert convert(*command).code == 0


def test_photos_are_no_masks(colored, convert, save, picture):
    for number, name in enumerate(NAMES):
        save(colored / f"masks/{name}.png", picture(number, 30, 40))
    convert(*folders_of(colored, "--exclude=d.jpg")).refused("photos_as_masks", "input", says=["mask of a.jpg"])
