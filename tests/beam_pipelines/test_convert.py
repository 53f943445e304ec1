"""`convert`: what lies in the output, to the last file, and what happens to it when things go wrong."""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from PIL import Image

from transforms.tfrecord import masked_crc32c

BEAM_TFRECORDS = Path(sys.executable).with_name("beam-tfrecords")
CLASSES = ["cat", "dog", "Äpfel & Birnen"]
FLAGS = ["--name=pets", "--splits=train=0.75,validation=0.25", "--image_size=24x32", "--resize_mode=exact"]
EXACT = ["--image_encoding=png", "--codec=exact", "--num_shards=3"]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def manifest_of(path: Path) -> dict:
    return json.loads((path / "manifest.json").read_text(encoding="utf-8"))


def shards_of(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.glob("*.tfrecord-*")}


def splits_of(path: Path) -> dict[str, str]:
    """Key -> split, from the index."""
    return {
        key: shard["split"]
        for shard in manifest_of(path)["shards"]
        for key in pq.read_table(path / shard["index"])["key"].to_pylist()
    }


@pytest.fixture(scope="module")
def pets(tmp_path_factory, picture, save) -> Path:
    """120 pictures of three classes under names of many kinds, and files that are no pictures."""
    root = tmp_path_factory.mktemp("convert") / "pets"
    for label, name in enumerate(CLASSES):
        for number in range(40):
            folder = root / name / ("in a deeper folder" if number % 5 == 0 else "")
            stem = f"{name} {number:02d} 写真" if number % 7 == 0 else f"{name}{number:02d}"
            pixels = picture(100 * label + number, 30 + number, 60 - number)
            save(folder / f"{stem}.{'png' if number % 2 else 'jpg'}", pixels)
    for name in (
        ".DS_Store",
        "cat/.hidden.jpg",
        ".trash/cat/old.jpg",
        "cat/notes.txt",
        "dog/Thumbs.db",
        "list.TXT",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("no picture")
    return root


@pytest.fixture(scope="module")
def keys(pets) -> list[str]:
    """Keys of all pictures."""
    return sorted(
        str(path.relative_to(pets))
        for path in pets.rglob("*")
        if path.suffix in (".png", ".jpg") and "/." not in str(path)
    )


@pytest.fixture(scope="module")
def out(pets, build) -> Path:
    return build(pets.parent / "out", f"--input={pets}", *FLAGS, *EXACT)


@pytest.fixture(scope="module")
def process(pets, tmp_path_factory) -> tuple[subprocess.CompletedProcess, Path, Path]:
    """The same build as a process of its own with one worker process; its output and its temporary folder."""
    temporary = tmp_path_factory.mktemp("temporary")
    output = pets.parent / "process"
    # A user's own module of the same name as ours must not get into the workers.
    here = tmp_path_factory.mktemp("here")
    (here / "transforms.py").write_text("raise ImportError('the wrong transforms')")
    words = [f"--input={pets}", f"--output={output}", *FLAGS, *EXACT, "--direct_num_workers=1"]
    ran = subprocess.run(
        [BEAM_TFRECORDS, "convert", *words],
        capture_output=True,
        text=True,
        cwd=here,
        env={**os.environ, "TMPDIR": str(temporary)},
        check=False,
    )
    return ran, output, temporary


# What lies in the output


def test_the_output_has_the_files_of_the_design_and_no_other(out, snapshot):
    names = [f"pets-{split}.tfrecord-{n:05d}-of-00003" for split in ("train", "validation") for n in range(3)]
    indices = [f"index/pets-{split}-{n:05d}-of-00003.parquet" for split in ("train", "validation") for n in range(3)]
    metadata = [
        "dataset_info.json",
        "features.json",
        "label.labels.txt",
        "failures.jsonl",
        "duplicates.jsonl",
        "manifest.json",
        "_SUCCESS",
    ]
    assert sorted(snapshot(out)) == sorted(["./", "index/", *names, *indices, *metadata])


def test_every_picture_is_in_one_record_as_pillow_makes_it(out, pets, keys, read):
    records = [*read(out, "train"), *read(out, "validation")]
    assert sorted(record.key for record in records) == keys
    for record in records:
        expected = np.asarray(Image.open(pets / record.key).resize((32, 24)))
        np.testing.assert_array_equal(tf.io.decode_png(record["image"]), expected, err_msg=record.key)
        assert record["label"] == CLASSES.index(record.key.split("/")[0])
        assert record["filename"].decode() == record.key.split("/")[-1]
        assert record.kinds == {"image": "bytes_list", "label": "int64_list", "filename": "bytes_list"}


def test_the_order_is_a_shuffle_of_all_classes(out, read):
    labels = [record["label"] for record in read(out, "train")]
    changes = sum(one != other for one, other in itertools.pairwise(labels))
    # Three equal classes shuffled change at two steps of three; 90 records sorted by class change twice.
    assert changes > 40


def test_index_rows_point_at_their_records_in_every_shard(out):
    for shard in manifest_of(out)["shards"]:
        data = (out / shard["file"]).read_bytes()
        read = list(tf.data.TFRecordDataset(str(out / shard["file"])).as_numpy_iterator())
        rows = pq.read_table(out / shard["index"]).to_pylist()
        assert len(rows) == len(read) == shard["records"]
        end = 0
        for row, expected in zip(rows, read, strict=True):
            assert row["offset"] == end
            end += row["length"]
            record = data[row["offset"] : end]
            length, length_crc = struct.unpack("<QI", record[:12])
            (data_crc,) = struct.unpack("<I", record[-4:])
            assert length_crc == masked_crc32c(record[:8])
            assert (length, record[12:-4], data_crc) == (len(expected), expected, masked_crc32c(expected))
        assert end == len(data)


def test_index_rows_of_gzip_shards_point_into_the_uncompressed_stream(pets, tmp_path, build):
    out = build(tmp_path / "out", f"--input={pets}", *FLAGS, *EXACT, "--compression=gzip")
    for shard in manifest_of(out)["shards"]:
        path = str(out / shard["file"])
        assert Path(path).read_bytes()[:2] == b"\x1f\x8b"
        records = list(tf.data.TFRecordDataset(path, compression_type="GZIP").as_numpy_iterator())
        rows = pq.read_table(out / shard["index"]).to_pylist()
        ends = np.cumsum([len(record) + 16 for record in records])
        assert [row["offset"] + row["length"] for row in rows] == ends.tolist()


def test_the_index_says_where_each_record_comes_from(out, pets, read):
    for record in [*read(out, "train"), *read(out, "validation")]:
        source = pets / record.key
        assert record.row["uri"] == str(source)
        assert record.row["content_hash"] == sha256(source.read_bytes())
        assert record.row["label"] == record.key.split("/")[0]
        assert (record.row["height"], record.row["width"]) == (24, 32)
        assert str(source.stat().st_size) in record.row["fingerprint"]
    columns = ["key", "uri", "fingerprint", "content_hash", "offset", "length", "label", "height", "width"]
    assert pq.read_schema(out / "index/pets-train-00000-of-00003.parquet").names == columns


def test_the_manifest_says_what_is_there(out, pets):
    manifest = manifest_of(out)
    assert (manifest["name"], manifest["class_names"]) == ("pets", CLASSES)
    assert (manifest["listed"], manifest["records"], manifest["failures"]) == (120, 120, 0)
    assert manifest["failure_reasons"] == {}
    for split, entry in manifest["splits"].items():
        shards = [shard for shard in manifest["shards"] if shard["split"] == split]
        assert entry["records"] == entry["listed"] == sum(shard["records"] for shard in shards)
        assert entry["bytes"] == sum(shard["bytes"] for shard in shards)
        assert (entry["shards"], entry["failures"]) == (3, 0)
        in_index = Counter(key.split("/")[0] for key, other in splits_of(out).items() if other == split)
        assert entry["classes"] == in_index
    for shard in manifest["shards"]:
        data = (out / shard["file"]).read_bytes()
        assert (shard["bytes"], shard["sha256"]) == (len(data), sha256(data))
        assert shard["index_sha256"] == sha256((out / shard["index"]).read_bytes())
    assert manifest["source_bytes"] == sum((pets / key).stat().st_size for key in splits_of(out))
    assert {"beam-tfrecords", "apache-beam", "Pillow", "python"} <= set(manifest["versions"])
    assert manifest["input_fingerprint"]


def test_the_manifest_has_the_spec_with_its_defaults_filled_in(out, pets):
    spec = manifest_of(out)["spec"]
    expected = {
        "input": str(pets),
        "output": str(out),
        "source": "auto",
        "image_size": "24x32",
        "resize_mode": "exact",
        "resample": "bicubic",
        "upscale": True,
        "image_encoding": "png",
        "codec": "exact",
        "jpeg_quality": 95,
        "channels": 3,
        "check": "decode",
        "splits": {"train": 0.75, "validation": 0.25},
        "shard_size": 150_000_000,
        "num_shards": 3,
        "compression": "none",
        "seed": 0,
        "max_failures": 0.01,
    }
    assert {name: spec[name] for name in expected} == expected
    assert {name: feature["field"] for name, feature in spec["layout"].items()} == {
        "image": "image.encoded",
        "label": "label.index",
        "filename": "filename",
    }


def test_the_spec_of_the_manifest_builds_the_same_again(out, tmp_path, build):
    spec = {name: value for name, value in manifest_of(out)["spec"].items() if name != "output"}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    assert shards_of(build(tmp_path / "out", f"--spec={tmp_path / 'spec.json'}")) == shards_of(out)


def test_the_metadata_is_what_tfds_reads(out):
    info = json.loads((out / "dataset_info.json").read_text())
    assert (info["name"], info["version"], info["fileFormat"]) == ("pets", "1.0.0", "tfrecord")
    shards = manifest_of(out)["shards"]
    assert {split["name"]: split["shardLengths"] for split in info["splits"]} == {
        name: [str(shard["records"]) for shard in shards if shard["split"] == name] for name in ("train", "validation")
    }
    features = json.loads((out / "features.json").read_text())["featuresDict"]["features"]
    assert features["image"]["image"]["shape"]["dimensions"] == ["24", "32", "3"]
    assert features["label"]["classLabel"]["numClasses"] == "3"
    assert (out / "label.labels.txt").read_text(encoding="utf-8").splitlines() == CLASSES


def test_hidden_files_and_files_that_are_no_images_are_reported(out, pets, run):
    skipped = manifest_of(out)["skipped"]
    assert {kind: entry["files"] for kind, entry in skipped.items()} == {"hidden": 3, ".txt": 2, ".db": 1}
    assert sorted(skipped[".txt"]["examples"]) == ["cat/notes.txt", "list.TXT"]


def test_the_summary_counts_splits_classes_and_skipped_files(process):
    ran, output, _ = process
    assert ran.returncode == 0, ran.stderr
    for words in (
        "train",
        "validation",
        "cat 40",
        "Äpfel & Birnen 40",
        "hidden",
        "Thumbs.db",
        "120 samples",
        "/s",
    ):
        assert words in ran.stdout
    assert str(output) in ran.stdout
    assert len(ran.stdout.splitlines()) < 15


# Sameness


def test_a_quick_build_as_a_process_says_nothing_on_standard_error(process):
    ran, _, _ = process
    assert (ran.returncode, ran.stderr) == (0, "")


def test_nothing_of_a_local_run_is_left_in_the_temporary_folder(process, snapshot):
    ran, _, temporary = process
    assert (ran.returncode, snapshot(temporary)) == (0, {"./": b""})


def test_shards_and_indices_are_the_same_from_one_and_two_workers_and_in_this_process(process, out, pets, run):
    ran, one_worker, _ = process
    assert ran.returncode == 0, ran.stderr
    two_workers = pets.parent / "two"
    flags = [f"--input={pets}", f"--output={two_workers}", *FLAGS, *EXACT]
    assert run("convert", *flags, "--runner=DirectRunner", "--direct_num_workers=2").code == 0
    for other in (one_worker, two_workers):
        assert shards_of(other) == shards_of(out)
        assert manifest_of(other)["shards"] == manifest_of(out)["shards"]
        assert manifest_of(other)["input_fingerprint"] == manifest_of(out)["input_fingerprint"]


def test_another_seed_gives_another_order_of_the_same_records(pets, tmp_path, build, read):
    flags = [f"--input={pets}", "--image_size=16"]
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


# Folders that are splits


def test_folders_named_after_splits_become_splits(pets, tmp_path, build):
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


# Shards


def test_shards_come_within_a_part_of_their_equal_share(pets, tmp_path, build):
    out = build(tmp_path / "out", f"--input={pets}", "--image_encoding=png", "--image_size=48", "--shard_size=100KB")
    sizes = [shard["bytes"] for shard in manifest_of(out)["shards"]]
    total = sum(sizes)
    assert len(sizes) == max(1, round(total / 100_000)) > 3
    largest_record = max(
        len(data) for data in tf.data.TFRecordDataset(list(map(str, out.glob("*.tfrecord-*")))).as_numpy_iterator()
    )
    assert max(abs(size - total / len(sizes)) for size in sizes) <= 100_000 / 8 + largest_record


def test_a_fixed_number_of_shards_is_kept_for_every_split(out):
    assert Counter(shard["split"] for shard in manifest_of(out)["shards"]) == {"train": 3, "validation": 3}
    assert min(shard["records"] for shard in manifest_of(out)["shards"]) > 0


# Manifests


def test_a_manifest_gives_labels_splits_keys_and_columns(pets, tmp_path, build, read):
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


# Failures


@pytest.fixture(scope="module")
def broken(pets) -> Path:
    """The pets, and seven files that cannot become records."""
    root = pets.parent / "broken"
    shutil.copytree(pets, root)
    (root / "cat/empty.jpg").write_bytes(b"")
    (root / "cat/text.jpg").write_text("this is no picture")
    whole = (root / "cat/cat01.png").read_bytes()
    (root / "dog/truncated.png").write_bytes(whole[: len(whole) // 2])
    (root / "dog/flipped.png").write_bytes(whole[:60] + bytes([whole[60] ^ 255]) + whole[61:])
    (root / "dog/nowhere.png").symlink_to("not-there.png")
    os.mkfifo(root / "dog/pipe.png")
    (root / "without_a_class.jpg").write_bytes((root / "cat/cat02.jpg").read_bytes())
    return root


BROKEN = {
    "cat/empty.jpg": "empty",
    "cat/text.jpg": "not_an_image",
    "dog/truncated.png": "truncated",
    "dog/flipped.png": "corrupt",
    "dog/nowhere.png": "unreadable",
    "dog/pipe.png": "unreadable",
    "without_a_class.jpg": "label_missing",
}


def failures_in(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def tolerated(broken, pets, build) -> Path:
    return build(pets.parent / "tolerated", f"--input={broken}", *FLAGS, *EXACT, "--max_failures=0.06")


def test_failures_below_the_limit_are_listed_with_reasons(broken, tolerated, run):
    failures = failures_in(tolerated / "failures.jsonl")
    assert {failure["key"]: failure["reason"] for failure in failures} == BROKEN
    for failure in failures:
        assert list(failure) == ["key", "uri", "stage", "reason", "detail"]
        assert failure["uri"] == str(broken / failure["key"])
        assert failure["detail"]
        assert "\n" not in failure["detail"]
    manifest = manifest_of(tolerated)
    assert (manifest["listed"], manifest["records"], manifest["failures"]) == (127, 120, 7)
    assert manifest["failure_reasons"] == Counter(BROKEN.values())
    assert sum(entry["failures"] for entry in manifest["splits"].values()) == 7
    assert run("verify", f"--dataset={tolerated}", "--direct_running_mode=in_memory").code == 0


def test_good_images_give_the_same_records_whether_bad_ones_lie_beside_them_or_not(tolerated, out, read):
    for split in ("train", "validation"):
        with_bad = [(record.key, record.values) for record in read(tolerated, split)]
        assert with_bad == [(record.key, record.values) for record in read(out, split)]


def test_more_failures_than_allowed_publish_nothing_but_the_list(broken, tmp_path, convert, snapshot):
    ran = convert(f"--input={broken}", f"--output={tmp_path / 'out'}", *FLAGS, "--max_failures=0.05")
    assert ran.code == 3
    assert "7 of 127" in ran.err
    assert "--max_failures" in ran.err
    assert str(tmp_path / "out/failures.jsonl") in ran.err
    assert {failure["key"] for failure in failures_in(tmp_path / "out/failures.jsonl")} == set(BROKEN)
    found = [name for name in snapshot(tmp_path / "out") if not name.startswith(".build")]
    assert sorted(found) == ["./", "duplicates.jsonl", "failures.jsonl"]


def test_one_failure_is_too_many_if_none_is_allowed(broken, tmp_path, convert):
    ran = convert(f"--input={broken}", f"--output={tmp_path / 'out'}", "--max_failures=0", "--image_size=8")
    assert ran.code == 3


def test_a_build_without_a_single_record_is_not_published(tmp_path, convert):
    for number in range(3):
        (tmp_path / "in/cat").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"in/cat/{number}.jpg").write_text("this is no picture")
    ran = convert(f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", "--max_failures=1")
    assert ran.code == 3
    assert not (tmp_path / "out/_SUCCESS").exists()


def test_a_finished_dataset_stays_as_it_is_if_the_new_one_fails(broken, out, tmp_path, convert, run, snapshot):
    old = shutil.copytree(out, tmp_path / "out")
    before = snapshot(old)
    ran = convert(f"--input={broken}", f"--output={old}", "--max_failures=0", "--image_size=8", "--overwrite")
    assert ran.code == 3
    assert snapshot(old, without=[".build"]) == before
    (listed,) = [line for line in ran.err.splitlines() if "failures.jsonl" in line]
    listed_at = Path(listed[listed.index(str(tmp_path)) :])
    assert {failure["key"] for failure in failures_in(listed_at)} == set(BROKEN)
    assert run("verify", f"--dataset={old}", "--direct_running_mode=in_memory").code == 0


# Building again


def test_overwrite_takes_away_the_old_files_and_leaves_foreign_ones(out, pets, tmp_path, build, snapshot):
    old = shutil.copytree(out, tmp_path / "out")
    (old / "notes.md").write_text("mine")
    (old / "index/notes.md").write_text("mine too")
    (tmp_path / "spec.yaml").write_text("layout: {image: image.encoded}")
    flags = [f"--input={pets}", f"--spec={tmp_path / 'spec.yaml'}", "--name=new", "--image_size=8"]
    build(old, *flags, "--overwrite")
    assert sorted(snapshot(old)) == sorted(
        [
            "./",
            "index/",
            "notes.md",
            "index/notes.md",
            "new-train.tfrecord-00000-of-00001",
            "index/new-train-00000-of-00001.parquet",
            *["dataset_info.json", "features.json", "manifest.json", "_SUCCESS"],
            *["failures.jsonl", "duplicates.jsonl"],
        ]
    )
    assert (old / "index/notes.md").read_text() == "mine too"


def test_overwriting_with_the_same_request_gives_the_same_bytes(out, pets, tmp_path, build, snapshot):
    again = shutil.copytree(out, tmp_path / "out")
    build(again, f"--input={pets}", *FLAGS, *EXACT, "--overwrite")
    # But for the manifest, which names the folder, and the marker with the manifest's hash.
    assert snapshot(again, without=["manifest.json", "_SUCCESS"]) == snapshot(
        out, without=["manifest.json", "_SUCCESS"]
    )


def test_a_build_with_a_higher_limit_takes_up_the_blocks_of_the_failed_one(broken, tmp_path, convert, build):
    flags = [f"--input={broken}", *FLAGS]
    assert convert(f"--output={tmp_path / 'out'}", *flags, "--max_failures=0.05").code == 3
    markers = {path: path.read_bytes() for path in tmp_path.glob("out/.build/*/blocks/*.json")}
    assert markers
    spoilt = spoil_sources(tmp_path / "out")
    try:
        assert len(spoilt) == 120
        assert manifest_of(build(tmp_path / "out", *flags, "--max_failures=0.06"))["records"] == 120
    finally:
        restore_sources(spoilt)


def spoil_sources(output: Path) -> dict[Path, tuple[bytes, int]]:
    """Makes the pictures of all finished blocks unreadable, in a way that no listing can see."""
    spoilt = {}
    for marker in output.glob(".build/*/blocks/*.json"):
        for part in json.loads(marker.read_text())["parts"]:
            for uri in pq.read_table(part["index"])["uri"].to_pylist():
                path = Path(uri)
                spoilt[path] = (path.read_bytes(), path.stat().st_mtime_ns)
                path.write_bytes(bytes(path.stat().st_size))
                os.utime(path, ns=(spoilt[path][1],) * 2)
    return spoilt


def restore_sources(spoilt: dict[Path, tuple[bytes, int]]) -> None:
    for path, (content, modified) in spoilt.items():
        path.write_bytes(content)
        os.utime(path, ns=(modified, modified))


@pytest.fixture(scope="module")
def many(tmp_path_factory, picture, save) -> Path:
    """160 pictures that take a while to decode."""
    root = tmp_path_factory.mktemp("many")
    big = save(root / "big.png", picture(1, 700, 900)).read_bytes()
    for number in range(160):
        folder = root / f"in/class{number % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        # Distinct bytes behind the end of the picture.
        (folder / f"{number}.png").write_bytes(big + b"%d" % number)
    return root / "in"


SLOW = ["--image_size=64", "--image_encoding=png", "--codec=exact", "--num_shards=2"]


def start_build(root: Path, output: Path) -> subprocess.Popen:
    """Starts a build in a process group of its own; returns when a few of its blocks are finished."""
    process = subprocess.Popen(
        [BEAM_TFRECORDS, "convert", f"--input={root}", f"--output={output}", *SLOW],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Beam's own temporary folder outlives a process that is killed.
        env={**os.environ, "TMPDIR": str(output.parent)},
    )
    deadline = time.monotonic() + 60
    while len(list(output.glob(".build/*/blocks/*.json"))) < 3:
        assert process.poll() is None, f"ended before it could be stopped: {process.communicate()}"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def test_a_killed_build_goes_on_from_its_finished_blocks_and_ends_with_the_same_bytes(many, tmp_path, build, snapshot):
    output = tmp_path / "out"
    process = start_build(many, output)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (output / "_SUCCESS").exists()
    expected = build(tmp_path / "expected", f"--input={many}", *SLOW)
    # If a finished block were converted again, its pictures would now fail.
    spoilt = spoil_sources(output)
    try:
        assert 0 < len(spoilt) < 160
        build(output, f"--input={many}", *SLOW)
    finally:
        restore_sources(spoilt)
    assert manifest_of(output)["failures"] == 0
    assert shards_of(output) == shards_of(expected)
    assert manifest_of(output)["shards"] == manifest_of(expected)["shards"]
    assert sorted(snapshot(output)) == sorted(snapshot(expected))


def test_an_interrupted_build_says_in_one_line_that_it_can_go_on(many, tmp_path):
    process = start_build(many, tmp_path / "out")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert err == "beam-tfrecords: interrupted; the same command goes on from its finished blocks\n"
    assert not (tmp_path / "out/_SUCCESS").exists()


def test_worker_processes_end_quietly_with_the_process_that_started_them(many, tmp_path):
    process = start_build(many, tmp_path / "out")
    process.terminate()
    # The pipes are closed when the last process that holds them has ended.
    assert process.communicate(timeout=30) == ("", "")


def test_what_a_killed_writer_has_left_in_the_output_is_taken_away(out, pets, tmp_path, build, snapshot):
    program = """\
import os, signal, sys
from transforms import storage
with storage.open_write(sys.argv[1]) as file:
    file.write(b"half of it")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    for file in ("pets-train.tfrecord-00000-of-00003", "index/pets-train-00000-of-00003.parquet", "manifest.json"):
        subprocess.run([sys.executable, "-c", program, str(tmp_path / "out" / file)], check=False)
    assert len(snapshot(tmp_path / "out")) == 5
    built = build(tmp_path / "out", f"--input={pets}", *FLAGS, *EXACT)
    assert sorted(snapshot(built)) == sorted(snapshot(out))


def test_a_changed_input_takes_nothing_from_an_unfinished_build(pets, broken, tmp_path, convert, build):
    output = tmp_path / "out"
    assert convert(f"--input={broken}", f"--output={output}", *FLAGS, "--max_failures=0").code == 3
    (unfinished,) = output.glob(".build/*")
    built = build(output, f"--input={pets}", *FLAGS, "--max_failures=0")
    assert not unfinished.exists()
    assert not (built / ".build").exists()
    assert manifest_of(built)["records"] == 120


# The command line


def test_the_module_is_the_same_program(tmp_path):
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "beam_pipelines.convert",
            f"--input={tmp_path}/nowhere",
            f"--output={tmp_path}/out",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "nowhere" in ran.stderr


@pytest.mark.parametrize(
    "command", [[], ["convert"], ["verify"], ["inspect"]], ids=["all", "convert", "verify", "inspect"]
)
def test_help_is_short_and_quick(command):
    start = time.monotonic()
    ran = subprocess.run([BEAM_TFRECORDS, *command, "--help"], capture_output=True, text=True, check=False)
    assert time.monotonic() - start < 1
    assert (ran.returncode, ran.stderr) == (0, "")
    assert len(ran.stdout.splitlines()) < 90
    assert "usage: beam-tfrecords" in ran.stdout


def test_a_flag_beats_the_spec(pets, tmp_path, build):
    (tmp_path / "spec.yaml").write_text(f"input: {pets}\nimage_size: 8\nseed: 7\nname: spec\n")
    spec = manifest_of(build(tmp_path / "out", f"--spec={tmp_path / 'spec.yaml'}", "--image_size=16"))["spec"]
    assert (spec["image_size"], spec["seed"], spec["name"]) == ("16x16", 7, "spec")
