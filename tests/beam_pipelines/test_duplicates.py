"""`--duplicates` and `--near_duplicates`: copies are found, above all those in two splits, and dropped on request."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.annotated_inputs import Picture, save_pictures, write_coco
from tests.beam_pipelines.dataset_checks import manifest_of, shards_of
from tests.image_checks import PHOTOS, upright
from tests.image_writers import png_file
from tests.trees import write_tree

FLAGS = ["--name=pets", "--codec=exact"]
# These say what listing and reading found, and not what is written; and the name of a copy may be longer.
OF_THE_INPUT = {
    *("listed", "dropped_duplicates", "merged_rows", "duplicates", "near_duplicates", "source_bytes", "reuse", "notes"),
    *("spec", "files", "sizes", "shards", "input_fingerprint", "skipped", "ledger"),
}


def groups_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "duplicates.jsonl").read_text().splitlines()]


def keys_of(path: Path, read) -> dict[str, list[str]]:
    return {split: [record.key for record in read(path, split)] for split in manifest_of(path)["splits"]}


def facts_of(path: Path) -> dict[str, Any]:
    """Returns what the manifest says of a dataset, whatever copies were in its input."""
    manifest = manifest_of(path)
    splits = {
        name: {key: value for key, value in one.items() if key not in (*OF_THE_INPUT, "bytes")}
        for name, one in manifest["splits"].items()
    }
    return {**{name: value for name, value in manifest.items() if name not in OF_THE_INPUT}, "splits": splits}


def draw(seed: int) -> dict[str, int]:
    """Returns key -> number of the picture: two splits and labels, with copies in the same and in others."""
    chance, pictures = random.Random(seed), {}
    for number in range(chance.randrange(12, 40)):
        split = chance.choice(("train", "train", "test"))
        pictures[f"{split}/{chance.choice(('cat', 'dog'))}/{number}.png"] = chance.randrange(30)
    return {**pictures, **{f"{split}/{label}/x.png": 99 for split in ("train", "test") for label in ("cat", "dog")}}


def write(root: Path, pictures: Mapping[str, int]) -> Path:
    return write_tree(root, files={key: f"scene 16x16 {number}" for key, number in pictures.items()})


def expected_groups(pictures: Mapping[str, int]) -> list[tuple[Any, ...]]:
    """Returns copies, splits, and whether splits and labels differ, of each picture that is there more than once."""
    keys = defaultdict(list)
    for key, number in pictures.items():
        keys[number].append(key)
    groups = []
    for some in keys.values():
        splits = Counter(key.split("/")[0] for key in some)
        labels = {key.split("/")[1] for key in some}
        groups += [(len(some), dict(splits), len(splits) > 1, len(labels) > 1, sorted(some))] if some[1:] else []
    return groups


@pytest.mark.any_workers
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(3, 20))])
def test_groups_are_those_of_equal_pictures_and_dropping_is_a_build_without_the_copies(
    seed, tmp_path, build, read, verify
):
    pictures = draw(seed)
    root = write(tmp_path / "in", pictures)
    kept = build(tmp_path / "kept", f"--input={root}", *FLAGS)
    found = groups_of(kept)
    expected = expected_groups(pictures)
    names = ("copies", "splits", "across_splits", "conflicting_labels")
    shown = [(*(one[name] for name in names), sorted(image["key"] for image in one["images"])) for one in found]
    assert sorted(shown, key=lambda one: one[-1]) == sorted(expected, key=lambda one: one[-1])
    assert [one["across_splits"] for one in found] == sorted((one[2] for one in expected), reverse=True)
    for image in (image for one in found for image in one["images"]):
        split, label, _ = image["key"].split("/")
        assert image == {"key": image["key"], "uri": f"in/{image['key']}", "split": split, "label": label}
    counts = {
        "groups": len(expected),
        "images": sum(one[0] for one in expected),
        "groups_across_splits": sum(one[2] for one in expected),
        "groups_with_conflicting_labels": sum(one[3] for one in expected),
    }
    assert manifest_of(kept)["duplicates"] == counts
    assert {one["kept"] for one in found} == {None}
    # The copy of the evaluation split stays, and otherwise the first in order.
    before = keys_of(kept, read)
    order = {key: (split == "train", number) for split, keys in before.items() for number, key in enumerate(keys)}
    stay = {min(one[4], key=order.__getitem__) for one in expected}
    gone = {key for one in expected for key in one[4]} - stay
    dropped = build(tmp_path / "dropped", f"--input={root}", *FLAGS, "--duplicates=drop")
    assert keys_of(dropped, read) == {split: [key for key in keys if key not in gone] for split, keys in before.items()}
    found = groups_of(dropped)
    assert {one["kept"] for one in found} == {one["images"][0]["key"] for one in found} == stay
    manifest = manifest_of(dropped)
    assert manifest["duplicates"] == counts
    assert (manifest["listed"], manifest["dropped_duplicates"]) == (len(pictures), len(gone))
    for split, entry in manifest["splits"].items():
        assert entry["dropped_duplicates"] == sum(key.startswith(split) for key in gone)
        assert entry["listed"] == len(before[split])
    assert verify(dropped).code == 0
    alone = write(tmp_path / "alone/in", {key: number for key, number in pictures.items() if key not in gone})
    scratch = build(tmp_path / "scratch", f"--input={alone}", *FLAGS)
    assert shards_of(scratch) == shards_of(dropped)
    assert facts_of(scratch) == facts_of(dropped)
    for mode in ("keep", "fail"):
        same = build(tmp_path / mode, f"--input={alone}", *FLAGS, f"--duplicates={mode}")
        assert shards_of(same) == shards_of(scratch)
        assert groups_of(same) == []


def write_odd(folder: Path, picture, save) -> None:
    """Writes pictures of which something is counted: turned ones, other formats, and dark ones of 16 bits."""
    (folder / "dog").mkdir(parents=True)
    exif = Image.Exif()
    exif[0x0112] = 6
    for number in range(2):
        save(folder / f"cat/turned{number}.jpg", picture(number, 90, 50), exif=exif)
        save(folder / f"cat/other{number}.tiff", picture(number + 9, 30, 20))
        (folder / f"dog/deep{number}.png").write_bytes(png_file(np.full((20, 30, 3), 4095 - 20 * number, np.uint16)))


@pytest.mark.parametrize("flags", [(), ("--image_encoding=keep",)])
def test_what_is_counted_is_that_of_a_build_without_the_copies(tmp_path, picture, save, build, flags):
    write_odd(tmp_path / "in", picture, save)
    without = facts_of(build(tmp_path / "without", f"--input={tmp_path / 'in'}", *FLAGS[:1], *flags))
    for path in list(tmp_path.glob("in/*/*")):
        for number in range(2):
            shutil.copy(path, path.with_name(f"copy{number}-{path.name}"))
    assert (without["dim_images"]["images"], without["kept_turned"]) == (2, 2 if flags else 0)
    dropped = build(tmp_path / "dropped", f"--input={tmp_path / 'in'}", *FLAGS[:1], *flags, "--duplicates=drop")
    assert manifest_of(dropped)["dropped_duplicates"] == 12
    assert facts_of(dropped) == without


def test_objects_are_those_of_a_build_without_the_copies(tmp_path, build):
    boxes = [("cat", (-5, 0, 30, 20)), ("dog", (1, 1, 1, 9)), ("dog", (5, 5, 9, 9))]
    for count in (1, 3):
        folder = tmp_path / str(count)
        pictures = {f"{number}.jpg": Picture(40, 60, boxes) for number in range(count)}
        save_pictures(folder, pictures)
        for number in range(count):
            (folder / f"{number}.jpg").write_bytes((folder / "0.jpg").read_bytes())
        coco = write_coco(folder / "instances.json", pictures)
        flags = [f"--input={coco}", f"--image_root={folder}", "--invalid_boxes=drop", "--name=pets"]
        build(tmp_path / f"out{count}", *flags, "--duplicates=drop")
    assert manifest_of(tmp_path / "out3")["dropped_duplicates"] == 2
    assert facts_of(tmp_path / "out3") == facts_of(tmp_path / "out1")


@pytest.mark.nightly
@pytest.mark.local_runner
@pytest.mark.parametrize("flags", [["--direct_num_workers=1"], ["--direct_num_workers=2"], ["--compression=gzip"]])
def test_any_workers_and_gzip_shards_drop_the_same(tmp_path, build, read, verify, flags):
    root = write(tmp_path / "in", draw(0))
    words = [f"--input={root}", *FLAGS, "--duplicates=drop"]
    one, other = build(tmp_path / "one", *words), build(tmp_path / "other", *words, *flags)
    for split in ("train", "test"):
        assert [(a.key, a.values) for a in read(one, split)] == [(b.key, b.values) for b in read(other, split)]
    assert groups_of(one) == groups_of(other)
    assert verify(other).code == 0


@pytest.mark.any_workers
def test_fail_publishes_nothing_and_lists_the_duplicates(tmp_path, convert, snapshot):
    pictures, out = draw(1), tmp_path / "out"
    words = [f"--input={write(tmp_path / 'in', pictures)}", f"--output={out}", *FLAGS]
    found = []
    for _ in range(2):  # the second converts nothing again
        ran = convert(*words, "--duplicates=fail")
        assert ran.code == 3
        said = ("--duplicates=fail", "leaks: images in more than one split: ", f"{out}/duplicates.jsonl")
        assert [one for one in said if one not in ran.err] == []
        assert "max_failures" not in ran.err
        assert len(groups_of(out)) == len(expected_groups(pictures))
        assert set(snapshot(out, without=[".build"])) == {"./", "duplicates.jsonl", "failures.jsonl"}
        found.append({path: path.stat().st_mtime_ns for path in out.glob(".build/*/blocks/*.json")})
    assert found[0] == found[1] != {}
    assert convert(*words, "--duplicates=drop").code == 0
    assert not (out / ".build").exists()
    # A finished dataset stays as it is; its list is replaced with it.
    before = snapshot(out)
    ran = convert(*words, "--duplicates=fail", "--overwrite")
    assert (ran.code, snapshot(out, without=[".build"])) == (3, before)
    (listed,) = out.glob(".build/*/duplicates.jsonl")
    assert str(listed) in ran.err
    shutil.rmtree(tmp_path / "in")
    write(tmp_path / "in", {"train/cat/1.png": 1, "train/dog/2.png": 2})
    assert convert(*words, "--overwrite").code == 0
    assert groups_of(out) == []


def test_a_split_of_copies_alone_is_left_empty_and_few_records_keep_their_shards(tmp_path, build, read, verify):
    root = write(tmp_path / "in", {"test/cat/1.png": 1, "train/cat/1.png": 1, "train/cat/2.png": 1, "val/cat/3.png": 3})
    words = [f"--input={root}", *FLAGS, "--duplicates=drop", "--class_names=cat", "--num_shards=1"]
    out = build(tmp_path / "out", *words)
    train = manifest_of(out)["splits"]["train"]
    assert (train["listed"], train["records"], train["dropped_duplicates"], train["shards"]) == (2, 0, 2, 0)
    assert (train["classes"], verify(out).code) == ({}, 0)
    write(root, {f"train/cat/{number}.png": 10 + number // 3 for number in range(4)})
    out = build(tmp_path / "more", *words)
    assert {split: len(keys) for split, keys in keys_of(out, read).items()} == {"test": 1, "train": 2, "validation": 1}
    assert {one["split"]: one["of"] for one in manifest_of(out)["shards"]} == dict.fromkeys(
        ["test", "train", "validation"], 1
    )


# Table, settings, groups (keys, whether labels conflict), and the number of records that are left.
ROWS = {
    "one file in two splits": (
        [{"image": "1.png", "label": "cat", "split": "train"}, {"image": "1.png", "label": "cat", "split": "test"}],
        ["--class_names=cat", "--duplicates=drop"],
        [(["1.png", "1.png"], False)],
        1,
    ),
    "labels in another order": (
        [{"image": "1.png", "label": ["cat", "dog"]}, {"image": "same.png", "label": ["dog", "cat"]}],
        ["--layout=multilabel", "--duplicates=drop"],
        [(["1.png", "same.png"], False)],
        1,
    ),
    "other labels": (
        [{"image": "1.png", "label": ["cat"]}, {"image": "same.png", "label": ["cat", "dog"]}],
        ["--layout=multilabel", "--duplicates=drop"],
        [(["1.png", "same.png"], True)],
        1,
    ),
    "files that are no images": (
        [{"image": name, "label": "cat"} for name in ("1.png", "a.png", "b.png")],
        ["--max_failures=0.9", "--class_names=cat", "--duplicates=fail"],
        [],
        1,
    ),
    "rows without images": ([{"number": 7}] * 50, ["--layout=columns", "--duplicates=fail"], [], 50),
}


@pytest.mark.parametrize("name", ROWS)
def test_copies_of_a_table(name, tmp_path, build):
    rows, flags, groups, left = ROWS[name]
    table = "t.parquet" if "--layout=columns" in flags else "t.jsonl"
    files = {"1.png": "red 8x8", "same.png": "red 8x8", "a.png": "broken", "b.png": "broken", table: rows}
    root = write_tree(tmp_path / "in", files=files)
    out = build(tmp_path / "out", f"--input={root / table}", "--name=x", *flags)
    found = [(sorted(one["key"] for one in group["images"]), group["conflicting_labels"]) for group in groups_of(out)]
    assert (found, manifest_of(out)["records"]) == (groups, left)


# Near-duplicates.


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    """Photos in `train`, and copies of every third in `test`: encoded again, smaller or cut, one of another class."""
    root = tmp_path_factory.mktemp("near") / "photos"
    for number, path in enumerate(PHOTOS):
        whole = upright(path).convert("RGB")
        width, height = whole.size
        smaller = whole.resize((width * 3 // 4, height * 3 // 4), Image.Resampling.LANCZOS)
        cut = whole.crop((width // 200, height // 200, width - width // 200, height - height // 200))
        for split, image in (("train", whole), ("test", smaller if number % 2 else cut))[: 1 if number % 3 else 2]:
            name = "other" if split == "test" and number == 0 else path.parent.name
            (root / split / name).mkdir(parents=True, exist_ok=True)
            image.save(root / split / name / f"{number}.jpg", quality=95 if split == "train" else 70)
    return root


NEAR = ["--image_size=64", "--name=photos", "--near_duplicates=4"]
PLANTED = [f"{number}.jpg" for number in range(0, len(PHOTOS), 3)]


@pytest.mark.any_workers
def test_copies_of_real_photos_are_listed_and_only_listed(photos, tmp_path, convert, build, verify, run):
    near, plain = tmp_path / "near", build(tmp_path / "plain", f"--input={photos}", *NEAR[:2])
    ran = convert(f"--input={photos}", f"--output={near}", *NEAR)
    counts = {"groups": len(PLANTED), "groups_across_splits": len(PLANTED), "groups_with_conflicting_labels": 1}
    said = (
        f"near-duplicates: groups: {len(PLANTED)}, in more than one split: {len(PLANTED)}, with different labels: 1\n"
    )
    assert said in ran.out
    groups = groups_of(near)
    pairs = [sorted(image["key"].rsplit("/")[-1] for image in group["images"]) for group in groups]
    assert sorted(pairs) == sorted([name, name] for name in PLANTED)
    assert all(group["kind"] == "near" and group["across_splits"] for group in groups)
    (conflicting,) = [group for group in groups if group["conflicting_labels"]]
    assert {image["label"] for image in conflicting["images"]} == {"other", PHOTOS[0].parent.name}
    manifest = manifest_of(near)
    assert (manifest["near_duplicates"], manifest["duplicates"]["groups"]) == (counts, 0)
    assert shards_of(plain) == shards_of(near)
    assert (groups_of(plain), manifest_of(plain)["near_duplicates"], verify(near).code) == ([], {}, 0)
    assert run("report", near).code == 0
    page = (near / "report.html").read_text()
    assert "None: no two files have the same bytes." in page
    assert f"{len(PLANTED)} groups of images look nearly the same, {len(PLANTED)} of them in more than one" in page
    assert page.count("<td>2 near</td>") == page.count("<h3>Nearly the same, in several splits") == len(PLANTED)
    # Each beside its copy, and no picture of images that occur once.
    assert page.split('id="duplicates"')[1].split("<h2")[0].count("<img ") == 2 * len(PLANTED)


@pytest.mark.parametrize("flag", ["--duplicates=drop", "--compression=gzip"])
def test_a_dropped_copy_is_near_to_nothing(build, tmp_path, flag):
    data = PHOTOS[0].read_bytes()
    root = write_tree(tmp_path / "in", files={"train/cat/same.jpg": "red 8x8", "test/cat/same.jpg": "red 8x8"})
    for split in ("train", "test"):
        (root / split / "cat/same.jpg").write_bytes(data)
    upright(PHOTOS[0]).convert("RGB").save(root / "train/cat/again.jpg", quality=80)
    same, again = groups_of(build(tmp_path / "out", f"--input={root}", *NEAR, flag, "--class_names=cat"))
    assert (same["copies"], "kind" in same) == (2, False)
    assert {image["key"].split("/")[-1] for image in again["images"]} == {"same.jpg", "again.jpg"}
    assert again["copies"] == (2 if "drop" in flag else 3)


def test_kept_files_have_no_hash_and_the_summary_says_so(photos, convert, tmp_path):
    words = [f"--input={photos / 'test'}", f"--output={tmp_path / 'out'}", "--image_encoding=keep"]
    ran = convert(*words, "--near_duplicates=4")
    count = manifest_of(tmp_path / "out")["records"]
    assert manifest_of(tmp_path / "out")["near_duplicates"] == {"not_hashed": count}
    assert f"no `phash` in the index and were not searched for near-duplicates: {count};" in ran.out


def test_records_that_are_taken_over_keep_their_hashes_and_new_leaks_trip_a_guard(source_of):
    source = source_of(60)
    flags = ["--near_duplicates=4", "--splits=train=0.5,test=0.5", "--max_count_ratio=9", "--max_share_change=1"]
    assert source.build(*flags).code == 0
    for number in range(12):
        (path,) = source.folder.rglob(f"{number:03d}.png")
        Image.open(path).save(path.with_stem(f"copy{number}"), compress_level=1)
    ran = source.build(*flags)
    assert ran.code == 3
    (line,) = [line for line in ran.err.splitlines() if "guard splits" in line]
    assert "guard splits: near-duplicates in several splits: " in line
    assert line.endswith("; before: 0; allowed: no more")
    assert source.build(*flags, "--accept=splits").code == 0
    manifest = manifest_of(source.output / source.latest)
    assert (manifest["reuse"]["converted"], manifest["near_duplicates"]["groups"]) == (12, 12)
    # With another distance there is nothing to compare it with.
    ran = source.build("--near_duplicates=3", *flags[1:])
    assert ran.code == 0, ran.err
    assert "near-duplicates in several splits" not in {one["what"] for one in source.changes["guards"]}
