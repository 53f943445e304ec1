"""`convert`: the split, shard and place of a sample, from fractions, folders or a table."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter

from PIL import Image

from tests.beam_pipelines.dataset_checks import FLAGS, manifest_of, splits_of
from tests.framing import records_of


def test_another_seed_gives_another_order_of_the_same_records(pets, tmp_path, build, read):
    flags = [f"--input={pets}", "--image_size=16", "--image_encoding=webp"]
    orders = [
        [
            (record.key, record.values)
            for record in read(build(tmp_path / f"seed{seed}", *flags, f"--seed={seed}"), "train")
        ]
        for seed in (0, 1)
    ]
    assert orders[0] != orders[1]
    assert sorted(orders[0], key=str) == sorted(orders[1], key=str)


def test_moving_the_root_and_adding_images_moves_no_image_to_another_split(out, pets, tmp_path, build, picture, save):
    moved = tmp_path / "elsewhere/renamed"
    shutil.copytree(pets, moved)
    for number in range(60):
        save(moved / "bird" / f"bird{number}.png", picture(9000 + number, 20, 20))
    before, after = splits_of(out), splits_of(build(tmp_path / "out", f"--input={moved}", *FLAGS))
    assert {key: after[key] for key in before} == before
    assert len(after) == len(before) + 60


def test_fractions_cut_the_samples_into_splits_of_their_size(tmp_path, build):
    (tmp_path / "rows.csv").write_text("number\n" + "".join(f"{number}\n" for number in range(4000)))
    (tmp_path / "spec.yaml").write_text("layout: {number: {field: column.number, type: int64}}")
    fractions = {"train": 0.8, "validation": 0.15, "test": 0.05}
    words = ",".join(f"{split}={fraction}" for split, fraction in fractions.items())
    flags = [f"--input={tmp_path / 'rows.csv'}", f"--spec={tmp_path / 'spec.yaml'}", f"--splits={words}"]
    splits = splits_of(build(tmp_path / "out", *flags))
    assert len(splits) == 4000
    counts = Counter(splits.values())
    for split, fraction in fractions.items():
        # Four standard deviations of a binomial distribution.
        assert abs(counts[split] - 4000 * fraction) < 4 * (4000 * fraction * (1 - fraction)) ** 0.5


def test_folders_with_names_of_splits_are_the_splits(pets, tmp_path, build):
    for folder in ("train", "val", "test"):
        shutil.copytree(pets / "cat", tmp_path / "in" / folder / "cat")
        shutil.copytree(pets / "dog", tmp_path / "in" / folder / "dog")
    manifest = manifest_of(build(tmp_path / "out", f"--input={tmp_path / 'in'}", "--image_size=16"))
    assert {name: entry["records"] for name, entry in manifest["splits"].items()} == {
        "train": 80,
        "validation": 80,
        "test": 80,
    }
    assert manifest["class_names"] == ["cat", "dog"]


def test_a_train_folder_of_other_classes_than_the_other_splits_is_refused(tmp_path, convert, picture, save):
    for folder in ("train/cat", "validation/dog", "test/dog"):
        save(tmp_path / "in" / folder / "1.png", picture(1, 8, 8))
    flags = [f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", "--image_size=8"]
    ran = convert(*flags)
    ran.refused("classes_differ_by_split", "input")
    splits = "--splits=test=test,train=train,validation=validation"
    assert splits in ran.err
    assert convert(*flags, splits).code == 0


def test_a_table_gives_labels_splits_keys_and_columns(pets, tmp_path, build, read):
    rows = [
        ("one", "pets/cat/cat01.png", "cat", "train", "3", "first, quoted"),
        ("two", "pets/dog/dog03.png", "dog", "train", "-4", 'a "second"'),
        ("drei ü", "pets/cat/cat09.png", "cat", "test", "5", "Grüße"),
    ]
    shutil.copytree(pets, tmp_path / "pets")
    # As Excel writes it: with a byte order mark.
    with open(tmp_path / "rows.csv", "w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file).writerows([("id", "path", "species", "part", "age", "note"), *rows])
    spec = {
        "input": str(tmp_path / "rows.csv"),
        "image_column": "path",
        "label_column": "species",
        "split_column": "part",
        "key_column": "id",
        "class_names": ["dog", "cat"],
        "layout": {
            "label": "label.index",
            "text": "label.name",
            "age": {"field": "column.age", "type": "int64"},
            "note": {"field": "column.note", "type": "bytes"},
            "height": "image.height",
            "key": "key",
        },
    }
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    built = build(tmp_path / "out", f"--spec={tmp_path / 'spec.json'}")
    found = {(split, record.key): record.values for split in ("train", "test") for record in read(built, split)}
    assert found == {
        (part, key): {
            "label": [["dog", "cat"].index(species)],
            "text": [species.encode()],
            "age": [int(age)],
            "note": [note.encode()],
            "height": [Image.open(tmp_path / path).height],
            "key": [key.encode()],
        }
        for key, path, species, part, age, note in rows
    }


def test_every_shard_is_within_one_record_of_its_equal_share(pets, tmp_path, build):
    out = build(tmp_path / "out", f"--input={pets}", "--image_encoding=png", "--image_size=48", "--shard_size=100KB")
    sizes = [shard["bytes"] for shard in manifest_of(out)["shards"]]
    total = sum(sizes)
    assert len(sizes) == max(1, round(total / 100_000)) > 3
    largest_record = max(len(data) for path in out.glob("*.tfrecord-*") for data in records_of(path))
    assert max(abs(size - total / len(sizes)) for size in sizes) <= largest_record


def test_a_fixed_number_of_shards_is_kept_for_every_split(out):
    assert Counter(shard["split"] for shard in manifest_of(out)["shards"]) == {"train": 3, "validation": 3}
    assert min(shard["records"] for shard in manifest_of(out)["shards"]) > 0
