"""A dataset of ours is an input: layout, classes, keys, features, index columns and damage come back."""

from __future__ import annotations

import dataclasses
import gzip
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from beam_tfrecords import BuildError, RequestError, Sample, build
from tests.core.images.corpus_valid import UNDO
from tests.every_input import EVERY, SIZES, settings_of, write_input, write_tree
from tests.published import Published, read_failures, read_published
from tests.writers import MEANING, WRITERS, save

# Where a record is, and when and from what it was made.
_PLACES = ("fingerprint", "sample_hash", "offset", "length")
_COMPANIONS = ("features.json", "label_map.pbtxt", "*.labels.txt")
_SAME = ("class_names", "records", "objects", "kept_turned", "stored_as_png", "dim_images", "duplicates")
_SPEC = ("layout", "image_encoding", "channels", "image_size", "resize_mode", "bit_depth", "mask_bit_depth")
Examples = dict[str, dict[str, Mapping[str, list[Any]]]]


def make(output: Path, **settings: Any) -> Published:
    return read_published(build(output=str(output), quiet=True, **{"name": "x", **settings}).path)


def index_rows(made: Published) -> dict[str, dict[str, Any]]:
    """Key -> index row."""
    tables = [pq.read_table(Path(made.path, shard["index"])) for shard in made.manifest["shards"]]
    return {row["key"]: row for table in tables for row in table.to_pylist()}


def facts(made: Published) -> dict[str, dict[str, Any]]:
    """Key -> index row, but for where the record is."""
    rows = index_rows(made).items()
    return {key: {name: value for name, value in row.items() if name not in _PLACES} for key, row in rows}


def examples(made: Published) -> Examples:
    """Split -> key -> values."""
    found: Examples = {}
    for record in made.records:
        found.setdefault(record.split, {})[record.key] = record.values
    return found


def companions(made: Published) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for pattern in _COMPANIONS for path in Path(made.path).glob(pattern)}


