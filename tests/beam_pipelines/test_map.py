"""`map`: a function of the user between reading and storing."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import beam_tfrecords
from beam_tfrecords import BuildError
from tests.annotated_inputs import coco_of, save_pictures, write_coco
from tests.beam_pipelines.dataset_checks import manifest_of, shards_of
from tests.refusals import Refusal, refuses
from tests.trees import write_tree
from tests.writers import WRITERS, flags_of

FUNCTIONS = """
import numpy as np

import marks

def same(sample):
    return sample

def look(sample):
    seen = sample.image, sample.mask, sample.objects and sample.objects.boxes, sample.columns, sample.images
    return sample.replace(image=sample.image, label=sample.label)

def thirds(sample):
    number = int(sample.key.rpartition("/")[2][:-4])
    if number % 3 == 0:
        return None
    return sample if number % 3 == 1 else sample.replace(image=255 - sample.image, label=marks.other(sample.label))

def fails(sample):
    if sample.key.endswith("/3.png"):
        return sample.crop((5, 5, 5, 5))
    return sample

def left_half(sample):
    height, width, _ = sample.image.shape
    return sample.crop((0, 0, width // 2, height))

def first_object(sample):
    return sample.replace(objects=sample.objects.take([0])) if len(sample.objects) else sample

def only_image(sample):
    return sample.replace(image=sample.image[:5, :7])

def brightness(sample):
    return sample.replace(columns={"brightness": sample.image.mean(), "sides": np.array(sample.image.shape[:2])})

def long_text(sample):
    return sample.replace(columns={"text": "x" * 3_000_000})

def other_key(sample):
    return type(sample)("another", image=sample.image)

def number(sample):
    return 3
"""
SCRIPT = """
import os
import sys
import time

import marks
from beam_tfrecords import build

SECONDS = 60

def clean(sample):
    if sample.key == "cat/4.png":
        os.abort()
    if sample.key == "dog/5.png":
        time.sleep(SECONDS)
    return sample.replace(label=marks.other(sample.label))

settings = {"image_size": 16, "class_names": ["CAT", "DOG"], "image_timeout": 2, "max_failures": 0.5}
build(input=sys.argv[1], output=sys.argv[2], map=clean, **settings)
"""
ROOT = Path(__file__).parents[2]
MARKS = "def other(label):\n    return label.upper()\n"
CLASSES = "--class_names=cat,dog,CAT,DOG"


@pytest.fixture(scope="module")
def animals(tmp_path_factory) -> Path:
    names = "cat/{0,2,4,6,8,10}.png dog/{1,3,5,7,9,11}.png"
    return write_tree(tmp_path_factory.mktemp("map") / "animals", names, size="24x20")


@pytest.fixture(scope="module")
def coco(tmp_path_factory) -> Path:
    """Annotations with outlines and keypoints."""
    folder = tmp_path_factory.mktemp("coco")
    save_pictures(folder)
    annotations = coco_of()["annotations"]
    for one in annotations:
        x, y, width, height = one["bbox"]
        right, bottom = x + width, y + height
        one["segmentation"] = [[x, y, right, y, right, bottom, x, bottom]]
        one["keypoints"] = [x + 1, y + 1, 2, right - 1, bottom - 1, 1]
    return write_coco(folder / "instances.json", annotations=annotations)


@pytest.fixture
def steps(tmp_path, monkeypatch) -> Iterator[Path]:
    """The working folder, with modules of functions."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "my_steps.py").write_text(FUNCTIONS)
    (folder / "marks.py").write_text(MARKS)
    monkeypatch.chdir(folder)
    # Where pipelines are run plainly, this process is also the worker.
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    yield folder
    for name in ("my_steps", "marks", "transforms"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("function", ["same", "look"])
@pytest.mark.parametrize(
    "flags",
    [
        ["--image_size=16"],
        ["--image_encoding=keep"],
        ["--image_encoding=png", "--bit_depth=16", "--image_size=9"],
        ["--image_encoding=raw", "--layout=raw", "--channels=1"],
    ],
    ids=lambda flags: flags[0],
)
def test_images_that_are_not_replaced_are_stored_as_without_a_function(
    animals, steps, tmp_path, build, flags, function
):
    expected = build(tmp_path / "expected", f"--input={animals}", *flags)
    out = build(tmp_path / "out", f"--input={animals}", *flags, f"--map=my_steps:{function}")
    assert shards_of(out) == shards_of(expected)


def test_the_caller_keeps_the_modules_that_it_has_imported(animals, steps, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(steps)
    theirs = importlib.import_module("my_steps")
    beam_tfrecords.build(input=animals, output=tmp_path / "out", image_size=16, map=theirs.same, quiet=True)
    assert sys.modules["my_steps"] is theirs


# Columns of boxes are columns for the function.
@pytest.mark.nightly
@pytest.mark.parametrize("form", sorted(WRITERS.keys() - {"csv_boxes"}))
def test_samples_of_every_source_are_stored_as_without_a_function(form, steps, tmp_path, build):
    words = [*flags_of(WRITERS[form].make(tmp_path / "input")), "--image_size=24", "--name=same"]
    expected = shards_of(build(tmp_path / "expected", *words))
    assert shards_of(build(tmp_path / "out", *words, "--map=my_steps:look")) == expected


@pytest.mark.parametrize("layout", [f"detection{more}" for more in ("", "_masks", "_polygons", "_keypoints")])
def test_objects_that_are_not_replaced_are_stored_as_without_a_function(coco, steps, tmp_path, build, layout):
    words = [f"--input={coco}", "--image_size=32", f"--layout={layout}"]
    expected = build(tmp_path / "expected", *words)
    for function in ("same", "look"):
        out = build(tmp_path / function, *words, f"--map=my_steps:{function}")
        assert shards_of(out) == shards_of(expected)


def test_samples_are_changed_and_left_out(animals, steps, tmp_path, build, read):
    out = build(tmp_path / "out", f"--input={animals}", "--image_encoding=png", CLASSES, "--map=my_steps:thirds")
    manifest = manifest_of(out)
    assert (manifest["listed"], manifest["records"], manifest["filtered"], manifest["failures"]) == (12, 8, 4, 0)
    assert manifest["splits"]["train"]["filtered"] == 4
    assert manifest["splits"]["train"]["classes"] == {"CAT": 2, "DOG": 2, "cat": 2, "dog": 2}
    assert manifest["map"]["function"] == "my_steps:thirds"
    assert manifest["map"]["modules"] == ["marks", "my_steps"]
    plain = build(tmp_path / "plain", f"--input={animals}", "--image_encoding=png")
    pixels = {
        record["filename"]: record["image"] for record in beam_tfrecords.open_dataset(str(plain)).records("train")
    }
    for record in beam_tfrecords.open_dataset(str(out)).records("train"):
        expected = pixels[record["filename"]]
        is_changed = int(record["filename"][:-4]) % 3 == 2
        assert np.array_equal(record["image"], 255 - expected if is_changed else expected)
    assert beam_tfrecords.verify(out) == []


# What a function does to every sample -> part of the message. Those that end or hold a process take seconds.
FAILING = {
    "return sample.replace(label=None)": "no label",
    "return sample.replace(label='')": "no label",
    "return sample.replace(label=sample.label.upper())": "'CAT'",
    "return sample.replace(image=b'no image')": "",
    "return sample.replace(columns={'n': 'text'})": "'n'",
    "return sample.replace(columns={'n': None})": "'n'",
    "return type(sample)('another', image=sample.image)": "returned another key or split",
    "return 3": "returned int",
    "raise MemoryError('much')": "more memory than there is",
    "os._exit(1)": "ended its process: exit code 1",
    "os.abort()": "ended its process: SIGABRT",
    "sys.exit(3)": "ended its process",
    "raise KeyboardInterrupt": "ended its process",
    "time.sleep(9)": "did not end within 1 seconds",
    "return sample.replace(image=sample.image // random.randint(1, 9))": "nondeterministic_function",
    "return sample.replace(columns={'n': next(COUNTER)})": "nondeterministic_function",
    "return random.choice([sample, None])": "nondeterministic_function",
}
SLOW = [*FAILING][9:14]


@pytest.mark.parametrize(
    "body", [pytest.param(body, marks=pytest.mark.nightly if body in SLOW else ()) for body in FAILING]
)
def test_a_function_with_which_every_sample_fails_is_refused_before_the_build(animals, steps, tmp_path, convert, body):
    imports = "import itertools, os, random, sys, time\nCOUNTER = itertools.count()\n"
    (steps / "my_steps.py").write_text(f"{imports}def bad(sample):\n    {body}\n")
    layout = {"image": "image.encoded", "label": "label.index"}
    if "columns" in body:
        layout["n"] = {"field": "column.n", "type": "int64"}
    (steps / "spec.yaml").write_text(json.dumps({"layout": layout}))
    words = ["--spec=spec.yaml", f"--input={animals}", f"--output={tmp_path / 'out'}", "--map=my_steps:bad"]
    if FAILING[body] == "nondeterministic_function":
        convert(*words, "--check_map").refused(FAILING[body], "map")
        return
    ran = convert(*words, "--max_failures=1", "--image_timeout=1")
    settings = ["map", *["class_names"] * ("upper" in body)]
    ran.refused("failing_function", *settings, says=["map=my_steps:bad", FAILING[body]])
    assert re.search("all (12|5) samples", ran.err)
    assert not (tmp_path / "out").exists()


def test_a_module_that_cannot_be_imported_is_refused_with_its_line(animals, steps, tmp_path, convert):
    (steps / "my_steps.py").write_text("import not_there\n\ndef number(sample):\n    return sample\n")
    ran = convert(f"--input={animals}", f"--output={tmp_path / 'out'}", "--map=my_steps:number")
    ran.refused("failing_function", "map")
    assert f'File "{steps}/my_steps.py", line 1, in <module>' in ran.err


def test_what_fails_without_the_function_too_says_nothing_of_it(animals, steps, tmp_path, convert):
    root = shutil.copytree(animals, tmp_path / "in")
    for path in root.glob("*/*.png"):
        path.write_bytes(b"no image")
    (steps / "my_steps.py").write_text("def look(sample):\n    return sample.replace(image=255 - sample.image)\n")
    ran = convert(f"--input={root}", f"--output={tmp_path / 'out'}", "--map=my_steps:look", "--max_failures=1")
    assert ran.code == 3, ran.err
    assert "12 of 12 samples failed; no record was written." in ran.err


@pytest.mark.local_runner
def test_a_function_with_which_one_sample_does_not_fail_is_not_refused(animals, steps, tmp_path, build):
    text = "import os\ndef most(sample):\n    return sample if sample.key == 'dog/11.png' else os._exit(1)\n"
    (steps / "my_steps.py").write_text(text)
    for name in ("cat/0.png", "dog/1.png", "dog/11.png"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(animals / name, tmp_path / "in" / name)
    out = build(tmp_path / "out", f"--input={tmp_path / 'in'}", "--map=my_steps:most", "--max_failures=1")
    assert manifest_of(out)["records"] == 1


@pytest.mark.parametrize("fails", [0, 5])
@pytest.mark.parametrize("setting", [{"map": "my_steps:none"}, {"where": "height > 1000"}], ids=["map", "where"])
def test_a_build_that_filters_everything_names_nothing_else(animals, steps, tmp_path, convert, setting, fails):
    root = shutil.copytree(animals, tmp_path / "in")
    for number in range(fails):
        (root / f"cat/broken{number}.png").write_bytes(b"no image")
    text = "def none(sample):\n    return None if sample.image is not None else sample\n"
    (steps / "my_steps.py").write_text(text)
    with pytest.raises(BuildError) as raised:
        beam_tfrecords.build(input=str(root), output=str(tmp_path / "out"), max_failures=0.5, **setting)
    (name,) = setting
    message = str(raised.value)
    share = f"{fails} of {12 + fails} samples failed and 12" if fails else "12 of 12 samples"
    assert message.startswith(f"nothing was published: {share} were filtered; no record was written; `{name}` left out")
    assert "occur more than once" not in message
    assert ("failed" in message, "lists" in message) == (bool(fails), bool(fails))
    words = [f"--{name}={value}" for name, value in setting.items()]
    ran = convert(f"--input={root}", f"--output={tmp_path / 'out'}", "--max_failures=0.5", *words)
    assert ran.code == 3
    assert f"Nothing was published: {share} were filtered; no record was written; --{name} left out" in ran.err


def test_what_a_function_raises_is_a_failure_with_its_file_and_line(animals, steps, tmp_path, convert):
    out = tmp_path / "out"
    ran = convert(f"--input={animals}", f"--output={out}", "--map=my_steps:fails", "--max_failures=0.1")
    assert ran.code == 0, ran.err
    (failure,) = map(json.loads, (out / "failures.jsonl").read_text().splitlines())
    assert (failure["key"], failure["stage"], failure["reason"]) == ("dog/3.png", "map", "map_error")
    line = 1 + FUNCTIONS.splitlines().index("        return sample.crop((5, 5, 5, 5))")
    assert failure["detail"].startswith("ValueError: crop: the box (5, 5, 5, 5) has no size")
    assert failure["detail"].endswith(f"(my_steps.py:{line})")
    assert "Traceback" in failure["traceback"]


def test_a_crop_moves_boxes_and_masks(coco, steps, tmp_path, build):
    words = [f"--input={coco}", "--image_encoding=png", "--layout=detection_masks"]
    whole = beam_tfrecords.open_dataset(str(build(tmp_path / "whole", *words)))
    half = beam_tfrecords.open_dataset(str(build(tmp_path / "half", *words, "--map=my_steps:left_half")))
    before = {record["image/filename"]: record for record in whole.records("train")}
    found = list(half.records("train"))
    assert found
    for record in found:
        old, width = before[record["image/filename"]], record["image/width"]
        assert np.array_equal(record["image"], old["image"][:, :width])
        left = np.asarray(old["image/object/bbox/xmin"]) * old["image/width"]
        right = np.minimum(np.asarray(old["image/object/bbox/xmax"]) * old["image/width"], width)
        is_there = left < right
        assert np.allclose(np.asarray(record["image/object/bbox/xmin"]) * width, left[is_there], atol=1e-3)
        assert np.allclose(np.asarray(record["image/object/bbox/xmax"]) * width, right[is_there], atol=1e-3)
        masks = np.asarray(old["image/object/mask"])[is_there][:, :, :width]
        assert np.array_equal(np.asarray(record["image/object/mask"]), masks)


def test_boxes_that_did_not_move_with_their_image_are_a_failure(coco, steps, tmp_path, convert):
    words = [f"--input={coco}", f"--output={tmp_path / 'out'}", "--layout=detection", "--map=my_steps:only_image"]
    convert(*words).refused("failing_function", "map", says=["objects", "crop() and resize()"])


def test_new_columns_are_declared_in_the_layout(animals, steps, tmp_path, build):
    layout = {
        "image": "image.encoded",
        "brightness": {"field": "column.brightness", "type": "float"},
        "sides": {"field": "column.sides", "type": "int64", "several": True},
    }
    (steps / "spec.yaml").write_text(json.dumps({"layout": layout, "image_encoding": "png"}))
    out = build(tmp_path / "out", "--spec=spec.yaml", f"--input={animals}", "--map=my_steps:brightness")
    for record in beam_tfrecords.open_dataset(str(out)).records("train"):
        assert record["brightness"] == pytest.approx(record["image"].mean())
        assert list(record["sides"]) == [20, 24]


def test_long_texts_of_a_function_lose_no_sample(animals, steps, tmp_path, build):
    layout = {"image": "image.encoded", "text": {"field": "column.text", "type": "bytes"}}
    (steps / "spec.yaml").write_text(json.dumps({"layout": layout, "image_size": 8}))
    out = build(tmp_path / "out", "--spec=spec.yaml", f"--input={animals}", "--map=my_steps:long_text")
    texts = [record["text"] for record in beam_tfrecords.open_dataset(str(out)).records("train")]
    assert texts == ["x" * 3_000_000] * 12


def test_a_version_converts_what_another_function_changes(animals, steps, tmp_path, convert):
    words = [f"--input={animals}", f"--output={tmp_path / 'out'}", "--versioned", "--guard=off", CLASSES]

    def run() -> dict:
        ran = convert(*words, "--map=my_steps:thirds")
        assert ran.code == 0, ran.err
        return manifest_of(tmp_path / "out" / (tmp_path / "out/LATEST").read_text().strip())

    assert run()["reuse"] == {"copied": 0, "reserialized": 0, "converted": 8}
    assert "nothing has changed" in convert(*words, "--map=my_steps:thirds").out
    # A module that it imports is part of it; labels of four samples change.
    (steps / "marks.py").write_text("def other(label):\n    return label\n")
    assert run()["reuse"] == {"copied": 4, "reserialized": 4, "converted": 0}
    # Pixels of four samples change.
    (steps / "my_steps.py").write_text(FUNCTIONS.replace("255 - sample.image", "254 - sample.image // 2"))
    assert run()["reuse"] == {"copied": 4, "reserialized": 0, "converted": 4}
    # The revision is a part of what made it.
    words.append("--map_revision=2")
    assert run()["reuse"] == {"copied": 8, "reserialized": 0, "converted": 0}


def test_the_index_counts_the_objects_that_a_function_leaves_of_a_dataset(coco, steps, tmp_path, build):
    first = build(tmp_path / "first", f"--input={coco}", "--layout=detection")
    words = [f"--input={first}", "--layout=detection", "--image_encoding=keep", "--map=my_steps:first_object"]
    out = build(tmp_path / "out", *words)
    found = [
        len(record["image/object/class/label"]) for record in beam_tfrecords.open_dataset(str(out)).records("train")
    ]
    counted = pq.read_table(out / "index", columns=["objects"])["objects"].to_pylist()
    assert max(found) == 1
    assert counted == found


def test_a_dry_run_does_not_say_that_labels_are_no_classes(animals, steps, tmp_path, convert):
    words = [f"--input={animals}", f"--output={tmp_path / 'out'}", "--dry_run", "--class_names=CAT,DOG"]
    assert convert(*words, "--map=my_steps:thirds").code == 0
    assert convert(*words, "--map=my_steps:nothing").code == 2


def test_modules_may_have_the_names_of_ours(animals, steps, tmp_path, build):
    (steps / "transforms.py").write_text("def clean(sample):\n    return sample.replace(label='dog')\n")
    out = build(tmp_path / "out", f"--input={animals}", "--map=transforms:clean")
    assert manifest_of(out)["splits"]["train"]["classes"] == {"dog": 12}


def test_a_function_of_a_module_is_given_from_python(animals, steps, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(steps))
    importlib.invalidate_caches()
    function = importlib.import_module("my_steps").thirds
    settings = {"input": animals, "image_size": 16, "class_names": ["cat", "dog", "CAT", "DOG"]}
    dataset = beam_tfrecords.build(output=tmp_path / "a", map=function, **settings)
    same = beam_tfrecords.build(output=tmp_path / "b", map="my_steps:thirds", **settings)
    assert dataset.shards == same.shards
    assert dataset.manifest["map"] == same.manifest["map"]


@pytest.mark.nightly
@pytest.mark.local_runner
def test_a_script_gives_a_function_of_its_own(animals, steps, tmp_path):
    """Also one that crashes, or does not end, with one sample."""
    (steps / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", animals, tmp_path / "out"]
    ran = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    manifest = manifest_of(tmp_path / "out")
    assert manifest["failure_reasons"] == {"decode_timeout": 1, "decoder_crash": 1}
    assert manifest["splits"]["train"]["classes"] == {"CAT": 5, "DOG": 5}
    assert manifest["map"]["function"] == "__main__:clean"
    lines = (tmp_path / "out/failures.jsonl").read_text()
    assert "the function of `map` ended its process: SIGABRT" in lines
    assert "the function of `map` did not end within 2 seconds" in lines


@pytest.mark.parametrize(
    ("word", "refusal"),
    [
        ("clean", Refusal("invalid_value", "map", says=["my_steps:clean"])),
        ("no_steps:clean", Refusal("unknown_module", "map", says=["module no_steps", "no_steps.py"])),
        (
            "my_steps:clear",
            Refusal("unknown_function", "map", says=["my_steps.py", "function clear", "same, look, thirds"]),
        ),
        ("broken:clean", Refusal("invalid_module", "map", says=["broken.py", "line 1"])),
        ("types:clean", Refusal("shadowed_module", "map", says=["types.py"])),
    ],
)
def test_functions_that_are_not_there_are_refused(animals, steps, tmp_path, word, refusal):
    (steps / "broken.py").write_text("def clean(:\n")
    (steps / "types.py").write_text("def clean(sample): return sample\n")
    with refuses(refusal):
        beam_tfrecords.build(input=animals, output=tmp_path / "out", map=word)
    assert not (tmp_path / "out").exists()
