"""Settings that cannot act are refused; defaults never are."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from tests.each import each
from tests.identity_inputs import INPUTS, flags_of

# Setting -> a value, the source and more flags with which it cannot act.
IDLE = {
    "mapping": ("labelme", "csv", ("--source=csv",)),
    "save_mapping": ("my.yaml", "csv", ("--source=csv",)),
    "parts": ("a", "csv", ()),
    "label_pattern": ("(?P<label>cat)", "csv", ()),
    "image_column": ("image", "csv", ("--layout=columns-of-label",)),
    "image_path": ("{image}", "csv", ("--layout=columns-of-label",)),
    "label_column": ("label", "csv", ("--layout=image",)),
    "label_columns": ("label", "csv", ("--layout=image",)),
    "label_type": ("text", "image_folder", ()),
    "group_rows": (None, "tar", ()),
    "split_column": ("label", "csv", ("said",)),
    "key_column": ("key", "zip", ()),
    "allow_outside_root": (None, "image_folder", ()),
    "images": ("left={root},right={root}", "image_folder", ()),
    "image_root": ("{root}/elsewhere", "csv", ("absolute",)),
    "mask_root": ("{root}", "csv", ()),
    "mask_column": ("image", "csv", ("--layout=image",)),
    "mask_suffix": ("_mask", "image_folder", ("--layout=image",)),
    "image_suffix": ("_sat", "image_folder", ("--layout=image",)),
    "mask_classes": ("cat=_cat", "image_folder", ("--layout=image",)),
    "pixels": ("float32:0..1", "tfrecord", ()),
    "label_separator": (" ", "csv", ("--layout=image",)),
    "unknown_labels": ("no", "csv", ()),
    "missing_values": ("none", "coco", ()),
    "delimiter": (";", "parquet", ()),
    "encoding": ("cp1252", "parquet", ()),
    "include": ("nowhere", "csv", ()),
    "exclude": ("nowhere", "csv", ()),
    "classes": ("cow", "csv", ()),
    "group_column": ("label", "csv", ()),
    "box_columns": ("a,b,c,d", "tar", ()),
    "box_format": ("xyxy", "csv", ()),
    "box_unit": ("pixels", "csv", ()),
    "run_order": ("rows", "csv", ()),
    "join": ("{root}/t.csv", "tfrecord", ()),
    "join_key": ("id", "tfrecord", ()),
    "class_names": ("cat,dog", "csv", ("--layout=image",)),
    "class_order": ("sorted", "csv", ("--layout=image",)),
    "stratify": (None, "coco", ("--splits=train=0.5,test=0.5",)),
    "map_revision": ("2", "csv", ()),
    "check_map": (None, "csv", ()),
    "near_duplicates": ("4", "parquet", ("--layout=columns",)),
    "max_file_size": ("1MB", "parquet", ("--layout=columns",)),
    "invalid_boxes": ("drop", "csv", ()),
    "mask_padding": ("255", "image_folder", ()),
    "mask_bit_depth": ("16", "csv", ()),
    "mask_colors": ("camvid", "csv", ()),
    "mask_values": ("255:1", "image_folder", ()),
    "array_type": ("uint16", "image_folder", ()),
    "array_axes": ("CHW", "csv", ()),
    "pages": ("bands", "image_folder", ()),
    "window": ("full", "csv", ()),
    "requester_pays": ("my-project", "csv", ()),
    "allow_private_addresses": (None, "csv", ()),
    "allow_damaged_containers": (None, "image_folder", ()),
    "grace": ("2h", "csv", ()),
    "accept": ("count", "csv", ()),
    "min_count_ratio": ("0.1", "csv", ()),
    "max_count_ratio": ("3", "csv", ()),
    "max_failure_rise": ("0.1", "csv", ()),
    "max_share_change": ("0.1", "csv", ()),
    "min_size_ratio": ("0.1", "csv", ()),
    "max_size_ratio": ("3", "csv", ()),
}
# These act on every input, allow something, or their values are checked where they are read.
ALWAYS = {
    "input", "source", "trust_annotations", "duplicates",
    "fingerprint", "splits", "limit", "map", "where",
    "output", "name", "description", "license", "homepage", "citation", "layout", "shard_size", "num_shards",
    "compression", "seed", "overwrite", "max_failures", "image_timeout", "guard", "versioned",
    "keep_versions", "reuse", "image_size", "resize_mode", "resample", "upscale", "orientation", "color_profile",
    "image_encoding", "codec", "jpeg_quality", "channels", "bit_depth", "max_pixels",
    "max_image_memory", "allow_truncated",
}  # fmt: skip


def test_every_setting_declares_what_it_needs():
    page = (Path(__file__).parents[2] / "docs/settings.md").read_text()
    assert {*re.findall(r"^\| `--(\w+)`", page, re.MULTILINE)} == IDLE.keys() | ALWAYS


def _flags(root, source, more):
    (root / "in").mkdir()
    INPUTS[source][0](root / "in", 0)
    flags = flags_of(source, root / "in")
    for word in more:
        if word == "said":
            flags[0] = flags[0].replace("--input=", "--input=train=")
        elif word == "absolute":
            (root / "elsewhere").mkdir()
            _make_absolute(root / "in/table.csv")
        elif word == "--layout=columns-of-label":
            (root / "spec.yaml").write_text("layout: {label: {field: column.label, type: bytes}}\n")
            flags.append(f"--spec={root}/spec.yaml")
        else:
            flags.append(word)
    return flags


def _make_absolute(table):
    rows = list(csv.reader(table.open()))
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([rows[0], *([str(table.parent / row[0]), *row[1:]] for row in rows[1:])])


@each("name", IDLE)
def test_a_setting_that_cannot_act_is_refused(tmp_path, convert, name):
    value, source, more = IDLE[name]
    flags = _flags(tmp_path, source, more)
    flag = (
        f"--{name}"
        if value is None
        else f"--{name}={value.format(root=tmp_path)}"
        if "{root}" in value
        else f"--{name}={value}"
    )
    ran = convert(
        *flags, flag, f"--output={tmp_path}/out", "--allow_outside_root" if "absolute" in more else "--seed=0"
    )
    assert ran.code == 2, ran.err
    assert name in ran.refusal.settings, ran.err
    # The same request without the setting is read.
    kept = ["--allow_outside_root"] if "absolute" in more else []
    ran = convert(*flags, f"--output={tmp_path}/out", *kept, "--dry_run")
    assert ran.code == 0, ran.err


@each("case", [("requester_pays=me", "image_folder"), ("allow_private_addresses", "image_folder"),
               ("label_separator=|", "idx"), ("label_separator=|", "cifar")])  # fmt: skip
def test_a_setting_that_cannot_act_on_other_sources_is_refused(tmp_path, convert, case):
    setting, source = case
    ran = convert(*_flags(tmp_path, source, ()), f"--{setting}", f"--output={tmp_path}/out")
    assert ran.code == 2, ran.err
    assert setting.partition("=")[0] in ran.refusal.settings


@each("source", INPUTS)
def test_defaults_are_never_refused(tmp_path, convert, source):
    flags = _flags(tmp_path, source, ())
    words = ["--max_failures=0.01", "--duplicates=keep", "--dry_run"]
    assert convert(*flags, f"--output={tmp_path}/out", *words).code == 0
