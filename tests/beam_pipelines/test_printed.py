"""What `convert` prints of a build and of a dry run: the table, classes, failures, copies, notes and warnings."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.beam_pipelines.dataset_checks import manifest_of
from tests.each import each
from tests.trees import write_tree

# Of these, two are broken, one has no bytes, one is there twice in two splits, and one is a TIFF file.
MIXED = "train/cat/{0..5}.png train/dog/{6..9}.png test/cat/7.png"
MORE = {
    "train/cat/t.tif": "red 16x16",
    "test/cat/leak.png": "scene 16x16 0",
    "train/dog/cut.png": "broken",
    "train/dog/bad.png": "broken",
    "train/dog/e.png": "empty",
    "train/cat/.x.png": "empty",
    "n.txt": "x",
}
TFDS = "TensorFlow Datasets reads image as bytes with"
SUMMARIES = {
    "--image_encoding=keep": f"""
split  records  failures  shards    size
test         2         0       1  1.9 KB
train       11         3       1  9.4 KB
classes of test: cat 2
classes of train: cat 7, dog 4
warning: split test has no record of 1 of 2 classes: dog
leaks: images in more than one split: 1
duplicates: images that occur more than once: 1, copies: 2
  list: OUT/duplicates.jsonl; --overwrite --duplicates=drop keeps one of each
failures: not_an_image 2, empty 1
  not_an_image, for example train/dog/bad.png: unknown image format; the first bytes are 'no pictu'
  empty, for example train/dog/e.png: the file has no bytes
  list: OUT/failures.jsonl
stored as PNG, because only PNG and plain JPEG files are kept: tiff 1
skipped: 1 .txt (n.txt)
skipped: 1 hidden (train/cat/.x.png)
note: {TFDS} --image_encoding=keep, --channels=keep; its image features are JPEG or PNG with 1, 3 or 4 channels
16 samples in …
dataset: OUT
""",
    "--image_encoding=png --duplicates=drop --where=key!='train/cat/2.png'": """
split  records  failures  shards    size
test         2         0       1  1.5 KB
train        9         3       1  6.1 KB
classes of test: cat 2
classes of train: cat 5, dog 4
warning: split test has no record of 1 of 2 classes: dog
duplicates: images that occur more than once: 1, copies: 2, in more than one split: 1, dropped: 1
  list: OUT/duplicates.jsonl
failures: not_an_image 2, empty 1
  not_an_image, for example train/dog/bad.png: unknown image format; the first bytes are 'no pictu'
  empty, for example train/dog/e.png: the file has no bytes
  list: OUT/failures.jsonl
filtered: 1
skipped: 1 .txt (n.txt)
skipped: 1 hidden (train/cat/.x.png)
16 samples in …
dataset: OUT
""",
    "--dry_run": """