@pytest.mark.parametrize("encoding", [{}, pytest.param({"image_encoding": "keep"}, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", EVERY)
def test_a_dataset_of_everything_comes_back(tmp_path, name, encoding):
    first = make(tmp_path / "first", **write_input(name, tmp_path / "in"))
    second = make(tmp_path / "second", input=first.path, **encoding)
    assert second.records == first.records
    assert facts(second) == facts(first)
    assert companions(second) == companions(first)
    for one in _SAME:
        assert second.manifest.get(one) == first.manifest.get(one)
    for one in _SPEC:
        assert second.manifest["spec"][one] == first.manifest["spec"][one]


@pytest.mark.nightly
@pytest.mark.parametrize("name", EVERY)
def test_two_halves_of_everything_give_the_whole(tmp_path, name):
    settings = write_input(name, tmp_path / "in")
    whole = make(tmp_path / "whole", **settings)
    keys = sorted(facts(whole))
    for folder, half in (("a", keys[::2]), ("b", keys[1::2])):
        make(tmp_path / folder, **settings, where=f"key in ({', '.join(map(_quoted, half))})")
    merged = make(tmp_path / "merged", input=[f"{tmp_path}/a", f"{tmp_path}/b"])
    was, now = examples(whole), examples(merged)
    assert now.keys() == was.keys()
    for split, found in now.items():
        for key, values in found.items():
            # The folder of a dataset goes before its keys, also in a layout that has them.
            own = key.partition("/")[2]
            assert _without(values, key, own) == _without(was[split].pop(own), own)
        assert not was[split]
    assert companions(merged) == companions(whole)
    same = {key.partition("/")[2]: {**row, "key": ""} for key, row in facts(merged).items()}
    assert same == {key: {**row, "key": ""} for key, row in facts(whole).items()}


def _quoted(key: str) -> str:
    return "'" + key.replace("'", "''") + "'"


def _without(values: Mapping[str, list[Any]], *texts: str) -> dict[str, list[Any]]:
    left_out = [[text.encode()] for text in texts]
    return {name: found for name, found in values.items() if found not in left_out}


# Several datasets


def folders(root: Path, **settings: Any) -> dict[str, Any]:
    """Images in folders of three classes."""
    root.mkdir(exist_ok=True)
    *others, last = MEANING.items
    items = [*others, dataclasses.replace(last, label="emu")]
    return {**WRITERS["class_folders"].write(root, dataclasses.replace(MEANING, items=items)), **settings}


def refused(code: str, output: Path, **settings: Any) -> str:
    with pytest.raises(RequestError) as found:
        make(output, **settings)
    assert found.value.code == code
    assert not output.exists()
    return found.value.message


def test_other_class_lists_are_joined_by_name(tmp_path):
    for name, classes in (("a", "emu,cat"), ("b", "dog,cat")):
        make(tmp_path / name, **folders(tmp_path / "in", class_names=classes, classes=classes))
    merged = make(tmp_path / "merged", input=[f"{tmp_path}/a", f"{tmp_path}/b"])
    # The first list is not in the order of the alphabet: its indices stay.
    assert merged.manifest["class_names"] == ["emu", "cat", "dog"]
    assert all(key.split("/")[1] == row["label"] for key, row in facts(merged).items())


def test_other_layouts_and_records_are_refused_and_both_are_named(tmp_path):
    for name in ("tfds", "imagenet"):
        make(tmp_path / name, **folders(tmp_path / "in", layout=name))
    (tmp_path / "records").mkdir()
    records = WRITERS["tfrecord"].write(tmp_path / "records", MEANING)["input"]
    inputs, output = [f"{tmp_path}/tfds", f"{tmp_path}/imagenet"], tmp_path / "out"
    found = refused("layouts_differ", output, input=inputs)
    assert "layout tfds" in found
    assert "layout imagenet" in found
    refused("sources_differ", output, input=[inputs[0], records])


def test_other_images_are_merged_as_they_are_stored(tmp_path):
    parts = [make(tmp_path / f"{size}", **folders(tmp_path / "in", image_size=size)) for size in (8, 12)]
    merged = make(tmp_path / "merged", input=[one.path for one in parts])
    assert merged.manifest["spec"]["image_encoding"] == "keep"
    assert any("store their images differently" in note for note in merged.manifest["notes"])
    stored = [{record.values["image"][0] for record in one.records} for one in (merged, *parts)]
    assert stored[0] == stored[1] | stored[2]


# Images


@pytest.mark.nightly
@pytest.mark.parametrize("encoding", ["jpeg", "png", "webp", "raw", "keep"])
def test_a_layout_with_more_of_an_image_finds_it_in_what_is_stored(tmp_path, encoding):
    resized = {"image_size": 16, "resize_mode": "pad"} if encoding == "raw" else {}
    settings = folders(tmp_path / "in", image_encoding=encoding, **resized)
    first = make(tmp_path / "first", **settings, layout="tfds")
    again = make(tmp_path / "again", input=first.path, layout="imagenet")
    assert again.records == make(tmp_path / "imagenet", **settings, layout="imagenet").records


@pytest.mark.parametrize("orientation", range(1, 9))
def test_objects_of_kept_files_move_with_an_image_that_is_turned_now(tmp_path, orientation):
    write_tree(tmp_path)
    for name in SIZES if orientation > 1 else ():
        exif, path = Image.Exif(), tmp_path / "images" / name
        exif[0x0112] = orientation
        # Its boxes are those of the upright image.
        Image.open(path).transpose(UNDO[orientation]).save(path, exif=exif)
    settings = settings_of("detection_masks", tmp_path)
    unsized = {name: value for name, value in settings.items() if name not in ("image_size", "resize_mode")}
    resized = {"image_size": (40, 40), "resize_mode": "exact", "image_encoding": "png"}
    first = make(tmp_path / "first", **{**unsized, "image_encoding": "keep"})
    again = make(tmp_path / "again", input=first.path, **resized)
    for one, other in zip(again.records, make(tmp_path / "once", **{**unsized, **resized}).records, strict=True):
        for name, values in other.values.items():
            if values and isinstance(values[0], float):
                assert one.values[name] == pytest.approx(values, abs=1e-5), name
            elif "mask" in name:
                # Masks of the first dataset are pixels.
                for pair in zip(values, one.values[name], strict=True):
                    pixels = [np.asarray(Image.open(io.BytesIO(data))) for data in pair]
                    assert np.mean(pixels[0] != pixels[1]) < 0.05
            else:
                assert one.values[name] == values, name


def same(sample: Sample) -> Sample:
    assert sample.image.ndim == 3
    return sample.replace(label="cat")


def crop(sample: Sample) -> Sample:
    return sample.crop((0, 0, 4, 6))


def test_an_image_is_taken_over_unless_a_function_changes_it(tmp_path):
    first = make(tmp_path / "first", **folders(tmp_path / "in", layout="imagenet"))
    mapped, cropped = (make(tmp_path / one.__name__, input=first.path, map=one) for one in (same, crop))
    stored = [{one.key: one.values["image/encoded"] for one in made.records} for made in (first, mapped)]
    assert stored[0] == stored[1]
    assert {row["label"] for row in facts(mapped).values()} == {"cat"}
    assert {(row["height"], row["width"]) for row in facts(cropped).values()} == {(6, 4)}


# Versions, and damage


def test_of_versions_the_one_of_latest_is_read(tmp_path):
    for chosen in ("class_folders", "mask_folder"):
        (tmp_path / chosen).mkdir()
        settings = WRITERS[chosen].write(tmp_path / chosen, MEANING)
        make(tmp_path / "versions", **settings, versioned=True, guard="off")
    assert "mask" in make(tmp_path / "second", input=f"{tmp_path}/versions").manifest["spec"]["layout"]


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("damage", ["header", "data", "cut", "index"])
def test_damage_is_listed_with_the_keys_of_the_dataset(tmp_path, damage, compression):
    first = make(tmp_path / "first", **folders(tmp_path / "in", compression=compression))
    (shard,) = first.manifest["shards"]
    rows, output = [*index_rows(first).values()], tmp_path / "out"
    path = Path(first.path, shard["index" if damage == "index" else "file"])
    data = path.read_bytes()
    if damage == "index":
        path.write_bytes(data[:-40] + bytes([data[-40] ^ 255]) + data[-39:])
        with pytest.raises(BuildError, match=f"{len(rows)} of {len(rows)} samples failed"):
            make(output, input=first.path)
        assert all(why.startswith("corrupt: ") and "index/" in why for why in read_failures(output).values())
        return
    stream = data if compression == "none" else gzip.decompress(data)
    place = rows[3]["offset"] + (9 if damage == "header" else 40)
    changed = stream[:place] if damage == "cut" else stream[:place] + b"\xff\x00\xff" + stream[place + 3 :]
    path.write_bytes(changed if compression == "none" else gzip.compress(changed))
    lost = rows[3:] if damage == "cut" else rows[3:4]
    again = make(output, input=first.path, max_failures=1)
    assert again.failures.keys() == {row["key"] for row in lost}
    assert len(again.records) == len(rows) - len(lost)


def test_a_shard_that_is_gone_and_a_changed_manifest_are_refused(tmp_path):
    first, output = make(tmp_path / "first", **folders(tmp_path / "in")), tmp_path / "out"
    shard = next(iter(first.shards))
    Path(first.path, shard).unlink()
    assert shard in refused("damaged_dataset", output, input=first.path)
    save(Path(first.path, shard), first.shards[shard])
    manifest = Path(first.path, "manifest.json")
    manifest.write_text(manifest.read_text().replace('"cat"', '"cow"'))
    assert "manifest.json" in refused("damaged_dataset", output, input=first.path)
