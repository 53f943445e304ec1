"""`convert --dry_run`: what would be built is shown, and nothing is started or written."""

from __future__ import annotations

import csv
import re
import shutil
import tarfile

import pytest

from tests.beam_pipelines.dataset_checks import manifest_of
from tests.refusals import Refusal


@pytest.fixture
def shown(run, tmp_path):
    """The lines of a dry run, after a look that it wrote nothing."""

    def show(*words, code: int = 0) -> list[str]:
        output = tmp_path / "nothing"
        ran = run("convert", f"--output={output}", "--dry_run", *words)
        assert (ran.code, ran.err) == (code, "")
        assert not output.exists()
        return ran.out.splitlines()

    return show


def test_splits_classes_and_samples_are_those_of_the_build(shown, photos, tmp_path, build):
    flags = [f"--input={photos}", "--splits=train=0.75,test=0.25", "--image_size=32"]
    lines = shown(*flags)
    manifest = manifest_of(build(tmp_path / "out", *flags))
    for split, entry in manifest["splits"].items():
        assert any(re.match(rf"{split} +{entry['records']} ", line) for line in lines), lines
        classes = ", ".join(f"{name} {count}" for name, count in entry["classes"].items())
        assert f"classes of {split}: {classes}" in lines
    assert "classes: building 6, cat 6, coffee 6, flower 6, person 6, rocket 6, space 6" in shown(f"--input={photos}")
    assert lines[-1] == f"dry run: nothing was built or written; 42 samples would go to {tmp_path / 'nothing'}"


def test_size_and_number_of_shards_are_estimated(shown, photos, tmp_path, build):
    flags = [f"--input={photos}", "--image_encoding=keep", "--shard_size=400KB"]
    (line,) = [line for line in shown(*flags) if line.startswith("train")]
    entry = manifest_of(build(tmp_path / "out", *flags))["splits"]["train"]
    amount, shards = re.fullmatch(r"train +42 +([0-9.]+) MB +([0-9]+)", line).groups()
    assert float(amount) * 1e6 == pytest.approx(entry["bytes"], rel=0.1)
    assert int(shards) == entry["shards"] > 1


def test_five_samples_are_shown_with_split_label_and_source(shown, photos):
    lines = shown(f"--input={photos}")
    start = next(number for number, line in enumerate(lines) if line.split() == ["sample", "split", "label", "source"])
    rows = [line.split() for line in lines[start + 1 : -1]]
    assert len(rows) == 5
    for key, split, label, source in rows:
        assert (split, label, source) == ("train", key.split("/")[0], f"{photos}/{key}")


def test_rows_that_cannot_be_read_are_counted_with_an_example(shown, photos, tmp_path):
    shutil.copytree(photos / "cat", tmp_path / "cat")
    with (tmp_path / "labels.csv").open("w", newline="") as file:
        names = [f"cat/cat_0{number}.jpg" for number in (1, 2, 3)]
        csv.writer(file).writerows([("image", "label"), *((name, name[-5]) for name in (*names, "cat/missing.jpg"))])
    lines = shown(f"--input={tmp_path / 'labels.csv'}", "--max_failures=0.25")
    assert "failures: unreadable 1" in lines
    assert any(re.match(r"  unreadable, for example cat/missing.jpg: no such file", line) for line in lines)


def test_skipped_files_and_notes_are_shown(shown, pets):
    lines = shown(f"--input={pets}", "--image_encoding=webp")
    assert any(line.startswith("skipped: ") and "hidden" in line for line in lines)
    assert any(line.startswith("note: TensorFlow Datasets reads image as bytes") for line in lines)


def test_a_compressed_archive_is_listed_without_keeping_its_content(shown, photos, tmp_path, temporary_folder):
    with tarfile.open(tmp_path / "photos.tar.gz", "w:gz") as archive:
        archive.add(photos, ".")
    lines = shown(f"--input={tmp_path / 'photos.tar.gz'}")
    assert any(re.match(r"train +42 ", line) for line in lines)
    assert any(line.endswith("photos.tar.gz#cat/cat_05.jpg") for line in lines)
    assert not list(temporary_folder.iterdir())


