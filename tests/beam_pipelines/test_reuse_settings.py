"""Every setting, changed in the second version: what is reused never shows in the shards."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.beam_pipelines.version_builds import content_of
from tests.framing import write_examples
from tests.image_writers import P3_COLORANTS, icc_profile

Words = Mapping[str, Any]
FOLDER: Words = {"input": "in", "name": "pets", "image_size": 24, "splits": "train=0.7,test=0.3", "max_failures": 0.9}
KEPT: Words = {"input": "in", "name": "pets", "image_encoding": "keep", "max_failures": 0.9}
TABLE: Words = {"input": "rows.csv", "name": "pets", "image_size": 24, "max_failures": 0.9}
LISTS: Words = {**TABLE, "layout": "multilabel", "label_column": "several"}
# Most masks belong to no image while one suffix of theirs counts.
MASKS: Words = {
    "input": "in", "mask_root": "masks", "trust_annotations": True,
    "name": "pets", "image_size": 24, "max_failures": 0.9,
}  # fmt: skip
BOXES: Words = {"input": "boxes.json", "image_root": "in", "name": "pets", "image_size": 24, "max_failures": 0.9}
NOTES: Words = {"input": "notes.jsonl", "image_root": "in", "name": "pets", "image_size": 24, "max_failures": 0.9}
BOX_ROWS: Words = {"input": "boxes.csv", "name": "pets", "image_size": 24, "max_failures": 0.9}
PAIRS: Words = {
    "images": "left={root}/in,right={root}/moved/in", "label_pattern": "(?P<label>cat|dog)",
    "name": "pets", "image_size": 24, "max_failures": 0.9,
}  # fmt: skip
NUMBERS: Words = {"input": "numbers.tfrecord", "name": "pets", "image_size": 24, "pixels": "float64:0..1"}
ARRAYS: Words = {**FOLDER, "layout": "array,label"}
MAPPED: Words = {**FOLDER, "map": "tests.beam_pipelines.mapped:upper_half"}
JOINED: Words = {"input": "dataset", "join": "ages.parquet", "join_key": "key"}
# Setting -> the words of the first version, and what is said in the second one besides; None leaves a word out.
CHANGED: Mapping[str, tuple[Words, Words]] = {
    "input": (FOLDER, {"input": "moved/in"}),
    "source": (TABLE, {"source": "csv"}),
    "mapping": ({**NOTES, "mapping": "mine.yaml"}, {"mapping": "other.yaml"}),
    "save_mapping": ({**NOTES, "save_mapping": "mine.yaml"}, {"save_mapping": "other.yaml"}),
    "parts": ({"input": "tests.own_rows:shades", "parts": "1,2"}, {"parts": "1,3"}),
    "label_pattern": (FOLDER, {"label_pattern": "(?P<label>cat|dog)"}),
    "image_column": (TABLE, {"image_column": "other"}),
    "label_column": (TABLE, {"label_column": "name"}),
    "split_column": (TABLE, {"split_column": "fold"}),
    "key_column": (TABLE, {"key_column": "id"}),
    "allow_outside_root": (TABLE, {"allow_outside_root": True}),
    "allow_damaged_containers": (TABLE, {"allow_damaged_containers": True}),
    "allow_private_addresses": (TABLE, {"allow_private_addresses": True}),
    "image_path": ({**TABLE, "split_column": ""}, {"image_path": "in/cat/{id}.png"}),
    "images": (PAIRS, {"images": "left={root}/moved/in,right={root}/in"}),
    "image_root": (TABLE, {"image_root": "moved"}),
    "mask_root": (MASKS, {"mask_root": "moved/masks"}),
    "mask_column": ({**TABLE, "layout": "segmentation"}, {"mask_column": "other_mask"}),
    "mask_suffix": (MASKS, {"mask_suffix": "_m"}),
    "image_suffix": (MASKS, {"image_suffix": "0"}),
    "mask_classes": ({**MASKS, "mask_classes": "a=_b"}, {"mask_classes": "b=_c,a=_b"}),
    "pixels": (NUMBERS, {"pixels": "float64:-1..1"}),
    "mask_bit_depth": (MASKS, {"mask_bit_depth": 16}),
    "mask_padding": ({**MASKS, "resize_mode": "pad"}, {"mask_padding": 255}),
    "mask_colors": ({**MASKS, "mask_colors": "greys.txt"}, {"mask_colors": "more_greys.txt"}),
    "mask_values": (MASKS, {"mask_values": ",".join(f"{number}:{255 - number}" for number in range(256))}),
    "label_type": (TABLE, {"label_type": "text", "class_order": None}),
    "group_rows": ({**TABLE, "image_column": "other"}, {"group_rows": True}),
    "label_columns": ({**TABLE, "layout": "multilabel"}, {"label_columns": "zero,one"}),
    "box_columns": ({**BOX_ROWS, "box_format": "xyxy"}, {"box_columns": "x1,y1,right,bottom"}),
    "box_format": (BOX_ROWS, {"box_format": "xywh"}),
    "box_unit": (BOX_ROWS, {"box_unit": "pixels"}),
    "run_order": (BOX_ROWS, {"run_order": "rows"}),
    "unknown_labels": (
        {**TABLE, "layout": "multilabel", "label_columns": "minus,one", "unknown_labels": "no"},
        {"unknown_labels": "yes"},
    ),
    "missing_values": ({**TABLE, "class_names": "cat,dog"}, {"missing_values": "dog"}),
    "trust_annotations": (FOLDER, {"trust_annotations": True}),
    # It cannot act without a bucket.
    "requester_pays": (FOLDER, {"requester_pays": None}),
    "label_separator": ({**LISTS, "label_separator": ""}, {"label_separator": "|"}),
    "delimiter": (TABLE, {"delimiter": ","}),
    "encoding": (TABLE, {"encoding": "cp1252"}),
    "include": ({**FOLDER, "class_names": "cat,dog"}, {"include": "cat/*"}),
    "exclude": (FOLDER, {"exclude": "cat/00*"}),
    "classes": (FOLDER, {"classes": "cat"}),
    "group_column": ({**TABLE, "split_column": "", "splits": "train=0.5,test=0.5"}, {"group_column": "fold"}),
    "where": (FOLDER, {"where": "label = 'cat'"}),
    "map": (FOLDER, {"map": "tests.beam_pipelines.mapped:upper_half"}),
    "map_revision": (MAPPED, {"map_revision": "2"}),
    "check_map": (MAPPED, {"check_map": True}),
    "join": (JOINED, {"join": "other_ages.parquet"}),
    "join_key": (JOINED, {"join_key": "other_key"}),
    "fingerprint": (FOLDER, {"fingerprint": "content"}),
    "class_names": (FOLDER, {"class_names": "dog,cat"}),
    "class_order": (FOLDER, {"class_order": "sorted"}),
    "splits": (FOLDER, {"splits": "train=0.5,test=0.5"}),
    "stratify": (FOLDER, {"stratify": True}),
    "limit": (FOLDER, {"limit": 9}),
    "output": (FOLDER, {"output": "elsewhere", "reuse": "out"}),
    "name": (FOLDER, {"name": "animals"}),
    "description": (FOLDER, {"description": "Cats and dogs."}),
    "license": (FOLDER, {"license": "CC-BY-4.0"}),
    "homepage": (FOLDER, {"homepage": "https://example.org/pets"}),
    "citation": (FOLDER, {"citation": "@misc{pets}"}),
    "layout": (FOLDER, {"layout": "imagenet"}),
    "shard_size": (FOLDER, {"shard_size": "4KB"}),
    "num_shards": (FOLDER, {"num_shards": 2}),
    "compression": (FOLDER, {"compression": "gzip"}),
    "seed": (FOLDER, {"seed": 7}),
    "overwrite": (FOLDER, {"output": "elsewhere", "versioned": None, "overwrite": True, "reuse": "out"}),
    "max_failures": (FOLDER, {"max_failures": 0.8}),
    "max_file_size": (FOLDER, {"max_file_size": "5KB"}),
    "image_timeout": (FOLDER, {"image_timeout": 30}),
    "duplicates": (FOLDER, {"duplicates": "drop"}),
    "near_duplicates": (FOLDER, {"near_duplicates": 4}),
    "image_size": (FOLDER, {"image_size": 20}),
    "resize_mode": (FOLDER, {"resize_mode": "crop"}),
    "resample": (FOLDER, {"resample": "nearest"}),
    "upscale": (FOLDER, {"no_upscale": True}),
    "orientation": (FOLDER, {"orientation": "ignore"}),
    "color_profile": (FOLDER, {"color_profile": "ignore"}),
    "image_encoding": (FOLDER, {"image_encoding": "png"}),
    "codec": (FOLDER, {"codec": "exact"}),
    "jpeg_quality": (FOLDER, {"jpeg_quality": 50}),
    "channels": (FOLDER, {"channels": 1}),
    "bit_depth": ({**FOLDER, "image_encoding": "png"}, {"bit_depth": 16}),
    "array_type": (ARRAYS, {"array_type": "uint16"}),
    "array_axes": (ARRAYS, {"array_axes": "CHW"}),
    "pages": (ARRAYS, {"pages": "first"}),
    # It cannot act without DICOM or NIfTI.
    "window": (FOLDER, {"window": None}),
    "max_pixels": (FOLDER, {"max_pixels": 3000}),
    "max_image_memory": (FOLDER, {"max_image_memory": "20KB"}),
    "allow_truncated": (FOLDER, {"allow_truncated": True}),
    "invalid_boxes": (BOXES, {"invalid_boxes": "drop"}),
    "versioned": (FOLDER, {"output": "elsewhere", "versioned": None, "reuse": "out"}),
    "keep_versions": (FOLDER, {"keep_versions": 1}),
    "grace": (FOLDER, {"grace": "1s"}),
    "reuse": (FOLDER, {"reuse": "none"}),
    "guard": (FOLDER, {"guard": "warn"}),
    "accept": (FOLDER, {"accept": "all", "guard": None}),
    "min_count_ratio": (FOLDER, {"min_count_ratio": 0.1}),
    "max_count_ratio": (FOLDER, {"max_count_ratio": 9}),
    "max_failure_rise": (FOLDER, {"max_failure_rise": 0.5}),
    "max_share_change": (FOLDER, {"max_share_change": 0.5}),
    "min_size_ratio": (FOLDER, {"min_size_ratio": 0.1}),
    "max_size_ratio": (FOLDER, {"max_size_ratio": 9}),
}
# Their changed values make other shards of this input: a wrong reuse would show.
SHOWS = {
    *("allow_truncated", "bit_depth", "channels", "codec", "color_profile", "image_encoding", "image_size"),
    *("jpeg_quality", "layout", "max_file_size", "max_image_memory", "max_pixels", "orientation", "resample"),
    *("resize_mode", "upscale"),
}
# These say what is done with versions, and nothing of a dataset.
OF_VERSIONS = {
    *("accept", "check_map", "grace", "guard", "keep_versions", "max_count_ratio", "max_failure_rise"),
    *("max_share_change", "max_size_ratio", "min_count_ratio", "min_size_ratio", "output", "overwrite"),
    *("requester_pays", "reuse", "versioned"),
}


def test_every_setting_has_a_changed_value():
    page = (Path(__file__).parents[2] / "docs/settings.md").read_text()
    assert {*CHANGED} == {*re.findall(r"^\| `--(\w+)`", page, re.MULTILINE)}


def make_input(root: Path, picture: Callable, save: Callable) -> None:
    for number in range(8):
        save(root / f"in/cat/{number:03d}.png", picture(number, 30, 40))
        save(root / f"in/dog/{number:03d}.png", picture(50 + number, 30, 40))
    shutil.copy(root / "in/cat/001.png", root / "in/dog/copy.png")
    noise = np.random.default_rng(0).integers(0, 256, (60, 60, 3), dtype=np.uint8)
    save(root / "in/cat/noise.png", noise)
    save(root / "in/cat/small.png", picture(90, 10, 12))
    save(root / "in/dog/upright.jpg", picture(91, 30, 40), exif=rotated())
    save(root / "in/dog/profile.jpg", picture(92, 30, 40), icc_profile=icc_profile(P3_COLORANTS, 2.2))
    save(root / "in/dog/other.tiff", picture(93, 30, 40))
    save(root / "in/dog/half.jpg", picture(94, 200, 300))
    half = root / "in/dog/half.jpg"
    half.write_bytes(half.read_bytes()[: half.stat().st_size // 2])
    for number in range(8):
        for name in (f"{number:03d}", f"{number:03d}_m", f"{number // 10:02d}"):
            save(root / f"masks/cat/{name}.png", picture(number + len(name), 30, 40, 1))
            save(root / f"moved/masks/cat/{name}.png", picture(200 + number, 30, 40, 1))
        save(root / f"masks/cat/{number:03d}_b.png", picture(number, 30, 40, 1) // 128)
        save(root / f"masks/cat/{number:03d}_c.png", picture(number, 30, 40, 1) * 0)
    shutil.copytree(root / "in", root / "moved/in")
    save(root / "moved/in/cat/000.png", picture(1000, 30, 40))
    outside = save(root.with_name("outside.png"), picture(95, 30, 40))
    lines = ["image,other,label,name,several,split,fold,id,zero,one,minus,mask,other_mask"]
    for number in range(8):
        names = ("cat", "dog") if number % 2 else ("dog", "Äpfel")
        folds = ("train", "test") if number % 3 else ("test", "train")
        paths = f"in/cat/{number:03d}.png,in/dog/{number:03d}.png"
        masks = f"masks/cat/{number:03d}.png,masks/cat/{number:03d}_m.png"
        lines.append(
            f"{paths},{','.join(names)},{'|'.join(names)},{','.join(folds)},{number:03d},0,1,{-(number % 2)},{masks}"
        )
    lines.append(f"../{outside.name},in/dog/copy.png,cat,dog,cat|dog,train,test,000,1,0,1,,")
    (root / "rows.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    greys = [f"grey{number} #{number:02x}{number:02x}{number:02x}\n" for number in range(256)]
    (root / "greys.txt").write_text("".join(greys))
    (root / "more_greys.txt").write_text("".join(greys[::-1]))
    sides = ["path,label,x1,y1,x2,y2,right,bottom"]
    sides += [f"in/cat/{number:03d}.png,cat,{3 + number},2,{9 + number},8,{7 + number},7" for number in range(8)]
    (root / "boxes.csv").write_text("\n".join(sides) + "\n")
    # One of the boxes has no area.
    boxes = [{"image_id": number, "category_id": 1, "bbox": [2, 3, number, 5]} for number in range(8)]
    images = [{"id": number, "file_name": f"cat/{number:03d}.png"} for number in range(8)]
    annotations = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "cat"}]}
    (root / "boxes.json").write_text(json.dumps(annotations))
    lines = [{"file": f"in/cat/{n:03d}.png", "name": "cat", "sides": [3, 2, 5, 6]} for n in range(8)]
    (root / "notes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name, form in (("mine", "xyxy"), ("other", "xywh")):
        (root / f"{name}.yaml").write_text(f"image: file\nobjects: '@'\nclass: name\nbox: sides\nform: {form}\n")

    shares = np.random.default_rng(1).random((8, 30, 40))
    examples = ({"image": one.tobytes(), "label": n % 2, "height": 30, "width": 40} for n, one in enumerate(shares))
    write_examples(root / "numbers.tfrecord", examples)


def rotated() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


@pytest.fixture(scope="module")
def workshop(tmp_path_factory, picture, save, convert) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("settings") / "work", picture, save, convert)


class Workshop:
    """An input, and the datasets that are built of it, each once."""

    def __init__(self, root: Path, picture: Callable, save: Callable, convert: Callable) -> None:
        self.root = root
        self._convert = convert
        self._built: dict[tuple, Path] = {}
        make_input(root, picture, save)
        # Its columns are in another order under the other key.
        dataset = self.build_once(FOLDER)
        keys = [
            key for file in sorted(dataset.glob("index/*.parquet")) for key in pq.read_table(file)["key"].to_pylist()
        ]
        for name, first in (("ages", 0), ("other_ages", 50)):
            ages = range(first, first + len(keys))
            table = pa.table({"key": keys, "other_key": keys[::-1], "age": pa.array(ages, pa.int64())})
            pq.write_table(table, root / f"{name}.parquet")
        (root / "dataset").symlink_to(dataset)

    def run(self, words: Words, *, output: Path):
        given = {name: word for name, word in words.items() if word is not None}
        if "images" in given:
            given["images"] = given["images"].format(root=self.root)
        for name in ("input", "mapping", "image_root", "mask_root", "mask_colors", "join"):
            if name in given and ":" not in given[name]:  # a function is in no folder
                given[name] = self.root / given[name]
        if given.get("reuse", "none") != "none":
            given["reuse"] = output.parent / given["reuse"]
        given["output"] = output.parent / given.get("output", output.name)
        flags = [f"--{name}" if word is True else f"--{name}={word}" for name, word in given.items()]
        return self._convert(*flags), given["output"]

    def build_once(self, words: Words) -> Path:
        key = tuple(sorted((name, str(word)) for name, word in words.items()))
        if key not in self._built:
            output = self.root / f"built{len(self._built)}/out"
            ran, output = self.run(words, output=output)
            assert ran.code == 0, ran.err
            self._built[key] = output
        return self._built[key]


def newest(output: Path) -> Path:
    return output / (output / "LATEST").read_text().strip() if (output / "LATEST").exists() else output


@pytest.mark.nightly
@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_setting_makes_the_shards_of_a_build_from_scratch(workshop, tmp_path, name):
    base, change = CHANGED[name][0], {"class_order": "sorted", **CHANGED[name][1]}
    first = workshop.build_once({**base, "versioned": True})
    shutil.copytree(first, tmp_path / "out")
    changed = next((workshop.root / "in").rglob("007.png"))
    # Another time, so that a build is needed; the first version was built before.
    os.utime(changed, (1, 1))
    ran, output = workshop.run({**base, "versioned": True, "guard": "off", **change}, output=tmp_path / "out")
    assert ran.code == 0, ran.err
    plain = {word: value for word, value in {**base, **change}.items() if word not in OF_VERSIONS}
    scratch = content_of(workshop.build_once(plain))
    assert content_of(newest(output)) == scratch
    if name in SHOWS:
        shards = [one["file"] for one in scratch["manifest"]["shards"]]
        old = content_of(newest(first))
        assert [scratch[file] for file in shards] != [old.get(file) for file in shards]
