"""`export`: what was exported and converted again is equal, for every layout and source."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from beam_tfrecords import open_dataset
from beam_tfrecords.examples.layouts import NAMED
from tests.annotated_inputs import coco_of, write_coco
from tests.beam_pipelines.conftest import make_picture, save_picture
from tests.beam_pipelines.test_dataset_input import LAYOUTS, companions, examples, index_rows
from tests.identity_inputs import INPUTS
from tests.identity_inputs import flags_of as flags_of_input
from tests.source_forms import FORMS, SEVERAL_FORMS, write_form
from tests.source_forms import flags_of as flags_of_form


@pytest.fixture
def again(run, build):
    """Exports a dataset, and runs the command that it prints; the exported folder, and the second dataset."""

    def export(out: Path, *words: str) -> tuple[Path, Path]:
        folder = out.parent / "folder"
        ran = run("export", f"--dataset={out}", f"--to={folder}", *words)
        assert ran.code == 0, ran.err
        *_, command = ran.out.splitlines()
        program, name, *flags = shlex.split(command)
        assert (program, name) == ("beam-tfrecords", "convert")
        *flags, output = flags
        second = Path(output.removeprefix("--output="))
        return folder, build(second, *flags)

    return export


def check_same(first: Path, second: Path) -> None:
    was, now = examples(first), examples(second)
    assert {split: list(found) for split, found in now.items()} == {split: list(found) for split, found in was.items()}
    for split, found in was.items():
        for key, features in found.items():
            assert now[split][key] == features
    names = [name for name in companions(first) if name != "features.json"]
    assert {name: companions(second)[name] for name in names} == {name: companions(first)[name] for name in names}
    assert open_dataset(second).class_names == open_dataset(first).class_names
    assert facts(second) == facts(first)
    assert not can_be_read(first) or pixels(second) == pixels(first)


def facts(out: Path) -> list[dict[str, Any]]:
    dataset = open_dataset(out)
    names = ("label", "height", "width", *(["objects"] if dataset.layout.needs_objects else []))
    return [{name: row[name] for name in names} for split in dataset.splits for row in index_rows(out, split)]


def pixels(out: Path) -> list[str]:
    """What readers return for the first records."""
    return [repr(one) for one in open_dataset(out).records()[:3]]


def can_be_read(out: Path) -> bool:
    images, compression = open_dataset(out).images, open_dataset(out).compression
    # A note says that the bytes of WebP images are kept, and that readers return three channels.
    has_other_channels = (images.encoding, images.channels) == ("webp", 4)
    is_sizeless = images.encoding == "raw" and images.size is None
    return compression == "none" and not (is_sizeless or has_other_channels)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_comes_back(tmp_path, build, verify, again, layout):
    write, flags = LAYOUTS[layout]
    first = build(tmp_path / "first", *write(tmp_path), *flags, "--name=x", "--max_failures=0.5")
    _, second = again(first)
    check_same(first, second)
    assert verify(second).code == 0


@pytest.mark.parametrize("encoding", ["jpeg", "png", "webp", "raw", "keep"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_comes_back(tmp_path, build, again, form, encoding):
    write_form(form, tmp_path / "in")
    words = [*flags_of_form(form, tmp_path / "in"), f"--image_encoding={encoding}", "--name=x"]
    if encoding == "raw" and form in SEVERAL_FORMS:
        words += ["--image_size=20", "--resize_mode=exact"]
    first = build(tmp_path / "first", *words)
    check_same(first, again(first)[1])


@pytest.mark.parametrize("source", INPUTS)
def test_every_source_comes_back(tmp_path, build, again, source):
    (tmp_path / "in").mkdir()
    INPUTS[source][0](tmp_path / "in", 0)
    first = build(tmp_path / "first", *flags_of_input(source, tmp_path / "in"), "--image_size=24", "--name=x")
    check_same(first, again(first)[1])


# More than one case above has


def _write_color_masks(root: Path) -> list[str]:
    for number in range(4):
        mask = np.zeros((20, 24, 3), np.uint8)
        mask[: 5 + number] = 255, 0, 0
        save_picture(root / f"images/{number}.png", make_picture(number, 20, 24))
        save_picture(root / f"masks/{number}.png", mask)
    (root / "colors.txt").write_text("ground 0 0 0\nred roof 255 0 0\nwater 0 0 255\n")
    return [f"--input={root / 'images'}", f"--mask_root={root / 'masks'}", f"--mask_colors={root / 'colors.txt'}"]


def _write_drawn(root: Path) -> list[str]:
    write_form("coco", root / "in")
    content = coco_of()
    for one in content["annotations"]:
        x, y, width, height = one["bbox"]
        one["segmentation"] = [[x, y, x + width, y, x + width, y + height]]
    path = write_coco(root / "in/instances.json", annotations=content["annotations"])
    return [f"--input={path}", f"--image_root={root / 'in/images'}", "--layout=segmentation"]


def _write_heads(root: Path) -> list[str]:
    rows = []
    for number in range(6):
        save_picture(root / f"{number}.png", make_picture(number, 40, 30))
        points = {"x0": 3 + number, "y0": 7, "x1": 20.5, "y1": 30 - number}
        rows.append(
            {"image": f"{number}.png", "sex": "fm"[number % 2], "age": ["1", "0", "null"][number % 3], **points}
        )
    rows += [rows[0] | {"image": "0.png", "key": "x"}]
    pd_rows = "".join(json.dumps(row) + "\n" for row in rows[:6])
    (root / "rows.jsonl").write_text(pd_rows)
    layout = {
        "image": "image.encoded",
        "label": {"field": "column.sex", "type": "class"},
        "class of age": {"field": "column.age", "type": "class", "class_names": ["0", "1", "null"]},
        "points": {"field": "columns.x0..y1", "type": "float", "moves": "points"},
        "x": {"field": "columns.x0,x1", "type": "float"},
    }
    (root / "layout.yaml").write_text(json.dumps({"layout": layout}))
    return [f"--input={root / 'rows.jsonl'}", f"--spec={root / 'layout.yaml'}", "--missing_values=", "--image_size=20"]


def _write_arrays(root: Path) -> list[str]:
    for number in range(4):
        (root / "in" / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        array = np.random.default_rng(number).normal(size=(9 + number, 12, 5)).astype(np.float32)
        np.save(root / "in" / "ab"[number % 2] / f"{number}.npy", array)
    return [f"--input={root / 'in'}", "--layout=array,label"]


def _write_turned(root: Path) -> list[str]:
    rows = []
    for number in range(4):
        turned = Image.Exif()
        turned[0x0112] = 6
        save_picture(root / f"{number}.jpg", make_picture(number, 20, 20 + 4 * (number % 2)), exif=turned)
        rows.append({"image": f"{number}.jpg", "objects": {"bbox": [[12, 3, 7, 5]], "category": ["cat"]}})
    (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [f"--input={root / 'rows.jsonl'}", "--image_encoding=keep"]


def _write_words(root: Path) -> list[str]:
    """Classes and texts that look like empty cells, numbers and lists."""
    rows = []
    words = ("null", "0", "1", "NaN", "[1, 0]", "a|b", "x,y", "ja; nein")
    (root / "names.json").write_text(json.dumps(words))
    for number, word in enumerate(words):
        save_picture(root / f"{number}.png", make_picture(number, 20, 20))
        rows.append({"image": f"{number}.png", "label": word, "note": word, "split": ["train", "test"][number % 2]})
    (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [
        f"--input={root / 'rows.jsonl'}",
        "--missing_values=",
        "--layout=tfds,note:bytes",
        "--label_separator=",
        f"--class_names={root / 'names.json'}",
    ]


def _write_unlabelled(root: Path) -> list[str]:
    for number in range(6):
        save_picture(root / f"{number}.png", make_picture(number, 20, 20))
    lines = [
        f"{number}.png,{'ab'[number % 2] if number < 4 else ''},{'train' if number < 4 else 'test'}\n"
        for number in range(6)
    ]
    (root / "rows.csv").write_text("image,label,split\n" + "".join(lines))
    return [f"--input={root / 'rows.csv'}"]


def _write_flags(root: Path) -> list[str]:
    """Several labels whose names are numbers."""
    rows = []
    for number in range(4):
        save_picture(root / f"{number}.png", make_picture(number, 20, 20))
        rows.append({"image": f"{number}.png", "label": [["0", "1"], ["1", "0"], ["1", "1"], ["0", "0"]][number]})
    (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [f"--input={root / 'rows.jsonl'}", "--layout=multilabel", "--class_names=0,1"]


def _write_labels_and_objects(root: Path) -> list[str]:
    write_form("coco", root / "in")
    layout = {**NAMED["detection"], "labels": "labels.name"}
    (root / "layout.yaml").write_text(json.dumps({"layout": layout}))
    return [*flags_of_form("coco", root / "in"), f"--spec={root / 'layout.yaml'}"]


def _write_masks_and_objects(root: Path) -> list[str]:
    words = _write_drawn(root)[:2]
    layout = {**NAMED["detection"], "mask": "mask.encoded"}
    (root / "layout.yaml").write_text(json.dumps({"layout": layout}))
    return [*words, f"--spec={root / 'layout.yaml'}"]


def _write_numbered(root: Path) -> list[str]:
    for number in range(4):
        save_picture(root / "in" / ("1:cat", "0:dog")[number % 2] / f"{number}.png", make_picture(number, 20, 20))
    return [f"--input={root / 'in'}"]


def _write_formats(root: Path) -> list[str]:
    """Files of many formats, each kept."""
    pixels = make_picture(0, 20, 24)
    for number, name in enumerate(("jpg", "png", "gif", "bmp", "tiff", "webp", "jp2", "ppm", "avif")):
        save_picture(root / "in" / "ab"[number % 2] / f"{number}.{name}", pixels)
    save_picture(root / "in/a/16.png", (np.arange(480).reshape(20, 24) * 100).astype(np.uint16))
    return [f"--input={root / 'in'}", "--image_encoding=keep", "--keep_any_format", "--layout=imagenet"]


def _write_named_images(root: Path) -> list[str]:
    """Images whose features have other names, and words of the table as names."""
    rows = []
    for number in range(4):
        for name in ("a", "b", "c"):
            save_picture(root / f"{name}{number}.png", make_picture(7 * number + ord(name), 20, 24))
        rows.append({"image": f"a{number}.png", "key": f"b{number}.png", "views": [f"c{number}.png"] * number})
    (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    layout = {"first": "image.encoded", "second": "images.key", "more": "images.views"}
    (root / "layout.yaml").write_text(json.dumps({"layout": layout}))
    words = [f"--input={root / 'rows.jsonl'}", f"--spec={root / 'layout.yaml'}"]
    return [*words, "--image_column=image,key,views", "--image_encoding=png"]


def _write_truncated(root: Path) -> list[str]:
    for number in range(4):
        path = save_picture(root / "in" / "ab"[number % 2] / f"{number}.jpg", make_picture(number, 60, 70))
        path.write_bytes(path.read_bytes()[:-200])
    return [f"--input={root / 'in'}", "--allow_truncated", "--image_encoding=keep"]


CASES = {
    "named_images": _write_named_images,
    "numbered": _write_numbered,
    "formats": _write_formats,
    "mask_colors": _write_color_masks,
    "drawn_masks": _write_drawn,
    "heads": _write_heads,
    "arrays": _write_arrays,
    "turned": _write_turned,
    "words": _write_words,
    "unlabelled": _write_unlabelled,
    "flags": _write_flags,
    "labels_and_objects": _write_labels_and_objects,
    "masks_and_objects": _write_masks_and_objects,
}


@pytest.mark.parametrize("case", CASES)
def test_every_case_comes_back(tmp_path, build, again, case):
    first = build(tmp_path / "first", *CASES[case](tmp_path), "--name=x")
    check_same(first, again(first)[1])


def test_a_note_says_what_a_conversion_does_not_know(tmp_path, build, run):
    first = build(tmp_path / "first", *_write_color_masks(tmp_path), "--mask_bit_depth=16")
    ran = run("export", f"--dataset={first}", f"--to={tmp_path / 'folder'}")
    assert "note: a conversion does not know the class names of these masks" in ran.out.splitlines()
    second = build(tmp_path / "second", *shlex.split(ran.out.splitlines()[-1])[2:-1])
    assert examples(second) == examples(first)


def test_limits_that_the_images_kept_are_kept_again(tmp_path, build, again):
    first = build(tmp_path / "first", *_write_truncated(tmp_path), "--name=x")
    assert examples(again(first)[1]) == examples(first)
