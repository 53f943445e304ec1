"""Images with masks, from folders and tables to a training batch."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import re
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from beam_tfrecords import open_dataset
from beam_tfrecords.features import example_pb2
from tests.annotated_inputs import PICTURES, write_voc
from tests.annotated_inputs import mask_of as voc_mask
from tests.beam_pipelines.dataset_checks import find_all, manifest_of
from tests.beam_pipelines.listed_records import commands_of
from tests.beam_pipelines.test_verify_records import one_record, rewrite_shard, with_feature
from tests.framing import framed
from tests.image_checks import encoded
from tests.refusals import Refusal
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow

NAMES = ("a", "b", "c", "d")


def mask_of(name: str, height: int = 30, width: int = 40) -> np.ndarray:
    """[H, W] of classes 0 to 2 and 255, different for every name."""
    coarse = np.random.default_rng(ord(name[0])).choice(np.array([0, 1, 2, 255], np.uint8), (5, 8))
    return np.kron(coarse, np.ones((height // 5, width // 8), np.uint8))


@pytest.fixture
def pair(tmp_path, picture, save) -> Callable[..., None]:
    """Saves an image and its mask below the folder of the test."""

    def write(image: str, mask: str | None, name: str = "a") -> None:
        save(tmp_path / image, picture(ord(name[0]), 30, 40))
        if mask:
            save(tmp_path / mask, mask_of(name))

    return write


def masks_of(out: Path, split: str = "train") -> dict[str, np.ndarray]:
    """File name of the image -> its mask, [H, W]."""
    return {one["filename"]: one["mask"][..., 0] for one in open_dataset(out).records(split)}


def check_masks(out: Path, **names: str) -> None:
    """Checks that each image has the mask of a name: name -> image."""
    found = masks_of(out)
    assert sorted(found) == sorted(names.values())
    for name, image in names.items():
        np.testing.assert_array_equal(found[image], mask_of(name))


@pytest.fixture
def folders(tmp_path, pair) -> Path:
    """Four images in two splits, and their masks in folders of the same names."""
    for number, name in enumerate(NAMES):
        split = "val" if number == 3 else "train"
        pair(f"images/{split}/{name}.jpg", f"masks/{split}/{name}.png", name)
    return tmp_path


@pytest.fixture
def out(folders, build) -> Path:
    words = ["--layout=segmentation", "--image_size=20x16", "--resize_mode=exact"]
    return build(folders / "out", f"--input={folders / 'images'}", f"--mask_root={folders / 'masks'}", *words)


def test_pairs_of_folders_become_images_and_masks(out):
    assert open_dataset(out).splits == {"train": 3, "validation": 1}
    for name, mask in {**masks_of(out), **masks_of(out, "validation")}.items():
        rows, columns = ((2 * np.arange(new) + 1) * old // (2 * new) for old, new in ((30, 20), (40, 16)))
        np.testing.assert_array_equal(mask, mask_of(name)[np.ix_(rows, columns)])
    assert find_all(out) == []


def test_batches_and_pairs_have_masks(out):
    (batch,) = load(out, "train", batch_size=3)
    assert batch["mask"].shape == (3, 20, 16, 1)
    assert batch["mask"].dtype == "uint8"
    ((images, masks),) = load(out, "train", batch_size=3, as_supervised=True, image_size=(10, 8), resize_mode="crop")
    assert images.shape == (3, 10, 8, 3)
    assert masks.shape == (3, 10, 8, 1)
    assert set(np.unique(masks)) <= {0, 1, 2, 255}
    for example, record in zip(load(out, "train"), open_dataset(out).records("train"), strict=True):
        assert record["mask"].flags.writeable
        np.testing.assert_array_equal(example["mask"], record["mask"])


def test_inspect_shows_the_numbers_of_a_mask(out, run):
    shown = run("inspect", f"--dataset={out}", "--examples=1")
    assert "a PNG of 20 x 16 pixels (height x width), L, numbers 0, 1, 2, 255" in shown.out


def test_masks_are_the_default_layout_of_what_has_them(folders, out, convert):
    flags = [f"--input={folders / 'images'}", f"--mask_root={folders / 'masks'}", "--image_size=20x16"]
    ran = convert(f"--output={folders / 'other/out'}", *flags, "--resize_mode=exact")
    assert ran.code == 0, ran.err
    shards = [sorted(path.glob("*.tfrecord-*")) for path in (out, folders / "other/out")]
    assert [file.name.partition("-")[2] for file in shards[0]] == [file.name.partition("-")[2] for file in shards[1]]
    assert [file.read_bytes() for file in shards[0]] == [file.read_bytes() for file in shards[1]]


# Names of images and masks
TREES: Mapping[str, tuple[tuple[str, str], list[str]]] = {
    "masks below the images": (("all/{}.jpg", "all/masks/{}.png"), ["--input={}/all", "--mask_root={}/all/masks"]),
    "other extensions": (("images/{}.jpeg", "masks/{}.BMP"), ["--input={}/images", "--mask_root={}/masks"]),
    "a suffix in another folder": (
        ("train/{}.jpg", "train_masks/{}_mask.tif"),
        ["--input={}/train", "--mask_root={}/train_masks", "--mask_suffix=_mask"],
    ),
    "a suffix beside the images": (
        ("all/{} (1).png", "all/{} (1)_mask.png"),
        ["--input={}/all", "--mask_suffix=_mask"],
    ),
    "two suffixes": (
        ("all/{}_sat.jpg", "all/{}_mask.png"),
        ["--input={}/all", "--mask_suffix=_mask", "--image_suffix=_sat"],
    ),
    "deeper folders and two suffixes": (
        ("leftImg8bit/bonn/{}_leftImg8bit.png", "gtFine/bonn/{}_gtFine_labelIds.png"),
        [
            "--input={}/leftImg8bit",
            "--mask_root={}/gtFine",
            "--mask_suffix=_gtFine_labelIds",
            "--image_suffix=_leftImg8bit",
        ],
    ),
    "folders of masks in one tree": (
        ("all/x/images/{}.jpg", "all/x/masks/{}.png"),
        ["--input={}/all", "--mask_root={}/all"],
    ),
    "a folder of masks for each split": (
        ("all/train/{}.jpg", "all/trainannot/{}.png"),
        ["--input={}/all", "--mask_root={}/all"],
    ),
    "a glob": (("all/images/{}.jpg", "all/masks/{}.png"), ["--input={}/all/images/*.jpg", "--mask_root={}/all/masks"]),
}


@pytest.mark.parametrize("tree", TREES)
def test_masks_are_found_by_their_names(tree, tmp_path, pair, build):
    (image, mask), flags = TREES[tree]
    for name in NAMES:
        pair(image.format(name), mask.format(name), name)
    out = build(tmp_path / "out", *(flag.replace("{}", str(tmp_path)) for flag in flags), "--image_encoding=png")
    check_masks(out, **{name: Path(image.format(name)).name for name in NAMES})


def test_each_input_may_have_masks_of_its_own(tmp_path, pair, build):
    pair("one/images/a.jpg", "one/labels/a.png", "a")
    pair("two/photos/b.jpg", "two/masks/b.png", "b")
    flags = [f"--input={tmp_path}/one/images", f"--input={tmp_path}/two/photos"]
    roots = [f"--mask_root={tmp_path}/one/labels", f"--mask_root={tmp_path}/two/masks"]
    check_masks(build(tmp_path / "out", *flags, *roots), a="a.jpg", b="b.jpg")


def test_one_folder_has_the_masks_of_several_inputs_in_folders_of_their_names(tmp_path, pair, build):
    pair("images/old/a.jpg", "masks/old/a.png", "a")
    pair("images/new/b.jpg", "masks/new/b.png", "b")
    flags = [f"--input={tmp_path}/images/old", f"--input={tmp_path}/images/new", f"--mask_root={tmp_path}/masks"]
    check_masks(build(tmp_path / "out", *flags), a="a.jpg", b="b.jpg")
    assert not json.loads((tmp_path / "out/manifest.json").read_text())["notes"]


@pytest.mark.parametrize(
    ("inputs", "roots"),
    [
        # The request says the split, or names do, in any order; there may be folders of more splits.
        (["train=one", "val=two"], ["validation=y", "train=x"]),
        (["photos_train", "photos_val"], ["val=y", "test=z", "train=x"]),
        (["photos_val"], ["val=y", "train=x"]),
        (["photos_train", "photos_val"], ["masks_val", "masks_train"]),
        (["train=one", "validation=two"], ["masks_val", "masks_test", "masks_train"]),
        # Two inputs of a split have the two folders of it in their order.
        (["train=one", "train=three", "val=two"], ["val=y", "train=x", "train=w"]),
        # One folder of a split has folders of their names.
        (["train=one", "train=three", "val=two"], ["val=y", "train=both"]),
    ],
)
def test_folders_of_masks_belong_to_inputs_as_those_of_images_do(tmp_path, save, convert, inputs, roots):
    masks = {"one": "a", "photos_train": "a", "two": "b", "photos_val": "b", "three": "c"}
    for folder, name in masks.items():
        save(tmp_path / folder / "same.png", np.full((30, 40, 3), ord(name), np.uint8))
    folders = {"x": "a", "masks_train": "a", "both/one": "a", "y": "b", "masks_val": "b", "w": "c", "both/three": "c"}
    for folder, name in {**folders, "z": "c", "masks_test": "c"}.items():
        save(tmp_path / folder / "same.png", mask_of(name))

    def said(word: str) -> str:
        split, sign, folder = word.rpartition("=")
        return f"{split}{sign}{tmp_path / folder}"

    flags = [*(f"--input={said(word)}" for word in inputs), *(f"--mask_root={said(word)}" for word in roots)]
    ran = convert(*flags, f"--output={tmp_path / 'out'}", "--image_encoding=png")
    assert (ran.code, "belong to no image" in ran.out) == (0, False), ran.err
    dataset = open_dataset(tmp_path / "out")
    records = [record for split in dataset.splits for record in dataset.records(split)]
    assert len(records) == len(inputs)
    for record in records:
        np.testing.assert_array_equal(record["mask"][..., 0], mask_of(chr(record["image"][0, 0, 0])))


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["--input=train={}/images", "--mask_root=val={}/masks"], Refusal("unmatched_roots", "mask_root", "input")),
        (["--input={}/in/images", "--mask_root=val={}/masks"], Refusal("unmatched_roots", "mask_root", "input")),
    ],
)
def test_a_split_without_a_folder_of_masks_is_refused(folders, convert, words, refusal):
    # The name of the folder of a test begins with "test".
    shutil.copytree(folders / "images", folders / "in/images")
    ran = convert(*(word.format(folders) for word in words), f"--output={folders / 'out'}")
    ran.refused(refusal)


# What is missing or wrong


def test_an_image_without_a_mask_is_rejected_and_masks_without_images_are_noted(folders, convert):
    (folders / "masks/train/a.png").rename(folders / "masks/train/other.png")
    flags = [f"--input={folders / 'images'}", f"--mask_root={folders / 'masks'}", f"--output={folders / 'out'}"]
    assert convert(*flags).code == 3
    ran = convert(*flags, "--max_failures=0.5")
    assert ran.code == 0
    assert "1 of 4 masks in masks belong to no image, such as" in ran.out
    (failure,) = map(json.loads, (folders / "out/failures.jsonl").read_text().splitlines())
    assert (failure["key"], failure["reason"]) == ("train/a.jpg", "mask_missing")
    assert "no mask of the name train/a.* in masks" in failure["detail"]


def test_an_image_with_two_masks_is_rejected(folders, convert, save):
    save(folders / "masks/train/a.bmp", mask_of("a"))
    flags = [f"--input={folders / 'images'}", f"--mask_root={folders / 'masks'}", f"--output={folders / 'out'}"]
    assert convert(*flags, "--max_failures=0.5").code == 0
    (failure,) = map(json.loads, (folders / "out/failures.jsonl").read_text().splitlines())
    assert (failure["reason"], failure["detail"].partition(":")[0]) == ("invalid_mask", "several masks")


@pytest.mark.parametrize(
    ("image", "mask"),
    [
        ("{}.jpg", "{}_segmentation.png"),
        ("{}_sat.jpg", "{}_mask.png"),
        ("{}_training.tif", "{}_manual1.bmp"),
        ("bonn/{}_0_leftImg8bit.png", "bonn/{}_0_gtFine_labelIds.png"),
    ],
)
def test_where_no_image_has_a_mask_the_refusal_offers_the_suffixes(image, mask, tmp_path, pair, convert):
    for name in NAMES:
        pair(f"in/{image.format(name)}", f"gt/{mask.format(name)}", name)
    flags = [f"--input={tmp_path}/in", f"--mask_root={tmp_path}/gt", f"--output={tmp_path}/out", "--image_encoding=png"]
    ran = convert(*flags)
    ran.refused("missing_masks", "input", "mask_suffix", "image_suffix")
    (command,) = commands_of(ran.err.splitlines())
    assert convert(*command).code == 0
    check_masks(tmp_path / "out", **{name: Path(image.format(name)).name for name in NAMES})


@pytest.mark.parametrize(
    ("flags", "refusal"),
    [
        (["--mask_root={}/images"], Refusal("missing_masks", "input")),
        (["--mask_root={}/nowhere"], Refusal("not_found", "mask_root")),
        (["--mask_root={}/out"], Refusal("missing_masks", "input")),
        (["--mask_root={}/masks", "--mask_suffix=_seg"], Refusal("missing_masks", "input")),
        (
            ["--mask_root={}/masks", "--mask_root={}/images"],
            Refusal("unmatched_roots", "mask_root", says=["2 folders", "1 inputs"]),
        ),
        (["--mask_root={}/masks", "--layout=image"], Refusal("setting_not_applicable", "mask_root", "layout")),
        (["--layout=segmentation"], Refusal("missing_masks", "input", "mask_root", "mask_suffix")),
        (["--mask_column=mask"], Refusal("setting_not_applicable", "mask_column", "input")),
        (
            ["--mask_root={}/masks", "--mask_padding=300"],
            Refusal("conflicting_settings", "mask_padding", "mask_bit_depth", says=["255", "mask_bit_depth=16"]),
        ),
    ],
)
def test_requests_that_cannot_be_met_are_refused(flags, refusal, folders, convert):
    (folders / "out").mkdir()
    words = [flag.replace("{}", str(folders)) for flag in flags]
    ran = convert(f"--input={folders / 'images'}", f"--output={folders / 'other'}", *words)
    ran.refused(refusal)


def test_what_messages_about_masks_offer_is_right(folders, convert, save):
    save(folders / "masks/train/a.png", mask_of("a").astype(np.uint16) * 200)
    pairs = [f"--input={folders / 'images'}", f"--mask_root={folders / 'masks'}", "--image_size=20"]
    for number, (wrong, right) in enumerate(
        (
            (["--layout=image"], ["--layout=segmentation", "--max_failures=0.5"]),
            (["--max_failures=0"], ["--mask_bit_depth=16"]),
            (["--mask_padding=300"], ["--mask_padding=300", "--mask_bit_depth=16"]),
        )
    ):
        output = f"--output={folders / str(number)}"
        assert convert(*pairs, *wrong, output).code in (2, 3)
        assert convert(*pairs, *right, output).code == 0


@pytest.mark.parametrize(
    ("flags", "refusal"),
    [
        (["--mask_root={}/masks"], Refusal("setting_not_applicable", "mask_root", "input", says=[" zip, "])),
        (["--layout=segmentation"], Refusal("missing_content", "layout", "input", says=[" zip, "])),
    ],
)
def test_masks_of_archives_are_refused(flags, refusal, folders, convert):
    archive = shutil.make_archive(str(folders / "photos"), "zip", folders / "images")
    words = [flag.replace("{}", str(folders)) for flag in flags]
    ran = convert(f"--input={archive}", f"--output={folders / 'out'}", *words)
    ran.refused(refusal)


def rgb(mask: np.ndarray) -> Image.Image:
    return Image.fromarray(np.stack([mask, mask // 2, mask], axis=2))


BAD: Mapping[str, tuple[Any, str, str]] = {
    "colors": (lambda: encoded(rgb(mask_of("a")), "PNG"), "invalid_mask", "the mask has colors (RGB)"),
    "another size": (
        lambda: encoded(Image.fromarray(mask_of("a")[:20]), "PNG"),
        "invalid_mask",
        "the mask has 40 x 20 pixels (width x height), and its image 40 x 30",
    ),
    "large numbers": (
        lambda: encoded(Image.fromarray(mask_of("a").astype(np.uint16) + 100), "PNG"),
        "invalid_mask",
        "the mask has the number 355, and 8 bits hold up to 255; use `mask_bit_depth=16`",
    ),
    "a broken file": (lambda: encoded(Image.fromarray(mask_of("a")), "PNG")[:60], "truncated", "mask: "),
    "no image": (lambda: b"a text", "not_an_image", "mask: "),
    "no bytes": (lambda: b"", "empty", "mask: "),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_mask_rejects_its_image_alone(what, folders, convert):
    make, reason, detail = BAD[what]
    (folders / "masks/train/a.png").write_bytes(make())
    flags = [f"--input={folders / 'images'}", f"--mask_root={folders / 'masks'}", f"--output={folders / 'out'}"]
    assert convert(*flags, "--max_failures=0.5").code == 0
    (failure,) = map(json.loads, (folders / "out/failures.jsonl").read_text().splitlines())
    assert (failure["key"], failure["reason"]) == ("train/a.jpg", reason)
    assert failure["detail"].startswith(detail)
    assert sorted(masks_of(folders / "out")) == ["b.jpg", "c.jpg"]


def test_masks_of_16_bits_keep_their_numbers(folders, build, save):
    large = mask_of("a").astype(np.uint16) * 200
    save(folders / "masks/train/a.png", large)
    flags = [f"--input={folders / 'images'}", f"--mask_root={folders / 'masks'}", "--mask_bit_depth=16"]
    out = build(folders / "out", *flags, "--image_size=30x60", "--resize_mode=pad", "--mask_padding=65535")
    masks = masks_of(out)
    assert masks["a.jpg"].dtype == np.uint16
    np.testing.assert_array_equal(masks["a.jpg"][:, 10:50], large)
    np.testing.assert_array_equal(masks["b.jpg"][:, 10:50], mask_of("b"))
    assert (masks["a.jpg"][:, :10] == 65535).all()
    assert find_all(out) == []
    for example in load(out, "train"):
        np.testing.assert_array_equal(example["mask"][..., 0], masks[example["filename"].numpy().decode()])


def test_verify_finds_masks_that_do_not_fit(out):
    small = encoded(Image.fromarray(np.zeros((8, 16), np.uint8)), "PNG")
    deep = encoded(Image.fromarray(np.zeros((20, 16), np.uint16)), "PNG")
    for data, message in (
        (small, "the mask has height 8 and width 16; its image 20 and 16"),
        (deep, "the mask is not a PNG of 8 bits"),
        (b"no mask", "the mask does not decode"),
    ):
        rewrite_shard(out, 0, one_record(0, lambda _, e, data=data: with_feature(e, "mask", bytes_list=[data])))
        assert any(message in str(finding) for finding in find_all(out))


# Tables


def write_table(kind: str, folder: Path, rows: list[dict[str, str]]) -> Path:
    path = folder / f"metadata.{kind}"
    if kind == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_rows_without_a_mask_are_rejected(tmp_path, pair, convert):
    for name in NAMES:
        pair(f"{name}.jpg", f"{name}.png", name)
    masks = {"a": "a.png", "b": "", "c": "x.png", "d": "../d.png"}
    rows = [{"image": f"{name}.jpg", "mask": mask} for name, mask in masks.items()]
    table = write_table("csv", tmp_path, rows)
    flags = [f"--input={table}", "--mask_column=mask", f"--output={tmp_path}/out", "--max_failures=0.9"]
    assert convert(*flags).code == 0
    failures = {one["key"]: one for one in map(json.loads, (tmp_path / "out/failures.jsonl").read_text().splitlines())}
    reasons = {key: one["reason"] for key, one in failures.items()}
    assert reasons == {"b.jpg": "mask_missing", "c.jpg": "unreadable", "d.jpg": "outside_root"}
    assert failures["c.jpg"]["detail"].startswith("mask: no such file")
    check_masks(tmp_path / "out", a="a.jpg")


def test_a_table_without_masks_is_refused(tmp_path, pair, convert):
    pair("a.jpg", "y/a.png")
    for column, refusal in (
        ("mask", Refusal("missing_masks", "input", "mask_column", "mask_root", says=["no such file"])),
        ("m", Refusal("missing_mask_column", "input", "mask_column", says=["'mask'"])),
    ):
        table = write_table("csv", tmp_path, [{"image": "a.jpg", column: "a.png"}])
        ran = convert(f"--input={table}", "--layout=segmentation", f"--output={tmp_path}/out")
        ran.refused(refusal)
    ran = convert(f"--input={table}", "--mask_column=m", "--mask_suffix=_m", f"--output={tmp_path}/out")
    ran.refused("setting_not_applicable", "mask_suffix", "input")


# Files that hold images and masks


def write_parquet(path: Path, folder: Path, mask: str, compression: str) -> None:
    rows = [
        {"name": f"{name}.jpg", "image": bytes_of(folder / f"{name}.jpg"), mask: bytes_of(folder / f"{name}.png")}
        for name in NAMES
    ]
    rows[3][mask] = None
    pq.write_table(pa.Table.from_pylist(rows), path / "data.parquet", compression=compression)


def bytes_of(path: Path) -> dict[str, Any]:
    return {"bytes": path.read_bytes(), "path": path.name}


def write_webdataset(path: Path, folder: Path, mask: str, compression: str) -> None:
    mode = "w:gz" if compression == "gz" else "w"
    with tarfile.open(path / ("data.tar.gz" if compression == "gz" else "data.tar"), mode) as tar:
        for name in NAMES:
            for file, suffix in ((f"{name}.jpg", "jpg"), (f"{name}.png", mask)):
                if (name, suffix) != ("d", mask):
                    tar.add(folder / file, f"{name}.{suffix}")
            text = tarfile.TarInfo(f"{name}.json")
            text.size = len(data := json.dumps({"name": f"{name}.jpg"}).encode())
            tar.addfile(text, io.BytesIO(data))


def write_tfrecord(path: Path, folder: Path, mask: str, compression: str) -> None:
    data = b""
    for name in NAMES:
        example = example_pb2.Example()
        feature = example.features.feature
        feature["name"].bytes_list.value.append(f"{name}.jpg".encode())
        feature["image"].bytes_list.value.append((folder / f"{name}.jpg").read_bytes())
        feature[mask].bytes_list.value.extend([(folder / f"{name}.png").read_bytes()] * (name != "d"))
        data += framed(example.SerializeToString())
    (path / "data.tfrecord").write_bytes(data if compression == "none" else gzip.compress(data))


CONTAINERS: Mapping[str, tuple[Callable[..., None], str, Sequence[str]]] = {
    "parquet": (write_parquet, "none", ("mask", "segmentation_mask", "truth")),
    "compressed parquet": (write_parquet, "zstd", ("mask",)),
    "webdataset": (write_webdataset, "none", ("mask.png", "seg.png", "truth.png")),
    "compressed webdataset": (write_webdataset, "gz", ("mask.png",)),
    "tfrecord": (write_tfrecord, "none", ("segmentation_mask", "image/segmentation/class/encoded", "truth")),
    "compressed tfrecord": (write_tfrecord, "gz", ("mask",)),
}


@pytest.mark.parametrize(("kind", "mask"), [(kind, one) for kind, (_, _, masks) in CONTAINERS.items() for one in masks])
def test_masks_are_read_from_files_that_hold_the_images(kind, mask, tmp_path, pair, convert):
    for name in NAMES:
        pair(f"in/{name}.jpg", f"in/{name}.png", name)
    write, compression, _ = CONTAINERS[kind]
    (tmp_path / "data").mkdir()
    write(tmp_path / "data", tmp_path / "in", mask, compression)
    (path,) = (tmp_path / "data").iterdir()
    source = f"--source={kind.split()[-1].replace('parquet', 'hf_parquet')}"
    named = ["--layout=segmentation"] if "truth" not in mask else [f"--mask_column={mask}"]
    flags = [f"--input={path}", source, "--key_column=name", *named, "--image_encoding=keep"]
    ran = convert(*flags, f"--output={tmp_path / 'out'}", "--max_failures=0.5")
    assert ran.code == 0, ran.err
    check_masks(tmp_path / "out", a="a.jpg", b="b.jpg", c="c.jpg")
    for record in open_dataset(tmp_path / "out").records("train", form="features"):
        assert record["image"] == (tmp_path / "in" / record["filename"].decode()).read_bytes()
    (failure,) = map(json.loads, (tmp_path / "out/failures.jsonl").read_text().splitlines())
    assert failure["reason"] == "mask_missing"


def test_a_dataset_with_masks_is_made_anew(folders, out, build):
    flags = ["--source=tfrecord", f"--input={out}", "--layout=segmentation"]
    again = build(folders / "again", *flags)
    for split in ("train", "validation"):
        before, after = masks_of(out, split), masks_of(again, split)
        assert before.keys() == after.keys()
        for name, mask in before.items():
            np.testing.assert_array_equal(after[name], mask)


@pytest.mark.parametrize("kind", ["parquet", "webdataset", "tfrecord"])
def test_files_without_the_masks_that_are_named_are_refused(kind, tmp_path, pair, convert):
    for name in NAMES:
        pair(f"in/{name}.jpg", f"in/{name}.png", name)
    (tmp_path / "data").mkdir()
    CONTAINERS[kind][0](tmp_path / "data", tmp_path / "in", "truth.png", "none")
    (path,) = (tmp_path / "data").iterdir()
    flags = [f"--input={path}", f"--source={kind.replace('parquet', 'hf_parquet')}", f"--output={tmp_path / 'out'}"]
    for named in (["--mask_column=other"], ["--layout=segmentation"]):
        ran = convert(*flags, *named)
        ran.refused("missing_mask_column", "input", "mask_column", says=["truth.png"])
    ran = convert(*flags, "--mask_column=truth.png", f"--mask_root={tmp_path}")
    ran.refused("overlapping_folders", "output", "mask_root")


# Pascal VOC


def test_the_indices_of_palettes_stay_in_masks_of_pascal_voc(tmp_path, build):
    root = write_voc(tmp_path / "VOC2012", {"train": PICTURES})
    flags = [f"--input={root}", "--source=voc", "--layout=segmentation"]
    out = build(tmp_path / "out", *flags)
    assert find_all(out) == []
    masks = masks_of(out)
    for name, picture in PICTURES.items():
        np.testing.assert_array_equal(masks[name], np.asarray(voc_mask(picture)))
    spec = tmp_path / "spec.yaml"
    spec.write_text("layout: {image: image.encoded, mask: mask.encoded, boxes: objects.bbox, filename: filename}")
    both = build(tmp_path / "both", f"--input={root}", "--source=voc", f"--spec={spec}")
    for record in open_dataset(both).records("train"):
        np.testing.assert_array_equal(record["mask"][..., 0], masks[record["filename"]])
        assert len(record["boxes"]) == len(PICTURES[record["filename"]].objects)


# Later versions


@pytest.mark.parametrize("fingerprint", ["stat", "content"])
def test_a_changed_mask_remakes_its_example_alone(folders, convert, save, fingerprint):
    flags = [f"--input={folders / 'images'}", f"--mask_root={folders / 'masks'}", f"--output={folders / 'out'}"]
    flags += ["--versioned", f"--fingerprint={fingerprint}", "--image_encoding=png"]
    assert convert(*flags).code == 0
    save(folders / "masks/train/a.png", mask_of("z"))
    ran = convert(*flags)
    assert ran.code == 0, ran.err
    latest = folders / "out" / (folders / "out/LATEST").read_text().strip()
    assert manifest_of(latest)["reuse"] == {"copied": 3, "reserialized": 0, "converted": 1}
    np.testing.assert_array_equal(masks_of(latest)["a.jpg"], mask_of("z"))
    if fingerprint == "stat":
        assert "nothing has changed" in convert(*flags).out
    ran = convert(*flags, "--mask_padding=9", "--guard=off")
    assert ran.code == 0
    latest = folders / "out" / (folders / "out/LATEST").read_text().strip()
    assert manifest_of(latest)["reuse"]["converted"] == 4


def test_a_mask_that_is_gone_is_a_failure_of_the_next_version(folders, convert):
    flags = [f"--input={folders / 'images'}", f"--mask_root={folders / 'masks'}", f"--output={folders / 'out'}"]
    flags += ["--versioned", "--max_failures=0.5", "--guard=off"]
    assert convert(*flags).code == 0
    (folders / "masks/train/a.png").unlink()
    assert convert(*flags).code == 0
    latest = folders / "out" / (folders / "out/LATEST").read_text().strip()
    assert manifest_of(latest)["failure_reasons"] == {"mask_missing": 1}


def test_masks_are_drawn_in_the_picture_of_a_record_and_in_the_report(out, tmp_path, run):
    records = open_dataset(out).records("train")
    ran = run("inspect", f"--dataset={out}", "--split=train", "--image=0", f"--save={tmp_path / 'x.png'}")
    assert ran.code == 0, ran.err
    drawn, stored = np.asarray(Image.open(tmp_path / "x.png"), int), records[0]["image"].astype(int)
    numbers = records[0]["mask"][..., 0]
    np.testing.assert_array_equal(drawn[numbers == 0], stored[numbers == 0])
    # 110 of 255 parts of a color that each number has.
    colors = {number: (drawn - stored * 145 / 255)[numbers == number] * 255 / 110 for number in (1, 2, 255)}
    for values in colors.values():
        assert np.abs(values - values.mean(axis=0)).max() < 4
    assert np.abs(colors[1].mean(axis=0) - colors[2].mean(axis=0)).max() > 100
    assert run("report", out).code == 0
    page = (out / "report.html").read_text()
    pictures = re.findall(r"data:image/jpeg;base64,([^\"]+)", page)
    shown = [np.asarray(Image.open(io.BytesIO(base64.b64decode(one))).convert("RGB"), int) for one in pictures]
    (nearest, plain) = (
        min(np.abs(one - wanted).mean() for one in shown if one.shape == drawn.shape) for wanted in (drawn, stored)
    )
    assert nearest < 20 < plain  # they are JPEGs of low quality