split  samples   about  shards
test         2  1.7 KB       1
train       14  9.4 KB       1
classes of test: cat 2
classes of train: cat 7, dog 7
warning: split test has no record of 1 of 2 classes: dog
skipped: 1 .txt (n.txt)
skipped: 1 hidden (train/cat/.x.png)
sample           split  label  source
test/cat/7.png   test   cat    IN/test/cat/7.png
train/dog/e.png  train  dog    IN/train/dog/e.png
train/cat/4.png  train  cat    IN/train/cat/4.png
train/dog/8.png  train  dog    IN/train/dog/8.png
train/dog/9.png  train  dog    IN/train/dog/9.png
dry run: nothing was built or written; 16 samples would go to OUT
""",
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory) -> Path:
    return write_tree(tmp_path_factory.mktemp("mixed") / "in", MIXED, MORE)


@pytest.mark.parametrize("flags", SUMMARIES, ids=lambda flags: flags.split()[0])
def test_the_lines_of_a_build(mixed, tmp_path, convert, flags):
    out = tmp_path / "out"
    ran = convert(f"--input={mixed}", f"--output={out}", "--max_failures=0.5", "--no_report", *flags.split())
    assert (ran.code, ran.err) == (0, "")
    shown = re.sub(r" in [0-9.]+ s \(.*/s, start-up included\)", " in …", ran.out)
    assert shown.replace(str(out), "OUT").replace(str(mixed), "IN") == SUMMARIES[flags].lstrip()
    assert out.exists() == ("--dry_run" not in flags)


def test_failures_that_are_not_allowed_are_shown_too(mixed, tmp_path, convert):
    words = [f"--input={mixed}", f"--output={tmp_path / 'out'}", "--quiet"]
    ran = convert(*words)
    assert (ran.code, ran.out) == (3, "")
    assert "3 of 16 samples failed; --max_failures=0.01 allows fewer." in ran.err
    assert "  empty, for example train/dog/e.png: " in ran.err
    ran = convert(*words, "--max_failures=1", "--where=key = 'train/dog/e.png'")
    assert ran.code == 3
    assert "Nothing was published: 1 of 16 samples failed and 15 were filtered; no record was written;" in ran.err
    assert convert(*words, "--max_failures=0.5").out == ""


def test_the_first_of_many_classes_are_shown(tmp_path, convert):
    root = write_tree(tmp_path / "in", "c{0..11}/1.png")
    (line,) = [line for line in convert(root, tmp_path / "out").out.splitlines() if line.startswith("classes")]
    assert line == "classes: c0 1, c1 1, c10 1, c11 1, c2 1, c3 1, c4 1, c5 1, c6 1, c7 1, and 2 more"


NOTES = {
    "--image_encoding=png --jpeg_quality=80 --resample=box --no_upscale --num_shards=1 --shard_size=5MB": [
        "--resample=box, --no_upscale: without effect, because there is no --image_size",
        "--jpeg_quality=80: without effect with --image_encoding=png",
        "--shard_size=5000000: without effect, because --num_shards=1 sets the number",
    ],
    "--image_encoding=png --bit_depth=16 --codec=exact": ["--codec=exact: without effect with --bit_depth=16"],
    "--image_size=8 --resample=box --no_upscale --jpeg_quality=80 --num_shards=1": [],
    "--compression=gzip": ["TensorFlow Datasets cannot read GZIP shards; "],
    "--image_encoding=webp": [f"{TFDS} --image_encoding=webp"],
    "--channels=keep": [f"{TFDS} --image_encoding=jpeg, --channels=keep"],
    "--image_encoding=raw --layout=raw": ["TensorFlow Datasets reads image_raw as bytes with --image_encoding=raw"],
    "--splits=train=0.998,validation=0.001,test=0.001": [
        "--splits asks for validation, test, which got none of the 2 samples"
    ],
}


@each("flags", NOTES)
def test_settings_without_effect_and_what_others_cannot_read_is_noted(tmp_path, run, flags):
    root = write_tree(tmp_path / "in", "cat/1.png dog/2.png")
    for words in ([], ["--dry_run"]):
        ran = run("convert", root, tmp_path / f"out{len(words)}", "--no_report", *flags.split(), *words)
        assert ran.code == 0, ran.err
        notes = [line.removeprefix("note: ") for line in ran.out.splitlines() if line.startswith("note: ")]
        starts = NOTES[flags]
        assert [note[: len(start)] for note, start in zip(notes, starts, strict=True)] == starts


# Classes that a split lacks: flags, pictures of cats that are broken, warnings and shares, and what programs are told.
SPLITS = "--splits=train=0.8,validation=0.2"
MISSING = [
    (
        [SPLITS],
        0,
        [
            "warning: split validation has no record of 1 of 3 classes: dog; --stratify gives each split its share",
            "shares: train 88.5%, validation 11.5% of 26 samples",
        ],
        [("validation", ["dog"], 3)],
    ),
    ([SPLITS, "--stratify"], 0, [], []),
    ([SPLITS, "--limit=3"], 0, ["shares: train 66.7%, validation 33.3% of 3 samples"], []),
    (["--where=label = 'emu'"], 0, [], []),
    (["--class_names=cat,dog,emu,zebra"], 0, [], []),
    (
        [SPLITS, "--stratify"],
        5,
        ["warning: split validation has no record of 1 of 3 classes: cat"],
        [("validation", ["cat"], 3)],
    ),
    ([], 6, ["warning: no split has a record of 1 of 3 classes: cat"], [("", ["cat"], 3)]),
]


@each("flags, broken, lines, missing", MISSING, ids=lambda row: f"{row[0]} {row[1]}")
def test_a_class_of_the_input_that_a_split_lacks_is_said(tmp_path, run, flags, broken, lines, missing):
    names = {f"cat/{5 - number}.png": "broken" for number in range(broken)}
    root = write_tree(tmp_path / "in", "cat/{0..5}.png dog/{0..9}.png emu/{0..9}.png", names)
    summary = tmp_path / "run.json"
    words = ["convert", f"--input={root}", f"--output={tmp_path / 'out'}", *flags, "--max_failures=0.5", "--no_report"]
    ran = run(*words, f"--json_summary={summary}")
    assert ran.code == 0, ran.err
    assert [line for line in ran.out.splitlines() if line.startswith(("warning", "shares"))] == lines
    found = [(one["split"], one["classes"], one["of"]) for one in json.loads(summary.read_text())["missing_classes"]]
    assert found == missing
    planned = run(*words, "--dry_run", "--overwrite").out.splitlines()
    assert broken or [line for line in planned if line.startswith(("warning", "shares"))] == lines


@pytest.mark.report
def test_the_banner_of_the_report_says_it_first(tmp_path, convert):
    pictures = "cat/{0..5}.png dog/{0..9}.png emu/{0..9}.png"
    files = {f"cat/{number}.png": "broken" for number in range(1, 6)} | {"dog/b.png": "scene 16x16 9"}
    root, out = write_tree(tmp_path / "in", pictures, files), tmp_path / "out"
    words = ["--versioned", SPLITS, "--stratify", "--max_failures=0.5"]
    assert convert(f"--input={root}", f"--output={out}", *words).code == 0
    version = (out / "LATEST").read_text().strip()
    header, _, _ = (out / version / "report.html").read_text().partition("</header>")
    first = header.index("split validation has no record of 1 of 3 classes: cat")
    assert first < header.index("could not be converted")
    assert f" records in 2 shards, built {version[:4]}-{version[4:6]}-{version[6:8]} " in header


# A dry run.


def test_sizes_and_numbers_of_shards_are_estimated(photos, tmp_path, run, build):
    flags = [f"--input={photos}", "--image_encoding=keep", "--shard_size=400KB", "--splits=train=0.75,test=0.25"]
    lines = run("convert", f"--output={tmp_path / 'none'}", *flags, "--dry_run").out.splitlines()
    for split, entry in manifest_of(build(tmp_path / "out", *flags))["splits"].items():
        (line,) = [line for line in lines if line.startswith(split)]
        samples, amount, shards = re.fullmatch(rf"{split} +(\d+) +([0-9.]+) [KM]B +(\d+)", line).groups()
        assert float(amount) * (1e6 if " MB " in line else 1e3) == pytest.approx(entry["bytes"], rel=0.1)
        assert (int(samples), int(shards)) == (entry["records"], entry["shards"])


def test_rejections_that_the_listing_knows_are_those_of_the_build(tmp_path, convert, run):
    root = write_tree(tmp_path, "cat/{1..4}.png")
    rows = ["cat/1.png,a", "cat/2.png,", "cat/3.png,a", "cat/3.png,b", "cat/4.png,b"]
    (root / "t.csv").write_text("\n".join(["image,label", *rows]))
    flags = [f"--input={root / 't.csv'}", f"--output={root / 'out'}", "--image_size=8"]
    ran = run("convert", *flags, "--dry_run")
    assert (ran.code, ran.err) == (3, "")
    assert "nothing would be published: --max_failures=0.01 allows fewer" in ran.out
    assert convert(*flags).code == 3
    (root / "t.csv").write_text("\n".join(["image,label", *rows, "cat/gone.png,a"]))
    ran = run("convert", *flags, "--dry_run", "--max_failures=0.7")
    assert (ran.code, "nothing would be published" in ran.out) == (0, False)
    assert "  unreadable, for example cat/gone.png: no such file" in ran.out
    assert convert(*flags, "--max_failures=0.7").code == 0
    reasons = manifest_of(root / "out")["failure_reasons"]
    assert reasons == {"conflicting_rows": 2, "label_missing": 1, "unreadable": 1}
    for reason, count in reasons.items():
        assert f"{reason} {count}" in ran.out


def test_rows_of_one_image_are_one_sample_of_those_that_would_go(tmp_path, run):
    rows = [f"{number // 2}.png,{'cat' if number % 2 else 'dog'},1,1,9,9\n" for number in range(6)]
    write_tree(tmp_path, "{0..2}.png", {"boxes.csv": "path,label,xmin,ymin,xmax,ymax\n" + "".join(rows)})
    words = ["convert", tmp_path / "boxes.csv", tmp_path / "out"]
    ran = run(*words, "--dry_run")
    assert "note: 3 rows belong to the image of another row, and are counted above" in ran.out
    assert "nothing was built or written; 3 samples would go to" in ran.out
    assert "6 rows of 3 images in " in run(*words).out


def test_a_dry_run_of_a_finished_output_is_refused_and_changes_nothing(tmp_path, run, build):
    root = write_tree(tmp_path / "in", "cat/1.png dog/2.png")
    out = build(tmp_path / "out", f"--input={root}")
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    ran = run("convert", root, out, "--dry_run")
    ran.refused("output_exists", "output", "versioned", "reuse", "overwrite")
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    shutil.rmtree(root)
    run("convert", root, tmp_path / "new", "--dry_run").refused("not_found", "input")
