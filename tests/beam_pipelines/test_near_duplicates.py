"""`--near_duplicates`: photos that were encoded again, resized or cropped a little are listed, and no shard changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from tests.beam_pipelines.dataset_checks import manifest_of
from tests.beam_pipelines.test_duplicates import groups_of, shards_of
from tests.beam_pipelines.version_builds import Source, make_source
from tests.image_checks import PHOTOS, upright

FLAGS = ["--image_size=64", "--name=photos"]


def changed(photo: Image.Image, number: int) -> Image.Image:
    """The photo smaller, or without 1% of its edges."""
    width, height = photo.size
    if number % 2:
        return photo.resize((width * 3 // 4, height * 3 // 4), Image.Resampling.LANCZOS)
    return photo.crop((width // 200, height // 200, width - width // 200, height - height // 200))


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    """Photos in `train`, and copies of every third in `test`, all encoded again and one under another label."""
    root = tmp_path_factory.mktemp("near") / "photos"
    for number, path in enumerate(PHOTOS):
        label = path.parent.name
        whole = upright(path).convert("RGB")
        for split, image in (("train", whole), ("test", changed(whole, number)))[: 1 if number % 3 else 2]:
            name = "other" if split == "test" and number == 0 else label
            (root / split / name).mkdir(parents=True, exist_ok=True)
            image.save(root / split / name / f"{number}.jpg", quality=95 if split == "train" else 70)
    return root


@pytest.fixture(scope="module")
def plain(photos, build) -> Path:
    return build(photos.parent / "plain", f"--input={photos}", *FLAGS)


@pytest.fixture(scope="module")
def near(photos, build) -> Path:
    return build(photos.parent / "listed", f"--input={photos}", *FLAGS, "--near_duplicates=4")


@pytest.mark.any_workers
def test_copies_of_real_photos_are_listed_across_splits_and_with_their_labels(near):
    groups = groups_of(near)
    pairs = [sorted(image["key"].rsplit("/")[-1] for image in group["images"]) for group in groups]
    planted = [f"{number}.jpg" for number in range(0, len(PHOTOS), 3)]
    assert all(group["kind"] == "near" and group["across_splits"] for group in groups)
    assert sorted(pairs) == sorted([name, name] for name in planted)
    (conflicting,) = [group for group in groups if group["conflicting_labels"]]
    assert {image["label"] for image in conflicting["images"]} == {"other", PHOTOS[0].parent.name}
    manifest = manifest_of(near)
    assert manifest["near_duplicates"] == {
        "groups": len(planted),
        "groups_across_splits": len(planted),
        "groups_with_conflicting_labels": 1,
    }
    assert manifest["duplicates"]["groups"] == 0
    assert manifest["records"] == manifest["listed"]


@pytest.mark.nightly
@pytest.mark.any_workers
def test_they_are_only_listed(plain, near, verify):
    assert shards_of(plain) == shards_of(near)
    assert (plain / "duplicates.jsonl").read_bytes() == b""
    assert manifest_of(plain)["near_duplicates"] == {}
    assert verify(near).code == 0


def test_the_report_lists_them_beside_identical_images(near, run):
    assert run("report", near).code == 0
    page = (near / "report.html").read_text()
    assert "None: no two files have the same bytes." in page
    count = manifest_of(near)["near_duplicates"]["groups"]
    assert f"{count} groups of images look nearly the same, {count} of them in more than one split" in page
    assert page.count("<td>2 near</td>") == count
    assert page.count("<h3>Nearly the same, in several splits") == count
    # Each beside its copy, and no picture of images that occur once.
    shown = page.split('id="duplicates"')[1].split("<h2")[0]
    assert shown.count("<img ") == 2 * count
    assert "<h3>The same</h3>" not in shown


def test_the_summary_counts_them(photos, convert, tmp_path):
    ran = convert(f"--input={photos}", f"--output={tmp_path / 'out'}", *FLAGS, "--near_duplicates=4", "--limit=1000")
    count = -(-len(PHOTOS) // 3)
    assert f"near-duplicates: groups: {count}, in more than one split: {count}, with different labels: 1\n" in ran.out
    ran = convert(f"--input={photos}", f"--output={tmp_path / 'none'}", *FLAGS)
    assert "near-duplicates" not in ran.out


@pytest.mark.parametrize("flag", ["--duplicates=drop", "--compression=gzip"])
def test_a_dropped_copy_is_near_to_nothing(photos, build, tmp_path, flag):
    for split in ("train", "test"):
        folder = tmp_path / "photos" / split / "cat"
        folder.mkdir(parents=True)
        (folder / "same.jpg").write_bytes(PHOTOS[0].read_bytes())
    upright(PHOTOS[0]).convert("RGB").save(tmp_path / "photos/train/cat/again.jpg", quality=80)
    flags = [*FLAGS, flag, "--near_duplicates=4", "--class_names=cat"]
    out = build(tmp_path / "out", f"--input={tmp_path / 'photos'}", *flags)
    same, again = groups_of(out)
    assert (same["copies"], "kind" in same) == (2, False)
    assert {image["key"].split("/")[-1] for image in again["images"]} == {"same.jpg", "again.jpg"}
    assert again["copies"] == (2 if "drop" in flag else 3)


def test_kept_files_have_no_hash_and_the_summary_says_so(photos, convert, tmp_path):
    words = [f"--input={photos / 'test'}", f"--output={tmp_path / 'out'}", "--image_encoding=keep"]
    ran = convert(*words, "--near_duplicates=4")
    count = manifest_of(tmp_path / "out")["records"]
    assert manifest_of(tmp_path / "out")["near_duplicates"] == {"not_hashed": count}
    assert f"no `phash` in the index and were not searched for near-duplicates: {count};" in ran.out


@pytest.fixture
def source(tmp_path, picture, save, convert) -> Source:
    return make_source(tmp_path, 60, picture=picture, save=save, convert=convert)


def test_records_that_are_taken_over_keep_their_hashes_and_new_leaks_trip_a_guard(source):
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
    assert manifest["reuse"]["converted"] == 12
    assert manifest["near_duplicates"]["groups"] == 12
    # With another distance there is nothing to compare it with.
    ran = source.build("--near_duplicates=3", *flags[1:])
    assert ran.code == 0, ran.err
    assert "near-duplicates in several splits" not in {one["what"] for one in source.changes["guards"]}
