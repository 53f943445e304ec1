"""Wrong requests: exit code 2, one line on standard error that names the setting at fault, nothing written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS
from tests.progress_lines import without_progress
from tests.refusals import Refusal

SPECS = {
    "typo.yaml": "input: {root}/photos\noutput: {root}/out\nimage_sise: 32\n",
    "no_yaml.yaml": "input: [photos\noutput: out\n",
    "binary.yaml": "\x00\x01\x02",
    "list.yaml": "- input\n- output\n",
    "empty.yaml": "",
    "upscale.yaml": "upscale: maybe\n",
    "bad_field.yaml": "layout: {image: image.encodet, label: label.index}\n",
    "bad_type.yaml": "layout: {count: {field: column.count, type: int}}\n",
    "label_as_bytes.yaml": "layout: {label: {field: label.index, type: bytes}}\n",
    "bad_word.yaml": "layout: {image: {field: image.encoded, tipe: bytes}}\n",
    "no_features.yaml": "layout: {}\n",
    "no_column.yaml": "layout: {count: {field: column.weight, type: int64}}\n",
    "folder_column.yaml": "layout: {image: image.encoded, count: {field: column.count, type: int64}}\n",
    "only_image.yaml": "layout: {image: image.encoded}\n",
    "pixels.yaml": "layout: {image: image.pixels, label: label.index}\n",
    "splits.yaml": "splits: {train: 0.5, test: 0.4}\n",
    "splits_list.yaml": "splits: [train, test]\n",
    "dash_dash.yaml": "--input: photos\n",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory, picture, save, build) -> Path:
    root = tmp_path_factory.mktemp("world")
    for name in ("cat", "dog"):
        for number in range(3):
            save(root / "photos" / name / f"{name}{number}.jpg", picture(number, 40, 30))
            save(root / "flat" / f"{name}{number}.jpg", picture(number, 40, 30))
    (root / "nothing").mkdir()
    (root / "texts").mkdir()
    (root / "texts/notes.txt").write_text("no image")
    rows = "".join(
        f"photos/{name}/{name}{number}.jpg,{name},{number}\n" for name in ("cat", "dog") for number in (0, 1)
    )
    (root / "rows.csv").write_text("path,species,count\n" + rows)
    (root / "table.csv").write_text("count,weight\n1,2.5\n2,3.5\n")
    (root / "twice.csv").write_text("image,image,label\na.jpg,b.jpg,cat\n")
    (root / "headless.csv").write_text("")
    (root / "header_only.csv").write_text("image,label\n")
    for name, text in SPECS.items():
        (root / name).write_text(text.replace("{root}", str(root)))
    build(root / "finished", f"--input={root}/photos")
    return root


# What is added to `--input=photos --output=out`, or takes its place, the code, and what the line must name.
WRONG = {
    # input that does not exist
    "input does not exist": (["--input={root}/nowhere"], "not_found", ["--input", "nowhere"]),
    "input is a text file": (["--input={root}/texts/notes.txt"], "unknown_format", ["--input", "notes.txt"]),
    "glob without folder": (["--input={root}/nowhere/*.jpg"], "not_found", ["--input", "nowhere"]),
    "glob that matches nothing": (["--input={root}/photos/*/*.png"], "no_samples", ["--input", "*.png", "no image"]),
    "empty input": (["--input="], "missing_setting", ["--input"]),
    "input of an unknown scheme": (["--input=nowhere://bucket/photos"], "unreadable_input", ["--input", "nowhere://"]),
    # input without samples
    "no file at all": (["--input={root}/nothing"], "no_samples", ["--input", "nothing", "no image"]),
    "no image among the files": (["--input={root}/texts"], "no_samples", ["--input", "no image", "notes.txt"]),
    "table without rows": (["--input={root}/header_only.csv"], "no_samples", ["--input", "header_only.csv", "no row"]),
    # output
    "finished output": (["--output={root}/finished"], "output_exists", ["--output", "finished", "--overwrite"]),
    "output is a file": (["--output={root}/rows.csv"], "not_a_folder", ["--output", "rows.csv", "file"]),
    "output inside input": (
        ["--output={root}/photos/out"],
        "overlapping_folders",
        ["--output", "photos/out", "--input"],
    ),
    "output is the input": (["--output={root}/photos"], "overlapping_folders", ["--output", "--input"]),
    "output inside input through ..": (
        ["--output={root}/nothing/../photos/out"],
        "overlapping_folders",
        ["--output", "--input"],
    ),
    "output below a file": (["--output={root}/rows.csv/out"], "output_not_writable", ["--output", "rows.csv"]),
    "empty output": (["--output="], "invalid_value", ["--output"]),
    "output of an unknown scheme": (
        ["--output=nowhere://bucket/out"],
        "output_unreachable",
        ["--output", "nowhere://"],
    ),
    # flags
    "unknown flag": (["--image_sise=32"], "unknown_setting", ["--image_sise", "--image_size"]),
    "abbreviated flag": (["--image_si=32"], "unknown_setting", ["--image_si", "--image_size"]),
    "unknown flag of Beam": (
        ["--direct_num_wrokers=2"],
        "unknown_setting",
        ["--direct_num_wrokers", "--direct_num_workers"],
    ),
    "flag unlike any other": (["--qqqq=2"], "unknown_setting", ["--qqqq"]),
    "word without dashes": (["photos"], "unexpected_argument", ["photos"]),
    "flag without value": (["--image_size"], "invalid_command_line", ["--image_size"]),
    "wrong value of a flag of Beam": (["--direct_num_workers=many"], "invalid_value", ["--direct_num_workers", "many"]),
    "unknown runner": (["--runner=FlickRunner"], "invalid_value", ["--runner", "FlickRunner"]),
    # classes
    "class of a folder that is not named": (["--class_names=cat"], "unknown_class", ["--class_names", "dog"]),
    "class named twice": (["--class_names=cat,dog,cat"], "invalid_value", ["--class_names", "cat"]),
    "class without a name": (["--class_names=cat,,dog"], "invalid_value", ["--class_names"]),
    "file of class names that does not exist": (
        ["--class_names=names.txt"],
        "invalid_value",
        ["--class_names", "names.txt"],
    ),
    # splits
    "fractions above 1": (["--splits=train=0.9,test=0.2"], "invalid_value", ["--splits", "1.1"]),
    "fractions below 1": (["--splits=train=0.7,test=0.2"], "invalid_value", ["--splits", "0.9"]),
    "fractions in the spec": (["--spec={root}/splits.yaml"], "invalid_value", ["splits", "0.9"]),
    "negative fraction": (["--splits=train=1.5,test=-0.5"], "invalid_value", ["--splits", "-0.5"]),
    "fractions mixed with folders": (["--splits=train=0.9,test=dog"], "invalid_value", ["--splits", "dog"]),
    "split folder that does not exist": (
        ["--splits=train=cat,test=horse"],
        "unknown_split",
        ["--splits", "horse", "dog"],
    ),
    "split without a value": (["--splits=train"], "invalid_value", ["--splits", "train"]),
    "split named twice": (["--splits=train=0.5,train=0.5"], "invalid_value", ["--splits", "train"]),
    "name of a split that TFDS does not accept": (
        ["--splits=Train=0.5,test=0.5"],
        "invalid_value",
        ["--splits", "Train"],
    ),
    "splits as a list": (["--spec={root}/splits_list.yaml"], "invalid_value", ["splits", "train"]),
    # labels
    "pattern without a group": (["--label_pattern=cat|dog"], "missing_group", ["--label_pattern", "cat|dog", "label"]),
    "pattern with another group": (["--label_pattern=(?P<class>cat)"], "missing_group", ["--label_pattern", "label"]),
    "pattern that matches nothing": (
        ["--label_pattern=(?P<label>horse)"],
        "unmatched_label_pattern",
        ["--label_pattern", "horse"],
    ),
    "pattern that is not a regular expression": (
        ["--label_pattern=(?P<label>cat"],
        "invalid_value",
        ["--label_pattern", "(?P<label>cat"],
    ),
    "pattern with image_folder": (
        ["--label_pattern=(?P<label>cat)", "--source=image_folder"],
        "setting_not_applicable",
        ["--label_pattern", "image_folder"],
    ),
    "flat folder": (["--input={root}/flat"], "no_class_folders", ["--input", "flat", "--label_pattern"]),
    # columns
    "image column": (
        ["--input={root}/rows.csv", "--image_column=picture", "--label_column=species"],
        "unknown_column",
        ["--image_column", "picture", "path", "species", "count"],
    ),
    "label column": (
        ["--input={root}/rows.csv", "--image_column=path", "--label_column=kind"],
        "unknown_column",
        ["--label_column", "kind", "path", "species", "count"],
    ),
    "split column": (
        ["--input={root}/rows.csv", "--image_column=path", "--label_column=species", "--split_column=part"],
        "unknown_column",
        ["--split_column", "part", "path", "species", "count"],
    ),
    "key column": (
        ["--input={root}/rows.csv", "--image_column=path", "--label_column=species", "--key_column=id"],
        "unknown_column",
        ["--key_column", "id", "path", "species", "count"],
    ),
    "column of the layout": (
        ["--input={root}/rows.csv", "--spec={root}/no_column.yaml"],
        "unknown_column",
        ["layout", "weight", "path", "species", "count"],
    ),
    "table without a label column": (
        ["--input={root}/rows.csv", "--image_column=path"],
        "missing_label_column",
        ["label", "--label_column", "path", "species", "count"],
    ),
    "column without a table": (["--label_column=species"], "setting_not_applicable", ["--label_column"]),
    "column of the layout without a table": (
        ["--spec={root}/folder_column.yaml"],
        "missing_content",
        ["layout", "count"],
    ),
    "table without types": (
        ["--input={root}/table.csv"],
        "missing_image_column",
        ["--input", "count", "weight", "type"],
    ),
    "table where the layout has images": (
        ["--input={root}/table.csv", "--spec={root}/only_image.yaml"],
        "missing_image_column",
        ["--image_column", "count", "weight"],
    ),
    "column twice in the header": (
        ["--input={root}/twice.csv"],
        "duplicate_column",
        ["--input", "twice.csv", "'image'"],
    ),
    "table without a header": (["--input={root}/headless.csv"], "empty_file", ["--input", "headless.csv"]),
    # sizes and numbers
    "shard size that is a word": (["--shard_size=big"], "invalid_value", ["--shard_size", "big"]),
    "shard size with an unknown unit": (["--shard_size=150XB"], "invalid_value", ["--shard_size", "150XB"]),
    "shard size of nothing": (["--shard_size=0"], "invalid_value", ["--shard_size", "0"]),
    "negative shard size": (["--shard_size=-1MB"], "invalid_value", ["--shard_size", "-1MB"]),
    "more shards than samples": (["--num_shards=7"], "too_few_samples", ["--num_shards", "7", "6"]),
    "no shards": (["--num_shards=0"], "invalid_value", ["--num_shards", "0"]),
    "one and a half shards": (["--num_shards=1.5"], "invalid_value", ["--num_shards", "1.5"]),
    **{
        f"image size {size}": ([f"--image_size={size}"], "invalid_value", ["--image_size", size])
        for size in ("0", "-5", "small", "224x", "x224", "1x2x3", "32.5", "0x32", "999999999")
    },
    "quality 0": (["--jpeg_quality=0"], "invalid_value", ["--jpeg_quality", "0"]),
    "quality 101": (["--jpeg_quality=101"], "invalid_value", ["--jpeg_quality", "101"]),
    "quality that is a word": (["--jpeg_quality=high"], "invalid_value", ["--jpeg_quality", "high"]),
    "two channels": (["--channels=2"], "invalid_value", ["--channels", "2"]),
    "seed that is a word": (["--seed=lucky"], "invalid_value", ["--seed", "lucky"]),
    "share of failures above 1": (["--max_failures=1.5"], "invalid_value", ["--max_failures", "1.5"]),
    "negative share of failures": (["--max_failures=-1"], "invalid_value", ["--max_failures", "-1"]),
    "share of failures that is a word": (["--max_failures=some"], "invalid_value", ["--max_failures", "some"]),
    "share of failures that is not a number": (["--max_failures=nan"], "invalid_value", ["--max_failures", "nan"]),
    # choices
    **{
        f"unknown {flag}": ([f"--{flag}=best"], code, [f"--{flag}", "best", *known])
        for flag, (code, *known) in {
            "resize_mode": ["invalid_value", "shorter", "longer", "exact", "pad", "crop"],
            "resample": ["invalid_value", "bicubic", "bilinear", "lanczos", "box", "nearest"],
            "image_encoding": ["invalid_value", "jpeg", "png", "webp", "raw", "keep"],
            "codec": ["invalid_value", "fast", "exact"],
            "layout": ["unknown_layout", "tfds", "imagenet", "tutorial", "raw"],
            "compression": ["invalid_value", "none", "gzip"],
            "source": ["unknown_source", "auto", "coco", "csv", "tfrecord", "yolo"],
            "orientation": ["invalid_value", "apply", "ignore"],
            "color_profile": ["invalid_value", "apply", "ignore"],
            "duplicates": ["invalid_value", "keep", "drop", "fail"],
        }.items()
    },
    "source of annotations that needs a file": (["--source=coco"], "not_a_file", ["--source", "coco"]),
    "source that needs a file": (["--source=csv"], "not_a_file", ["--source", "csv", "photos"]),
    "name that TFDS does not accept": (["--name=My Photos"], "invalid_value", ["--name", "My Photos"]),
    # contradictions
    "JPEG with transparency": (["--channels=4"], "conflicting_settings", ["--channels", "4"]),
    "16 bits without PNG": (["--bit_depth=16"], "conflicting_settings", ["--bit_depth=16", "--image_encoding=png"]),
    "12 bits": (["--bit_depth=12"], "invalid_value", ["--bit_depth=12", "8 or 16"]),
    "WebP in grey": (["--channels=1", "--image_encoding=webp"], "conflicting_settings", ["--channels", "1"]),
    "pixels that are not raw": (
        ["--spec={root}/pixels.yaml", "--image_encoding=jpeg"],
        "conflicting_settings",
        ["--image_encoding", "jpeg", "image.pixels"],
    ),
    # spec files
    "spec that does not exist": (["--spec={root}/none.yaml"], "unreadable_spec", ["--spec", "none.yaml"]),
    "spec that is a folder": (["--spec={root}/photos"], "unreadable_spec", ["--spec", "photos"]),
    "unknown key in the spec": (
        ["--spec={root}/typo.yaml"],
        "unknown_setting",
        ["--spec", "typo.yaml", "image_sise", "image_size"],
    ),
    "key with dashes in the spec": (["--spec={root}/dash_dash.yaml"], "unknown_setting", ["--spec", "--input"]),
    "spec that is not YAML": (["--spec={root}/no_yaml.yaml"], "invalid_spec", ["--spec", "no_yaml.yaml", "YAML"]),
    "spec that is not text": (["--spec={root}/binary.yaml"], "invalid_spec", ["--spec", "binary.yaml"]),
    "spec that is a list": (["--spec={root}/list.yaml"], "invalid_spec", ["--spec", "list.yaml", "mapping"]),
    "empty spec": (["--spec={root}/empty.yaml"], "invalid_spec", ["--spec", "empty.yaml"]),
    "no pixels": (["--max_pixels=0"], "invalid_value", ["--max_pixels", "0"]),
    "file size that is a word": (["--max_file_size=big"], "invalid_value", ["--max_file_size", "big"]),
    "timeout that is a word": (["--image_timeout=soon"], "invalid_value", ["--image_timeout", "soon"]),
    "switch that is neither true nor false": (["--spec={root}/upscale.yaml"], "invalid_value", ["upscale", "maybe"]),
    "unknown field": (["--spec={root}/bad_field.yaml"], "unknown_field", ["layout", "image.encodet", "image.encoded"]),
    "unknown type": (
        ["--input={root}/rows.csv", "--spec={root}/bad_type.yaml"],
        "unknown_type",
        ["layout", "'count'", "'int'", "int64"],
    ),
    "type that a field cannot have": (
        ["--spec={root}/label_as_bytes.yaml"],
        "type_does_not_fit",
        ["layout", "label", "bytes"],
    ),
    "unknown word in a feature": (["--spec={root}/bad_word.yaml"], "invalid_layout", ["layout", "'image'", "tipe"]),
    "layout without features": (["--spec={root}/no_features.yaml"], "invalid_layout", ["layout"]),
}


@pytest.mark.parametrize(("words", "code", "named"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_request_is_refused_in_one_line(
    words, code, named, world, run, snapshot, temporary_folder, monkeypatch
):
    monkeypatch.chdir(world)
    before = snapshot(world)
    given = [word.format(root=world) if word.startswith("--") else word for word in words]
    taken = {word.split("=")[0] for word in given}
    usual = {"--input": f"{world}/photos", "--output": f"{world}/out"}
    defaults = [f"{flag}={value}" for flag, value in usual.items() if flag not in taken]
    ran = run("convert", *defaults, *given)
    assert ran.out == ""
    ran.refused(code, *ran.refusal.settings)
    # Commands to choose from follow, if there are any.
    assert [line for line in ran.err.splitlines() if not line.startswith("  ")] == ran.err.splitlines()[:1]
    assert ran.err.startswith("beam-tfrecords: ")
    missing = [word for word in named if word not in ran.err]
    assert not missing, ran.err
    assert snapshot(world) == before
    assert snapshot(temporary_folder) == {"./": b""}


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["convert"], Refusal("missing_setting", "input")),
        (["convert", "--input=photos"], Refusal("missing_setting", "output")),
        (["convert", "--output=out"], Refusal("missing_setting", "input")),
        (["konvert"], Refusal("unknown_command", says=["'konvert'", "'convert'?"])),
        (["build"], Refusal("unknown_command", says=["'build'", "'convert'?"])),
        (["convrt"], Refusal("unknown_command", says=["'convrt'", "'convert'?"])),
        (["qqqq"], Refusal("unknown_command", says=["'qqqq'", "convert, demo, verify, inspect"])),
        (["verify"], Refusal("invalid_command_line", says=["--dataset"])),
        (["verify", "--dataset=nowhere"], Refusal("no_dataset", "output", says=["nowhere"])),
        (["verify", "--dataset=photos"], Refusal("no_dataset", "output", says=["photos"])),
        (["verify", "--dataset=finished", "--findings=few"], Refusal("invalid_command_line", says=["--findings"])),
        (["verify", "--dataset=finished", "--quick"], Refusal("unknown_setting", "quick")),
        (["inspect"], Refusal("invalid_command_line", says=["--dataset"])),
        (["inspect", "--dataset=nowhere"], Refusal("no_dataset", "output", says=["nowhere"])),
        (["inspect", "--dataset=finished", "--split=test"], Refusal("unknown_split", says=["'test'", "train"])),
        (["inspect", "--dataset=finished", "--quick"], Refusal("unknown_setting", "quick")),
        (["inspect", "--dataset=finished", "--examples=-1"], Refusal("invalid_command_line", says=["--examples"])),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else repr(value),
)
def test_every_command_refuses_wrong_arguments_in_one_line(words, refusal, world, run, snapshot, monkeypatch):
    monkeypatch.chdir(world)
    before = snapshot(world)
    ran = run(*words)
    ran.refused(refusal)
    assert (ran.out, ran.err.count("\n")) == ("", 1)
    assert snapshot(world) == before


def test_without_a_command_the_known_ones_are_shown(run):
    ran = run()
    assert ran.code == 2
    assert all(command in ran.out + ran.err for command in ("convert", "verify", "inspect"))


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["--image_sise=32"], id="unknown flag"),
        pytest.param(["--output={root}/finished"], id="finished output", marks=pytest.mark.nightly),
    ],
)
def test_the_program_refuses_a_wrong_request_in_one_line(words, world, snapshot):
    before = snapshot(world)
    flags = [f"--input={world}/photos", f"--output={world}/out", *(word.format(root=world) for word in words)]
    command = [BEAM_TFRECORDS, "convert", *flags]
    ran = subprocess.run(command, cwd=world, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, without_progress(ran.stderr).count("\n")) == (2, "", 1)
    assert words[0].split("=")[0] in ran.stderr
    assert snapshot(world) == before
