"""`--duplicates`: images that occur more than once are found, above all those in two splits, and dropped on request."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

SPLITS = ("test", "train")
FLAGS = ["--name=pets", "--image_size=16", "--codec=exact"]
# Key -> seed of its picture; equal seeds make equal bytes.
PETS = {
    f"train/{label}/{number}.png": (label == "dog") * 20 + number for label in ("cat", "dog") for number in range(20)
}
PETS |= {f"test/cat/{number}.png": 100 + number for number in range(8)}
COPIES = {
    "test/cat/leaked.png": 3,  # of train/cat/3.png
    "train/dog/mistaken.png": 5,  # of train/cat/5.png
    "train/cat/again.png": 7,  # of train/cat/7.png
    "train/cat/once_more.png": 7,
}

NIGHTLY = ["--name=pets", "--image_size=16", "--accept=all", "--no_report"]


def manifest_of(path: Path) -> dict:
    return json.loads((path / "manifest.json").read_text())


def groups_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in (path / "duplicates.jsonl").read_text().splitlines()]


def shards_of(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.glob("*.tfrecord-*")}


def keys_of(path: Path, read) -> dict[str, list[str]]:
    return {split: [record.key for record in read(path, split)] for split in SPLITS}


@pytest.fixture(scope="module")
def make_pets(tmp_path_factory, picture, save):
    def make(keys: dict[str, int]) -> Path:
        root = tmp_path_factory.mktemp("pets") / "pets"
        for key, seed in keys.items():
            save(root / key, picture(seed, 20, 24))
        return root

    return make


@pytest.fixture(scope="module")
def pets(make_pets) -> Path:
    """Pictures of which one is in both splits, one has two labels, and one occurs three times."""
    return make_pets(PETS | COPIES)


@pytest.fixture(scope="module")
def unique(make_pets) -> Path:
    return make_pets(PETS)


@pytest.fixture(scope="module")
def kept(pets, build) -> Path:
    return build(pets.parent / "kept", f"--input={pets}", *FLAGS)


@pytest.fixture(scope="module")
def dropped(pets, build) -> Path:
    return build(pets.parent / "dropped", f"--input={pets}", *FLAGS, "--duplicates=drop")


def test_groups_are_listed_those_across_splits_first(kept, pets):
    leaked, *others = groups_of(kept)
    assert leaked == {
        "content_hash": leaked["content_hash"],
        "copies": 2,
        "splits": {"test": 1, "train": 1},
        "across_splits": True,
        "conflicting_labels": False,
        "kept": None,
        "images": [
            {"key": key, "uri": f"{pets.name}/{key}", "split": key.split("/")[0], "label": "cat"}
            for key in ("test/cat/leaked.png", "train/cat/3.png")
        ],
    }
    others.sort(key=lambda group: group["copies"])
    assert [(group["copies"], group["splits"], group["across_splits"]) for group in others] == [
        (2, {"train": 2}, False),
        (3, {"train": 3}, False),
    ]
    assert [group["conflicting_labels"] for group in others] == [True, False]


def test_the_manifest_counts_duplicates_and_by_default_all_copies_stay(kept, read):
    manifest = manifest_of(kept)
    assert manifest["duplicates"] == {
        "groups": 3,
        "images": 7,
        "groups_across_splits": 1,
        "groups_with_conflicting_labels": 1,
    }
    assert manifest["spec"]["duplicates"] == "keep"
    assert (manifest["records"], manifest["dropped_duplicates"]) == (52, 0)
    assert Counter(key for keys in keys_of(kept, read).values() for key in keys) == Counter([*PETS, *COPIES])


def test_the_summary_shows_leaks_first(pets, convert, tmp_path):
    ran = convert(f"--input={pets}", f"--output={tmp_path / 'out'}", *FLAGS)
    assert "leaks: images in more than one split: 1\n" in ran.out
    assert "duplicates: images that occur more than once: 3, copies: 7, with different labels: 1\n" in ran.out
    assert ran.out.index("leaks") < ran.out.index("duplicates")


def test_drop_keeps_the_copy_of_the_evaluation_split_and_otherwise_the_first_in_order(dropped, kept, read):
    before, after = keys_of(kept, read), keys_of(dropped, read)
    assert after["test"] == before["test"]
    copies = [{"train/cat/5.png", "train/dog/mistaken.png"}]
    copies.append({"train/cat/7.png", "train/cat/again.png", "train/cat/once_more.png"})
    first = {next(key for key in before["train"] if key in few) for few in copies}
    gone = {"train/cat/3.png"}.union(*copies) - first
    assert after["train"] == [key for key in before["train"] if key not in gone]
    assert {group["kept"] for group in groups_of(dropped)} == first | {"test/cat/leaked.png"}
    assert all(group["kept"] == group["images"][0]["key"] for group in groups_of(dropped))


@pytest.mark.any_workers
def test_dropped_copies_are_counted_per_split_and_in_no_class(dropped, kept, read, verify):
    manifest = manifest_of(dropped)
    train, test = manifest["splits"]["train"], manifest["splits"]["test"]
    assert (train["listed"], train["records"], train["dropped_duplicates"]) == (43, 39, 4)
    assert (test["listed"], test["records"], test["dropped_duplicates"]) == (9, 9, 0)
    assert (manifest["listed"], manifest["records"], manifest["dropped_duplicates"]) == (52, 48, 4)
    assert manifest["duplicates"] == manifest_of(kept)["duplicates"]
    labels = Counter(record.row["label"] for record in read(dropped, "train"))
    assert train["classes"] == dict(labels)
    assert verify(dropped).code == 0


@pytest.mark.any_workers
def test_dropping_gives_the_bytes_of_a_build_without_the_copies(dropped, read, build, make_pets):
    stay = {key for keys in keys_of(dropped, read).values() for key in keys}
    seeds = PETS | COPIES
    root = make_pets({key: seeds[key] for key in stay})
    assert shards_of(build(root.parent / "out", f"--input={root}", *FLAGS)) == shards_of(dropped)


def test_without_duplicates_drop_and_fail_change_no_byte(unique, build):
    flags = {mode: [f"--input={unique}", *FLAGS, f"--duplicates={mode}"] for mode in ("keep", "drop", "fail")}
    outputs = {mode: build(unique.parent / mode, *words) for mode, words in flags.items()}
    shards = [shards_of(output) for output in outputs.values()]
    assert shards[0] == shards[1] == shards[2]
    assert all((output / "duplicates.jsonl").read_bytes() == b"" for output in outputs.values())
    assert set(manifest_of(outputs["keep"])["duplicates"].values()) == {0}


@pytest.mark.nightly
@pytest.mark.parametrize("processes", [1, 2])
def test_any_number_of_worker_processes_writes_the_same_files(dropped, pets, run, snapshot, tmp_path, processes):
    words = [f"--input={pets}", f"--output={tmp_path / 'out'}", *FLAGS, "--duplicates=drop"]
    ran = run("convert", *words, f"--direct_num_workers={processes}")
    assert ran.code == 0, ran.err
    # The manifest names the output, and `_SUCCESS` has the manifest's hash.
    different = ("manifest.json", "_SUCCESS")
    assert snapshot(tmp_path / "out", without=different) == snapshot(dropped, without=different)


@pytest.mark.nightly
@pytest.mark.any_workers
def test_the_same_records_are_dropped_from_gzip_shards(dropped, pets, build, read, verify, tmp_path):
    output = build(tmp_path / "gzip", f"--input={pets}", *FLAGS, "--duplicates=drop", "--compression=gzip")
    assert keys_of(output, read) == keys_of(dropped, read)
    for split in SPLITS:
        assert [one.values for one in read(output, split)] == [one.values for one in read(dropped, split)]
    assert verify(output).code == 0


@pytest.mark.any_workers
def test_fail_publishes_nothing_lists_the_duplicates_and_exits_with_3(pets, convert, tmp_path, snapshot):
    ran = convert(f"--input={pets}", f"--output={tmp_path / 'out'}", *FLAGS, "--duplicates=fail")
    assert ran.code == 3
    assert "--duplicates=fail" in ran.err
    assert "leaks: images in more than one split: 1" in ran.err
    assert str(tmp_path / "out/duplicates.jsonl") in ran.err
    assert "max_failures" not in ran.err
    assert len(groups_of(tmp_path / "out")) == 3
    left = set(snapshot(tmp_path / "out", without=[".build"]))
    assert left == {"./", "duplicates.jsonl", "failures.jsonl"}


def test_after_fail_the_same_build_with_drop_converts_nothing_again(pets, dropped, convert, build, tmp_path):
    out = tmp_path / "out"
    convert(f"--input={pets}", f"--output={out}", *FLAGS, "--duplicates=fail")
    checkpoints = {path: path.stat().st_mtime_ns for path in out.glob(".build/*/blocks/*.json")}
    assert checkpoints
    ran = convert(f"--input={pets}", f"--output={out}", *FLAGS, "--duplicates=fail")
    assert ran.code == 3
    assert {path: path.stat().st_mtime_ns for path in out.glob(".build/*/blocks/*.json")} == checkpoints
    assert shards_of(build(out, f"--input={pets}", *FLAGS, "--duplicates=drop")) == shards_of(dropped)
    assert not (out / ".build").exists()


def test_fail_leaves_a_finished_dataset_as_it_is(unique, pets, build, convert, snapshot, tmp_path):
    out = build(tmp_path / "out", f"--input={unique}", *FLAGS)
    before = snapshot(out)
    ran = convert(f"--input={pets}", f"--output={out}", *FLAGS, "--duplicates=fail", "--overwrite")
    assert ran.code == 3
    assert snapshot(out, without=[".build"]) == before
    (listed,) = out.glob(".build/*/duplicates.jsonl")
    assert str(listed) in ran.err
    assert len(listed.read_text().splitlines()) == 3


def test_overwriting_replaces_the_list(pets, unique, build, tmp_path):
    out = build(tmp_path / "out", f"--input={pets}", *FLAGS)
    assert len(groups_of(out)) == 3
    build(out, f"--input={unique}", *FLAGS, "--overwrite")
    assert groups_of(out) == []


def test_a_split_of_copies_alone_is_left_empty(make_pets, build, verify, tmp_path):
    root = make_pets({"test/cat/1.png": 1, "train/cat/1.png": 1, "train/cat/2.png": 1, "validation/cat/3.png": 3})
    out = build(tmp_path / "out", f"--input={root}", *FLAGS, "--duplicates=drop", "--class_names=cat")
    train = manifest_of(out)["splits"]["train"]
    assert (train["listed"], train["records"], train["dropped_duplicates"], train["shards"]) == (2, 0, 2, 0)
    assert train["classes"] == {}
    assert verify(out).code == 0


def test_a_fixed_number_of_shards_stays_when_copies_go(make_pets, build, read, verify, tmp_path):
    root = make_pets({"test/cat/1.png": 1} | {f"train/cat/{number}.png": 1 + number // 3 for number in range(4)})
    flags = [*FLAGS, "--duplicates=drop", "--splits=auto", "--num_shards=1", "--class_names=cat"]
    out = build(tmp_path / "out", f"--input={root}", *flags)
    assert {split: len(keys) for split, keys in keys_of(out, read).items()} == {"test": 1, "train": 1}
    assert verify(out).code == 0


def test_one_file_listed_for_two_splits_is_a_leak_under_one_key(make_pets, build, read, tmp_path):
    root = make_pets({"1.png": 1, "2.png": 2})
    with (root / "list.csv").open("w", newline="") as file:
        rows = [["image", "label", "split"], ["1.png", "cat", "train"], ["1.png", "cat", "test"]]
        csv.writer(file).writerows([*rows, ["2.png", "dog", "train"]])
    out = build(tmp_path / "out", f"--input={root / 'list.csv'}", *FLAGS, "--duplicates=drop")
    (group,) = groups_of(out)
    assert [(image["key"], image["split"]) for image in group["images"]] == [("1.png", "test"), ("1.png", "train")]
    assert keys_of(out, read) == {"test": ["1.png"], "train": ["2.png"]}


def test_rejected_images_are_not_duplicates(make_pets, build, tmp_path):
    root = make_pets({"cat/1.png": 1})
    for name in ("2.png", "3.png"):
        (root / "cat" / name).write_bytes(b"the same, and not an image")
    flags = [*FLAGS, "--duplicates=fail", "--max_failures=0.9", "--class_names=cat"]
    out = build(tmp_path / "out", f"--input={root}", *flags)
    assert (manifest_of(out)["failures"], groups_of(out)) == (2, [])


def test_rows_of_a_table_without_images_are_not_duplicates(build, tmp_path):
    spec = {
        "input": str(tmp_path / "table.csv"),
        "layout": {"number": {"field": "column.number", "type": "int64"}},
        "duplicates": "fail",
    }
    (tmp_path / "table.csv").write_text("number\n" + "7\n" * 50)
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    out = build(tmp_path / "out", f"--spec={tmp_path / 'spec.yaml'}")
    assert (manifest_of(out)["records"], groups_of(out)) == (50, [])


def test_several_labels_in_another_order_make_no_conflict(make_pets, build, tmp_path):
    root = make_pets({"1.png": 1, "2.png": 1, "3.png": 3, "4.png": 3})
    labels = {"1.png": ["cat", "dog"], "2.png": ["dog", "cat"], "3.png": ["cat"], "4.png": ["dog"]}
    lines = [json.dumps({"image": name, "label": names}) for name, names in labels.items()]
    (root / "list.jsonl").write_text("\n".join(lines))
    layout = {"image": "image.encoded", "labels": "labels.index"}
    (tmp_path / "spec.yaml").write_text(json.dumps({"input": str(root / "list.jsonl"), "layout": layout}))
    out = build(tmp_path / "out", f"--spec={tmp_path / 'spec.yaml'}", *FLAGS, "--duplicates=drop")
    groups = {tuple(sorted(image["key"] for image in group["images"])): group for group in groups_of(out)}
    assert groups["1.png", "2.png"]["conflicting_labels"] is False
    assert groups["3.png", "4.png"]["conflicting_labels"] is True
    classes = manifest_of(out)["splits"]["train"]["classes"]
    assert (classes.pop("cat", 0) + classes.pop("dog", 0), classes) == (3, {})


def test_verify_finds_a_list_of_duplicates_that_lost_a_line(kept, verify, tmp_path):
    copy = tmp_path / "copy"
    copy.symlink_to(kept)
    whole = (kept / "duplicates.jsonl").read_text()
    (kept / "duplicates.jsonl").write_text("".join(whole.splitlines(keepends=True)[1:]))
    try:
        ran = verify(copy)
    finally:
        (kept / "duplicates.jsonl").write_text(whole)
    assert ran.code == 1
    assert "duplicates.jsonl: has been changed since it was published" in ran.out


def test_dropped_copies_are_in_no_count(tmp_path, build):
    """What is counted of the images, as their sizes and formats, is what the dataset holds."""
    source = tmp_path / "in/cat"
    source.mkdir(parents=True)
    for number in range(5):
        Image.new("RGB", (90, 90), "red").save(source / f"same{number}.webp", lossless=True)
    Image.new("RGB", (8, 8), "blue").save(source / "small.png")
    Image.new("RGB", (8, 8), "green").save(source / "other.png")
    flags = ["--image_encoding=keep", "--duplicates=drop", "--layout=image"]
    out = build(tmp_path / "out", f"--input={tmp_path / 'in'}", *flags)
    manifest = json.loads((out / "manifest.json").read_text())
    assert (manifest["records"], manifest["dropped_duplicates"]) == (3, 4)
    assert manifest["stored_as_png"] == {"webp": 1}
    assert manifest["median_pixels"] == 64


def test_copies_that_the_version_before_dropped_are_not_counted_as_added(tmp_path, convert, picture, save):
    for number in range(12):
        save(tmp_path / f"in/cat/{number:02d}.png", picture(max(4, number), 20, 20))

    def count() -> dict[str, int]:
        flags = ["--versioned", "--duplicates=drop", "--layout=image"]
        ran = convert(f"--input={tmp_path}/in", f"--output={tmp_path}/out", *flags, *NIGHTLY)
        assert ran.code == 0, ran.err
        latest = tmp_path / "out" / (tmp_path / "out/LATEST").read_text().strip()
        changes = json.loads((latest / "changes.json").read_text()).get("changes", {})
        return {kind: found["samples"] for kind, found in changes.items() if found["samples"]}

    count()
    for night in (1, 2):
        save(tmp_path / f"in/cat/new-{night}.png", picture(100 + night, 20, 20))
        assert count() == {"copied": 7 + night, "dropped": 4, "added": 1}
