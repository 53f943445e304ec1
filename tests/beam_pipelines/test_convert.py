"""`convert`: the output, to the last file and the last byte, and the program that writes it."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import google_crc32c
import numpy as np
import pyarrow.parquet as pq
import pytest
from blake3 import blake3
from PIL import Image

from tests.beam_pipelines.dataset_checks import (
    BEAM_TFRECORDS,
    CLASSES,
    EXACT,
    FLAGS,
    manifest_of,
    shards_of,
    splits_of,
)  # fmt: skip
from tests.framing import framed, records_of
from tests.trees import write_tree

pytestmark = pytest.mark.any_workers
COLUMNS = (
    "key uri fingerprint label offset length content_hash sample_hash height width replaced_format source_height "
    "source_width orientation kept_orientation stored_maximum brightness contrast sharpness phash objects "
    "objects_clipped objects_outside objects_invalid"
)
METADATA = (
    "dataset_info.json features.json label.labels.txt failures.jsonl duplicates.jsonl manifest.json report.html "
    "README.md croissant.json _SUCCESS"
)


# The output.


def test_the_output_has_these_files_and_no_other(out, snapshot):
    numbers = [(split, f"{number:05d}-of-00003") for split in ("train", "validation") for number in range(3)]
    shards = [f"pets-{split}.tfrecord-{number}" for split, number in numbers]
    indices = [f"index/pets-{split}-{number}.parquet" for split, number in numbers]
    assert sorted(snapshot(out)) == sorted(["./", "index/", *shards, *indices, *METADATA.split()])


def test_every_picture_is_in_one_record_as_pillow_converts_it_in_an_order_of_chance(out, pets, read):
    keys = [str(path.relative_to(pets)) for kind in ("png", "jpg") for path in pets.rglob(f"*.{kind}")]
    train = read(out, "train")
    records = [*train, *read(out, "validation")]
    assert sorted(record.key for record in records) == sorted(key for key in keys if "/." not in f"/{key}")
    for record in records:
        expected = np.asarray(Image.open(pets / record.key).resize((32, 24)))
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(record["image"]))), expected, record.key)
        assert record["label"] == CLASSES.index(record.key.split("/")[0])
        assert record["filename"].decode() == record.key.split("/")[-1]
        assert record.kinds == {"image": "bytes_list", "label": "int64_list", "filename": "bytes_list"}
    # In shuffled records of three equal classes, two neighbours of three differ; sorted by class, two pairs of 90 do.
    labels = [record["label"] for record in train]
    assert sum(one != other for one, other in itertools.pairwise(labels)) > 40


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_index_rows_point_at_their_records_in_every_shard(pets, tmp_path, build, compression):
    out = build(tmp_path / "out", f"--input={pets}", *FLAGS, *EXACT, f"--compression={compression}")
    for shard in manifest_of(out)["shards"]:
        data = (out / shard["file"]).read_bytes()
        assert data.startswith(b"\x1f\x8b") == (compression == "gzip")
        records = [*records_of(out / shard["file"])]
        rows = pq.read_table(out / shard["index"]).to_pylist()
        assert len(rows) == len(records) == shard["records"]
        ends = np.cumsum([len(record) + 16 for record in records]).tolist()
        assert [(row["offset"], row["offset"] + row["length"]) for row in rows] == [
            *zip([0, *ends], ends, strict=False)
        ]
        assert compression == "gzip" or data == framed(*records)


def test_the_index_says_where_each_record_comes_from(out, pets, read):
    for record in [*read(out, "train"), *read(out, "validation")]:
        source, row = pets / record.key, record.row
        assert (row["uri"], row["label"]) == (f"{pets.name}/{record.key}", record.key.split("/")[0])
        assert row["content_hash"] == blake3(source.read_bytes()).hexdigest()
        assert (row["height"], row["width"], row["orientation"]) == (24, 32, 1)
        assert str(source.stat().st_size) in row["fingerprint"]
    assert pq.read_schema(out / "index/pets-train-00000-of-00003.parquet").names == COLUMNS.split()


def test_the_manifest_describes_the_dataset(out, pets):
    manifest = manifest_of(out)
    assert (manifest["format"], manifest["name"], manifest["class_names"]) == (1, "pets", CLASSES)
    assert [manifest[name] for name in ("listed", "records", "failures", "failure_reasons")] == [120, 120, 0, {}]
    for split, entry in manifest["splits"].items():
        shards = [shard for shard in manifest["shards"] if shard["split"] == split]
        assert entry["records"] == entry["listed"] == sum(shard["records"] for shard in shards)
        assert entry["bytes"] == sum(shard["bytes"] for shard in shards)
        assert (entry["shards"], entry["failures"]) == (3, 0)
        assert entry["classes"] == Counter(key.split("/")[0] for key, one in splits_of(out).items() if one == split)
    for shard in manifest["shards"]:
        data = (out / shard["file"]).read_bytes()
        assert (shard["bytes"], shard["crc32c"]) == (len(data), f"{google_crc32c.value(data):08x}")
        assert shard["index_sha256"] == hashlib.sha256((out / shard["index"]).read_bytes()).hexdigest()
        assert shard["records"] > 0
    assert manifest["source_bytes"] == sum((pets / key).stat().st_size for key in splits_of(out))
    assert {"beam-tfrecords", "image-revision", "apache-beam", "Pillow", "python"} <= set(manifest["versions"])
    assert manifest["input_fingerprint"]
    assert {kind: one["files"] for kind, one in manifest["skipped"].items()} == {"hidden": 3, ".txt": 2, ".db": 1}
    assert sorted(manifest["skipped"][".txt"]["examples"]) == ["cat/notes.txt", "list.TXT"]


def test_the_spec_has_all_defaults_and_gives_the_same_shards_again(out, pets, tmp_path, build, monkeypatch):
    spec = manifest_of(out)["spec"]
    expected = {
        "input": pets.name, "source": "auto", "image_size": "24x32", "resize_mode": "exact", "resample": "bicubic",
        "upscale": True, "image_encoding": "png", "codec": "exact", "jpeg_quality": 95, "channels": 3,
        "splits": {"train": 0.75, "validation": 0.25}, "shard_size": 150_000_000, "num_shards": 3,
        "compression": "none", "seed": 0, "max_failures": 0.01,
    }  # fmt: skip
    assert {name: spec[name] for name in expected} == expected
    fields = {name: feature["field"] for name, feature in spec["layout"].items()}
    assert fields == {"image": "image.encoded", "label": "label.index", "filename": "filename"}
    monkeypatch.chdir(pets.parent)
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


# Splits, order and shards.


def test_another_seed_gives_another_order_of_the_same_records(pets, tmp_path, build, read):
    flags = [f"--input={pets}", "--image_size=16", "--image_encoding=webp"]
    outs = [build(tmp_path / f"{seed}", *flags, f"--seed={seed}") for seed in (0, 1)]
    one, other = ([(record.key, record.values) for record in read(out, "train")] for out in outs)
    assert one != other
    assert sorted(one, key=str) == sorted(other, key=str)


def test_moving_the_root_and_adding_images_moves_no_image_to_another_split(out, pets, tmp_path, build):
    moved = Path(shutil.copytree(pets, tmp_path / "elsewhere/renamed"))
    write_tree(moved, "bird/{0..59}.png")
    before, after = splits_of(out), splits_of(build(tmp_path / "out", f"--input={moved}", *FLAGS))
    assert {key: after[key] for key in before} == before
    assert len(after) == len(before) + 60


def test_fractions_cut_the_samples_into_splits_of_their_size(tmp_path, build):
    (tmp_path / "rows.csv").write_text("number\n" + "".join(f"{number}\n" for number in range(4000)))
    (tmp_path / "spec.yaml").write_text("layout: {number: {field: column.number, type: int64}}")
    flags = [f"--input={tmp_path / 'rows.csv'}", f"--spec={tmp_path / 'spec.yaml'}"]
    splits = splits_of(build(tmp_path / "out", *flags, "--splits=train=0.8,validation=0.15,test=0.05"))
    assert len(splits) == 4000
    for split, share in {"train": 0.8, "validation": 0.15, "test": 0.05}.items():
        # Four standard deviations of a binomial distribution.
        assert abs(Counter(splits.values())[split] - 4000 * share) < 4 * (4000 * share * (1 - share)) ** 0.5


def test_a_limit_takes_some_of_every_split_and_a_larger_one_more(photos, tmp_path, build):
    words = [f"--input={photos}", "--image_size=8", "--splits=train=0.7,validation=0.2,test=0.1"]
    whole, few, again, more = (
        build(tmp_path / f"{number}", *words, f"--limit={limit}") for number, limit in enumerate((100, 6, 6, 20))
    )
    splits = [splits_of(one) for one in (few, again, more, whole)]
    assert splits[0] == splits[1]
    assert splits[0].items() <= splits[2].items() <= splits[3].items()
    assert [len(one) for one in splits] == [6, 6, 20, 42]
    assert Counter(splits[0].values()).keys() == {"train", "validation", "test"}
    assert manifest_of(few)["class_names"] == manifest_of(whole)["class_names"]
    assert manifest_of(few)["spec"]["limit"] == 6


def test_shards_of_any_number_and_size_hold_the_same_records_in_the_same_order(photos, tmp_path, build):
    found, words = [], [f"--input={photos}", "--image_size=48", "--image_encoding=png"]
    settings = [
        ["--num_shards=1"],
        ["--num_shards=5", "--compression=gzip"],
        ["--shard_size=50KB"],
        ["--shard_size=1B"],
    ]
    for number, flags in enumerate(settings):
        out = build(tmp_path / f"{number}", *words, *flags)
        files = [out / shard["file"] for shard in manifest_of(out)["shards"]]
        found.append([record for file in files for record in records_of(file)])
        sizes = [shard["bytes"] for shard in manifest_of(out)["shards"]]
        if number == 2:
            assert len(sizes) == max(1, round(sum(sizes) / 50_000)) > 3
            largest = max(map(len, found[0]))
            assert max(abs(size - sum(sizes) / len(sizes)) for size in sizes) <= largest
        assert number == 2 or len(sizes) == [1, 5, 0, 42][number]
    assert found[0] == found[1] == found[2] == found[3]


# The program.


@pytest.fixture(scope="module")
def process(pets, tmp_path_factory) -> tuple[subprocess.CompletedProcess[str], Path, Path]:
    """The pets converted by a process with one worker; the process, its output and its temporary folder."""
    temporary, here = tmp_path_factory.mktemp("temporary"), tmp_path_factory.mktemp("here")
    output = pets.parent / "process"
    # Workers must not import a user's own module in place of ours.
    (here / "transforms.py").write_text("raise ImportError('the wrong transforms')")
    words = [f"--input={pets}", f"--output={output}", *FLAGS, *EXACT, "--direct_num_workers=1"]
    variables = {**os.environ, "TMPDIR": str(temporary)}
    command = [BEAM_TFRECORDS, "convert", *words]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=here, env=variables, check=False)
    return ran, output, temporary


def test_the_program_prints_its_summary_alone_and_leaves_no_temporary_file(process, snapshot):
    ran, output, temporary = process
    assert (ran.returncode, ran.stderr) == (0, "")
    for words in ("train", "validation", "classes of train: cat ", "Äpfel & Birnen ", "hidden", "Thumbs.db"):
        assert words in ran.stdout
    assert f"dataset: {output}" in ran.stdout
    assert len(ran.stdout.splitlines()) < 15
    assert snapshot(temporary) == {"./": b""}


BEAM_MODES = ["in_memory", "multi_threading", "multi_processing"]


@pytest.mark.parametrize("mode", [None, *(pytest.param(mode, marks=pytest.mark.nightly) for mode in BEAM_MODES)])
def test_shards_and_indices_are_the_same_from_any_workers(process, out, pets, run, mode):
    ran, one_worker, _ = process
    assert ran.returncode == 0, ran.stderr
    two_workers = pets.parent / f"two_{mode}"
    workers = ["--direct_num_workers=2", *([f"--direct_running_mode={mode}"] if mode else [])]
    flags = [f"--input={pets}", f"--output={two_workers}", *FLAGS, *EXACT, "--runner=DirectRunner", *workers]
    ran = run("convert", *flags)
    assert ran.code == 0, ran.err
    for other in (one_worker, two_workers):
        assert shards_of(other) == shards_of(out)
        for name in ("shards", "input_fingerprint"):
            assert manifest_of(other)[name] == manifest_of(out)[name]


def test_the_module_is_the_same_program(tmp_path):
    words = ["-m", "beam_tfrecords.beam_pipelines.convert", f"--input={tmp_path}/nowhere", f"--output={tmp_path}/out"]
    ran = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, "nowhere" in ran.stderr) == (2, "", True)


@pytest.mark.parametrize("command", [[], ["convert"], ["verify"], ["inspect"]], ids=str)
def test_help_is_short_and_quick(command):
    # CPU time, because other tests may keep the machine busy.
    start = os.times()
    ran = subprocess.run([BEAM_TFRECORDS, *command, "--help"], capture_output=True, text=True, check=False)
    end = os.times()
    assert end.children_user + end.children_system - start.children_user - start.children_system < 1
    assert (ran.returncode, ran.stderr) == (0, "")
    assert len(ran.stdout.splitlines()) < 280
    assert "usage: beam-tfrecords" in ran.stdout


# Form of a spec file -> its text; image_size is given by a flag too.
SPECS = {
    "yaml": "input: {0}\nimage_size: 8\nseed: 7\nname: spec\nsplits: {{train: 0.75, test: 0.25}}\n",
    "toml": 'input = "{0}"\nimage_size = 8\nseed = 7\nname = "spec"\n[splits]\ntrain = 0.75\ntest = 0.25\n',
    "-": '{{"input": "{0}", "image_size": [8, 8], "seed": 7, "name": "spec", "splits": "train=0.75,test=0.25"}}',
}


@pytest.mark.parametrize("form", SPECS)
def test_a_spec_is_yaml_toml_or_json_of_standard_input_and_a_flag_beats_it(pets, tmp_path, build, monkeypatch, form):
    path = form if form == "-" else tmp_path / f"spec.{form}"
    text = SPECS[form].format(pets)
    if form == "-":
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    else:
        path.write_text(text)
    spec = manifest_of(build(tmp_path / "out", f"--spec={path}", "--image_size=16", "--limit=9"))["spec"]
    assert (spec["image_size"], spec["seed"], spec["name"]) == ("16x16", 7, "spec")
    assert spec["splits"] == {"train": 0.75, "test": 0.25}
