"""`convert` of a dataset of ours: layout, classes, keys, features and index columns come back."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from beam_tfrecords import open_dataset
from beam_tfrecords.features.layouts import NAMED
from beam_tfrecords.features.parse import parse_example
from beam_tfrecords.tfrecord import read_records
from tests.annotated_inputs import PICTURES, coco_of, save_pictures, write_coco
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.corpus_valid import UNDO
from tests.each import each
from tests.identity_inputs import INPUTS, flags_of
from tests.source_forms import FORMS, write_form
from tests.source_forms import flags_of as flags_of_form

# Where a record is, and when and from what it was made.
_PLACES = ("fingerprint", "sample_hash", "offset", "length")
_COMPANIONS = ("features.json", "label_map.pbtxt")


def examples(out: Path) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Split -> key -> the features of its example."""
    dataset = open_dataset(out)
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for split in dataset.splits:
        keys = [row["key"] for row in index_rows(out, split)]
        data = (record for shard in dataset.split_shards(split) for record in read_shard(out / shard.file))
        found[split] = dict(zip(keys, map(parse_example, data), strict=True))
    return found


def read_shard(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    yield from (
        one.data for one in read_records(io.BytesIO(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data))
    )


def index_rows(out: Path, split: str) -> Iterator[dict[str, Any]]:
    for shard in open_dataset(out).split_shards(split):
        yield from pq.read_table(open_dataset(out).path + f"/{shard.index}").to_pylist()


def facts(out: Path) -> dict[str, dict[str, Any]]:
    """Key -> index row, but for where the record is."""
    rows = [row for split in open_dataset(out).splits for row in index_rows(out, split)]
    return {row["key"]: {name: value for name, value in row.items() if name not in _PLACES} for row in rows}


def companions(out: Path) -> dict[str, bytes]:
    names = [*_COMPANIONS, *(path.name for path in out.glob("*.labels.txt"))]
    return {name: (out / name).read_bytes() for name in names if (out / name).exists()}


def check_same(first: Path, second: Path) -> None:
    was, now = examples(first), examples(second)
    assert {split: list(found) for split, found in now.items()} == {split: list(found) for split, found in was.items()}
    for split, found in was.items():
        assert now[split] == found
    assert facts(second) == facts(first)
    assert companions(second) == companions(first)
    same = ("class_names", "records", "objects", "kept_turned", "stored_as_png", "dim_images", "duplicates")
    assert {name: manifest_of(second).get(name) for name in same} == {
        name: manifest_of(first).get(name) for name in same
    }
    image = ("layout", "image_encoding", "channels", "image_size", "resize_mode", "bit_depth", "mask_bit_depth")
    assert {name: manifest_of(second)["spec"][name] for name in image} == {
        name: manifest_of(first)["spec"][name] for name in image
    }


@pytest.mark.nightly
@each("encoding", [(), ("--image_encoding=keep",)])
@each("source", INPUTS)
def test_a_dataset_of_every_source_comes_back(tmp_path, build, verify, source, encoding):
    (tmp_path / "in").mkdir()
    INPUTS[source][0](tmp_path / "in", 0)
    first = build(tmp_path / "first", *flags_of(source, tmp_path / "in"), "--image_size=24", "--name=x")
    second = build(tmp_path / "second", f"--input={first}", "--name=x", *encoding)
    check_same(first, second)
    assert verify(second).code == 0


@pytest.mark.nightly
@each("form", FORMS)
def test_a_dataset_of_every_form_comes_back(tmp_path, build, form):
    write_form(form, tmp_path / "in")
    words = [*flags_of_form(form, tmp_path / "in"), "--image_encoding=keep", "--name=x"]
    first = build(tmp_path / "first", *words)
    check_same(first, build(tmp_path / "second", f"--input={first}", "--name=x"))


def _write_objects(root: Path) -> list[str]:
    save_pictures(root)
    content = coco_of()
    for one in content["annotations"]:
        x, y, width, height = one["bbox"]
        if one["category_id"] == 1:
            one["keypoints"] = [x, y, 2, x + width - 1, y + height - 1, 1, 0, 0, 0]
    path = write_coco(root / "a.json", annotations=content["annotations"])
    return [f"--input={path}", f"--image_root={root}"]


def _write_rows(root: Path) -> list[str]:
    """Images with several labels, captions, numbers and texts."""
    save_pictures(root)
    rows = [
        {
            "image": name,
            "label": [["cat", "dog"], ["dog"], [], ["emu"]][number],
            "captions": [f"{name} {word}" for word in ("one", "two")],
            "score": number / 3,
            "age": 7 * number,
            "note": f"no {number}" if number else "größer",
            "vector": [number / 7, 1e-3, float(number)],
        }
        for number, name in enumerate(PICTURES)
    ]
    (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [f"--input={root / 'rows.jsonl'}"]


def _write_own(root: Path) -> list[str]:
    own = {
        "picture": "image.encoded",
        "k": "key",
        "f": "filename",
        "s": "source_id",
        "channels": "image.channels",
        "form": "image.format",
        "labels": "labels.name",
        "numbers": {"field": "labels.index", "type": "float", "several": True},
        "age": {"field": "column.age", "type": "int64"},
        "note": {"field": "column.note", "type": "bytes"},
        "vector": {"field": "column.vector", "type": "float", "several": True},
    }
    (root / "layout.yaml").write_text(json.dumps({"layout": own}))
    return [*_write_rows(root), f"--spec={root / 'layout.yaml'}"]


def _write_table(root: Path) -> list[str]:
    table = pa.table({"a": [1, 2, 3], "b": [0.5, 0.25, 1e30], "c": ["x", "", "ü"], "d": [[1.0], [], [2.0, 3.0]]})
    pq.write_table(table.drop_columns(["d"]), root / "rows.parquet")
    return [f"--input={root / 'rows.parquet'}"]


def _write_photos(root: Path) -> list[str]:
    write_form("folder", root / "photos")
    return [f"--input={root / 'photos'}"]


def _write_masks(root: Path) -> list[str]:
    write_form("masks", root / "in")
    return flags_of_form("masks", root / "in")


# Of all layouts; the others are of tables and of objects with what they are made of.
_WRITERS = {
    "multilabel": _write_rows,
    "captions": _write_rows,
    "segmentation": _write_masks,
    "columns": _write_table,
    **dict.fromkeys((name for name in NAMED if name.startswith("detection")), _write_objects),
}
LAYOUTS = {
    **{name: (_WRITERS.get(name, _write_photos), [f"--layout={name}"]) for name in (*NAMED, "columns")},
    "tfds_objects": (_write_objects, ["--layout=tfds"]),
    "own": (_write_own, []),
    "float": (_write_rows, ["--label_column=score", "--label_type=float"]),
    "text": (_write_rows, ["--label_column=note", "--label_type=text"]),
    "jpegs_of_16_bit_masks": (_write_masks, ["--mask_bit_depth=16", "--image_size=20x30", "--resize_mode=pad"]),
    "gzip": (_write_photos, ["--compression=gzip", "--image_size=16", "--splits=train=0.5,test=0.5"]),
    "webp": (_write_photos, ["--image_encoding=webp", "--image_size=16", "--channels=4"]),
    "grey_raw": (_write_photos, ["--image_encoding=raw", "--image_size=16", "--resize_mode=crop", "--channels=1"]),
    "png_of_16_bits": (_write_photos, ["--image_encoding=png", "--bit_depth=16", "--image_size=16"]),
}


@pytest.mark.nightly
@pytest.mark.parametrize("encoding", [(), ("--image_encoding=keep",)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_comes_back(tmp_path, build, verify, layout, encoding):
    write, flags = LAYOUTS[layout]
    first = build(tmp_path / "first", *write(tmp_path), *flags, "--name=x", "--max_failures=0.5")
    second = build(tmp_path / "second", f"--input={first}", "--name=x", *encoding)
    check_same(first, second)
    assert verify(second).code == 0


# Several inputs


def contents(out: Path) -> list[tuple[str, str]]:
    """(split, features) of each record, sorted."""
    found = examples(out)
    return sorted((split, repr(features)) for split, records in found.items() for features in records.values())


def without(features: Mapping[str, Any], *texts: str) -> dict[str, Any]:
    left_out = [("bytes", [text.encode()]) for text in texts]
    return {name: value for name, value in features.items() if value not in left_out}


def check_halves(tmp_path: Path, build: Any, words: list[str], whole: Path) -> None:
    """Builds the dataset in two halves and merges them: the records of the whole, in the order of their keys."""
    keys = sorted(facts(whole))
    for name, half in (("a", keys[::2]), ("b", keys[1::2])):
        named = ", ".join("'" + key.replace("'", "''") + "'" for key in half)
        build(tmp_path / name, *words, f"--where=key in ({named})")
    merged = build(tmp_path / "merged", f"--input={tmp_path / 'a'}", f"--input={tmp_path / 'b'}", "--name=x")
    was, now = examples(whole), examples(merged)
    assert now.keys() == was.keys()
    for split, found in now.items():
        for key, features in found.items():
            # The folder of a dataset goes before its keys, also in a layout that has them.
            own = key.partition("/")[2]
            assert without(features, key, own) == without(was[split].pop(own), own)
        assert not was[split]
    assert companions(merged) == companions(whole)
    same = {key.partition("/")[2]: {**row, "key": ""} for key, row in facts(merged).items()}
    assert same == {key: {**row, "key": ""} for key, row in facts(whole).items()}


@pytest.mark.nightly
@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_halves_of_every_layout_give_the_whole(tmp_path, build, layout):
    write, flags = LAYOUTS[layout]
    words = [*write(tmp_path), *flags, "--name=x", "--max_failures=0.5"]
    check_halves(tmp_path, build, words, build(tmp_path / "whole", *words))


@pytest.mark.nightly
@pytest.mark.parametrize("source", INPUTS)
def test_two_halves_of_every_source_give_the_whole(tmp_path, build, source):
    (tmp_path / "in").mkdir()
    INPUTS[source][0](tmp_path / "in", 0)
    words = [*flags_of(source, tmp_path / "in"), "--image_size=24", "--name=x"]
    check_halves(tmp_path, build, words, build(tmp_path / "whole", *words))


@pytest.mark.nightly
@pytest.mark.parametrize("form", FORMS)
def test_two_halves_of_every_form_give_the_whole(tmp_path, build, form):
    write_form(form, tmp_path / "in")
    words = [*flags_of_form(form, tmp_path / "in"), "--image_encoding=keep", "--name=x"]
    check_halves(tmp_path, build, words, build(tmp_path / "whole", *words))


def test_other_class_lists_are_joined_by_name(tmp_path, build):
    write_form("folder", tmp_path / "photos")
    for name, classes in (("a", "rocket,cat"), ("b", "flower,cat")):
        words = ["--image_size=8", "--name=x", f"--classes={classes}", f"--class_names={classes}"]
        build(tmp_path / name, f"--input={tmp_path / 'photos'}", *words)
    inputs = [f"--input={tmp_path / name}" for name in ("a", "b")]
    merged = build(tmp_path / "merged", *inputs, "--name=x")
    # The first list is not in the order of the alphabet: its indices stay.
    assert manifest_of(merged)["class_names"] == ["rocket", "cat", "flower"]
    labels = {key: row["label"] for key, row in facts(merged).items()}
    assert len(labels) == 12
    assert all(key.split("/")[1] == label for key, label in labels.items())


def test_other_layouts_are_refused_and_both_are_named(tmp_path, build, convert):
    write_form("folder", tmp_path / "photos")
    for name in ("tfds", "imagenet"):
        build(tmp_path / name, f"--input={tmp_path / 'photos'}", "--image_size=8", f"--layout={name}")
    words = [f"--input={tmp_path / name}" for name in ("tfds", "imagenet")]
    ran = convert(*words, f"--output={tmp_path / 'out'}")
    ran.refused("layouts_differ", says=["layout tfds", "layout imagenet"])
    assert not (tmp_path / "out").exists()


def test_a_dataset_and_other_records_are_refused(tmp_path, build, convert):
    write_form("tfrecord", tmp_path / "records")
    build(tmp_path / "ours", f"--input={tmp_path / 'records/photos.tfrecord'}", "--image_size=8")
    words = [f"--input={tmp_path / 'ours'}", f"--input={tmp_path / 'records'}"]
    ran = convert(*words, f"--output={tmp_path / 'out'}")
    ran.refused("sources_differ", "input")


def test_other_images_are_merged_as_they_are_stored(tmp_path, build, verify):
    write_form("folder", tmp_path / "photos")
    for size in (8, 16):
        build(tmp_path / f"of_{size}", f"--input={tmp_path / 'photos'}", f"--image_size={size}", "--name=x")
    words = [f"--input={tmp_path / f'of_{size}'}" for size in (8, 16)]
    merged = build(tmp_path / "merged", *words, "--name=x")
    assert manifest_of(merged)["spec"]["image_encoding"] == "keep"
    assert any("store their images differently" in note for note in manifest_of(merged)["notes"])
    images = {record["image"][1][0] for records in examples(merged).values() for record in records.values()}
    parts = [examples(tmp_path / f"of_{size}")["train"] for size in (8, 16)]
    assert images == {record["image"][1][0] for part in parts for record in part.values()}
    assert verify(merged).code == 0


# What the request says otherwise


def test_settings_of_the_request_beat_those_of_the_dataset(tmp_path, build):
    first = build(tmp_path / "first", *_write_photos(tmp_path), "--image_size=32", "--channels=1", "--name=x")
    second = build(tmp_path / "second", f"--input={first}", "--image_size=16", "--layout=imagenet", "--name=x")
    spec = manifest_of(second)["spec"]
    assert (spec["image_size"], spec["channels"]) == ("16x16", 1)
    record = next(iter(examples(second)["train"].values()))
    assert min(record["image/height"][1][0], record["image/width"][1][0]) == 16
    assert record["image/channels"] == ("int64", [1])


@pytest.mark.nightly
@pytest.mark.parametrize("encoding", ["jpeg", "png", "webp", "raw", "keep"])
def test_a_layout_with_more_of_an_image_finds_it_in_what_is_stored(tmp_path, build, encoding):
    words = ["--image_size=16", "--resize_mode=pad", "--name=x"] if encoding == "raw" else ["--name=x"]
    words += [*_write_photos(tmp_path), f"--image_encoding={encoding}"]
    first = build(tmp_path / "first", *words, "--layout=tfds")
    again = build(tmp_path / "again", f"--input={first}", "--layout=imagenet", "--name=x")
    assert contents(again) == contents(build(tmp_path / "imagenet", *words, "--layout=imagenet"))


def test_objects_and_masks_move_with_a_new_size(tmp_path, build):
    words = ["--layout=detection_keypoints", "--name=x", "--image_encoding=png"]
    write = _write_objects(tmp_path)
    first = build(tmp_path / "first", *write, *words)
    again = examples(build(tmp_path / "again", f"--input={first}", "--image_size=20x30", "--resize_mode=exact"))
    once = examples(build(tmp_path / "once", *write, *words, "--image_size=20x30", "--resize_mode=exact"))
    for key, record in once["train"].items():
        for name, (kind, values) in record.items():
            if kind == "float":
                assert again["train"][key][name][1] == pytest.approx(values, abs=1e-5), name
            else:
                assert again["train"][key][name] == (kind, values), name


@pytest.mark.parametrize("orientation", range(1, 9))
def test_objects_of_kept_files_move_with_an_image_that_is_turned_now(tmp_path, build, orientation):
    save_pictures(tmp_path)
    for name in PICTURES:
        exif = Image.Exif()
        exif[0x0112] = orientation
        picture = Image.open(tmp_path / name)
        # Its boxes are those of the upright image.
        picture.transpose(UNDO[orientation]).save(tmp_path / name, exif=exif) if orientation > 1 else None
    path = write_coco(tmp_path / "a.json")
    words = [f"--input={path}", f"--image_root={tmp_path}", "--name=x", "--layout=detection_masks"]
    resized = ["--image_size=40x40", "--resize_mode=exact", "--image_encoding=png"]
    first = build(tmp_path / "first", *words, "--image_encoding=keep")
    again = examples(build(tmp_path / "again", f"--input={first}", *resized))["train"]
    once = examples(build(tmp_path / "once", *words, *resized))["train"]
    for key, record in once.items():
        for name, (kind, values) in record.items():
            if kind == "float":
                assert again[key][name][1] == pytest.approx(values, abs=1e-5), name
            elif "mask" in name:
                # Masks of the first dataset are pixels.
                one, other = (
                    np.array([np.asarray(Image.open(io.BytesIO(one))) for one in found])
                    for found in (values, again[key][name][1])
                )
                assert one.shape == other.shape
                assert one.size == 0 or np.mean(one != other) < 0.05
            else:
                assert again[key][name] == (kind, values), name


def test_settings_that_the_dataset_answers_itself_are_refused(tmp_path, build, convert):
    first = build(tmp_path / "first", *_write_photos(tmp_path), "--image_size=8")
    ran = convert(f"--input={first}", f"--output={tmp_path / 'out'}", "--label_column=label")
    ran.refused("setting_not_applicable", "label_column", "input")


# Versions, and damage


def test_of_versions_the_one_of_latest_is_read(tmp_path, build):
    words = _write_photos(tmp_path)
    for classes in ("cat,rocket", "cat,flower"):
        flags = [f"--classes={classes}", "--versioned", "--image_size=8", "--name=x", "--class_order=sorted"]
        accepted = ["--accept=classes,settings"] if classes == "cat,flower" else []
        build(tmp_path / "versions", *words, *flags, *accepted)
    second = build(tmp_path / "second", f"--input={tmp_path / 'versions'}", "--name=x")
    assert {row["label"] for row in facts(second).values()} == {"cat", "flower"}


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("damage", ["header", "data", "cut", "index"])
def test_damage_is_listed_with_the_keys_of_the_dataset(tmp_path, build, convert, damage, compression):
    first = build(tmp_path / "first", *_write_photos(tmp_path), "--image_size=8", f"--compression={compression}")
    (shard,) = open_dataset(first).shards
    rows = list(index_rows(first, "train"))
    path = first / (shard.index if damage == "index" else shard.file)
    data = path.read_bytes()
    if damage == "index":
        path.write_bytes(data[:-40] + bytes([data[-40] ^ 255]) + data[-39:])
        ran = convert(f"--input={first}", f"--output={tmp_path / 'out'}")
        assert (ran.code, f"corrupt {len(rows)}" in ran.err, "index/" in ran.err) == (3, True, True)
        return
    stream = data if compression == "none" else gzip.decompress(data)
    place = rows[3]["offset"] + (9 if damage == "header" else 40)
    changed = stream[:place] if damage == "cut" else stream[:place] + b"\xff\x00\xff" + stream[place + 3 :]
    path.write_bytes(changed if compression == "none" else gzip.compress(changed))
    ran = convert(f"--input={first}", f"--output={tmp_path / 'out'}", "--max_failures=1")
    lost = len(rows) - 3 if damage == "cut" else 1
    assert ran.code == 0
    failed = [json.loads(line) for line in (tmp_path / "out/failures.jsonl").read_text().splitlines()]
    assert {one["key"] for one in failed} == {row["key"] for row in rows[3 : 3 + lost]}
    assert {one["uri"] for one in failed} == {row["uri"] for row in rows[3 : 3 + lost]}
    assert manifest_of(tmp_path / "out")["records"] == len(rows) - lost


def test_a_shard_that_is_gone_is_refused(tmp_path, build, convert):
    first = build(tmp_path / "first", *_write_photos(tmp_path), "--image_size=8")
    (shard,) = open_dataset(first).shards
    (first / shard.file).unlink()
    ran = convert(f"--input={first}", f"--output={tmp_path / 'out'}")
    ran.refused("damaged_dataset", "input", says=[shard.file])


def test_a_manifest_that_somebody_has_changed_is_refused(tmp_path, build, convert):
    first = build(tmp_path / "first", *_write_photos(tmp_path), "--image_size=8")
    manifest = first / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"cat"', '"dog"'))
    ran = convert(f"--input={first}", f"--output={tmp_path / 'out'}")
    ran.refused("damaged_dataset", "input", says=["manifest.json"])


def test_splits_can_be_named_anew_or_be_other_fractions(tmp_path, build):
    first = build(tmp_path / "first", *_write_photos(tmp_path), "--image_size=8", "--splits=train=0.5,test=0.5")
    renamed = build(tmp_path / "renamed", f"--input={first}", "--splits=train=train,validation=test", "--name=x")
    was, now = open_dataset(first).splits, open_dataset(renamed).splits
    assert now == {"train": was["train"], "validation": was["test"]}
    whole = build(tmp_path / "whole", f"--input={first}", "--splits=train=0.8,test=0.1,extra=0.1", "--name=x")
    assert sum(open_dataset(whole).splits.values()) == sum(was.values())


# A function of the user


STEPS = """\
def same(sample):
    assert sample.image.ndim == 3
    return sample.replace(label="cat" if sample.label == "rocket" else sample.label)


def crop(sample):
    return sample.crop((0, 0, 4, 6))
"""


@pytest.fixture
def steps(tmp_path, monkeypatch) -> Iterator[None]:
    """A module of the user in the current folder."""
    (tmp_path / "own_steps.py").write_text(STEPS)
    monkeypatch.chdir(tmp_path)
    # Where pipelines are run plainly, this process is also the worker.
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    yield
    sys.modules.pop("own_steps", None)


def test_an_image_that_a_function_does_not_touch_is_taken_over(tmp_path, build, steps):
    first = build(tmp_path / "first", *_write_photos(tmp_path), "--image_size=8", "--name=x")
    mapped = build(tmp_path / "mapped", f"--input={first}", "--map=own_steps:same", "--name=x")
    images = [{key: record["image"] for key, record in examples(out)["train"].items()} for out in (first, mapped)]
    assert images[0] == images[1]
    assert "rocket" not in {row["label"] for row in facts(mapped).values()}


def test_an_image_that_a_function_crops_is_converted(tmp_path, build, steps):
    first = build(tmp_path / "first", *_write_photos(tmp_path), "--layout=imagenet", "--name=x")
    mapped = build(tmp_path / "mapped", f"--input={first}", "--map=own_steps:crop", "--name=x")
    records = examples(mapped)["train"].values()
    assert {(record["image/height"][1][0], record["image/width"][1][0]) for record in records} == {(6, 4)}