@pytest.mark.parametrize(
    ("word", "refusal"),
    [
        ("--limt=3", Refusal("unknown_setting", "limt", says=["--limit?"])),
        (
            "--label_pattern=(?P<label>zebra)",
            Refusal("unmatched_label_pattern", "label_pattern", "input", says=["zebra", "42 keys"]),
        ),
        ("--num_shards=100", Refusal("too_few_samples", "num_shards", says=["num_shards=100", "train", "42 samples"])),
        ("--resize_mode=crop", Refusal("needs_setting", "resize_mode", "image_size")),
    ],
)
def test_a_wrong_request_is_refused_as_the_build_would(run, photos, tmp_path, word, refusal):
    ran = run("convert", f"--input={photos}", f"--output={tmp_path / 'out'}", "--dry_run", word)
    ran.refused(refusal)
    assert (ran.out, ran.err.count("\n")) == ("", 1)


def test_a_finished_output_is_refused(run, photos, tmp_path, build):
    out = build(tmp_path / "out", f"--input={photos / 'cat'}", "--layout=image", "--image_size=8")
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    ran = run("convert", f"--input={photos}", f"--output={out}", "--dry_run")
    ran.refused("output_exists", "output", "versioned", "reuse", "overwrite")
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_rejections_that_the_listing_knows_are_those_of_the_build(shown, photos, tmp_path, convert):
    shutil.copytree(photos / "cat", tmp_path / "cat")
    names = [f"cat/cat_0{number}.jpg" for number in (1, 2, 3, 4)]
    rows = [f"{names[0]},a", f"{names[1]},", f"{names[2]},a", f"{names[2]},b", f"{names[3]},b"]
    (tmp_path / "labels.csv").write_text("\n".join(["image,label", *rows]))
    flags = [f"--input={tmp_path / 'labels.csv'}", "--image_size=8"]
    lines = shown(*flags, code=3)
    assert "nothing would be published: --max_failures=0.01 allows fewer" in lines
    assert convert(*flags, f"--output={tmp_path / 'out'}").code == 3
    (tmp_path / "labels.csv").write_text("\n".join(["image,label", *rows, "cat/gone.jpg,a"]))
    allowed = shown(*flags, "--max_failures=0.7")
    assert not [line for line in allowed if "nothing would be published" in line]
    assert convert(*flags, f"--output={tmp_path / 'out'}", "--max_failures=0.7").code == 0
    reasons = manifest_of(tmp_path / "out")["failure_reasons"]
    assert reasons == {"conflicting_rows": 2, "label_missing": 1, "unreadable": 1}
    for reason in reasons:
        assert any(reason in line for line in allowed), allowed


def test_rows_of_one_image_are_one_sample_of_those_that_would_go(tmp_path, picture, save, run):
    for number in range(3):
        save(tmp_path / f"{number}.png", picture(number, 20, 20))
    rows = [f"{number // 2}.png,{'cat' if number % 2 else 'dog'},1,1,9,9" for number in range(6)]
    (tmp_path / "boxes.csv").write_text("\n".join(["path,label,xmin,ymin,xmax,ymax", *rows]) + "\n")
    ran = run("convert", f"--input={tmp_path / 'boxes.csv'}", f"--output={tmp_path / 'out'}", "--dry_run")
    assert ran.code == 0
    assert "note: 3 rows belong to the image of another row, and are counted above" in ran.out
    assert "nothing was built or written; 3 samples would go to" in ran.out
    ran = run("convert", f"--input={tmp_path / 'boxes.csv'}", f"--output={tmp_path / 'out'}")
    assert "6 rows of 3 images in " in ran.out
