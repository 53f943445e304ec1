"""Which samples are wanted: by path and by class, whatever the source."""

from __future__ import annotations

import json
import tarfile

import pytest

from beam_tfrecords.transforms.refs.sample_refs import File, SampleRef, one_image
from beam_tfrecords.transforms.sources.selection import Selection
from tests.beam_pipelines.dataset_checks import manifest_of, splits_of
from tests.refusals import refuses


@pytest.mark.parametrize(
    ("glob", "matches", "others"),
    [
        ("*.png", ["1.png", "cat/1.png", "a/b/1.png"], ["1.jpg", "1.png.jpg"]),
        ("cat", ["cat/1.jpg", "a/cat/b/1.jpg"], ["cats/1.jpg", "1_cat.jpg"]),
        ("cat/*", ["cat/1.jpg", "cat/old/1.jpg"], ["a/cat/1.jpg", "dog/cat.jpg"]),
        ("**/old/*.jpg", ["old/1.jpg", "a/b/old/1.jpg"], ["older/1.jpg", "a/old.jpg"]),
        ("*_[ab].jpg", ["x_a.jpg", "cat/x_b.jpg"], ["x_c.jpg"]),
    ],
)
def test_a_glob_matches_paths_and_folders_above_them(glob, matches, others):
    include, exclude = Selection(include=(glob,)), Selection(exclude=(glob,))
    for path in matches:
        assert (include.skips_path(path), exclude.skips_path(path)) == (None, "exclude")
    for path in others:
        assert (include.skips_path(path), exclude.skips_path(path)) == ("include", None)


def test_exclude_beats_include_and_one_of_several_globs_is_enough():
    selection = Selection(include=("cat", "dog"), exclude=("*.gif",))
    assert [selection.skips_path(path) for path in ("cat/1.jpg", "dog/1.jpg", "cat/1.gif", "cow/1.jpg")] == [
        None,
        None,
        "exclude",
        "include",
    ]


def test_classes_are_compared_as_labels_are():
    def skips(label, *classes):
        selection = Selection(classes=classes)
        return selection.skips(SampleRef("a", one_image(File("a")), label=label), selection.class_filter())

    assert skips("caf\u00e9", "cafe\u0301") is None
    assert skips(1, "1", "3") is skips("3", "1", "3") is skips(3.0, "1", "3") is None
    assert skips(0, "1", "3") == skips("13", "1", "3") == "other class"
    assert skips(0, "cat") == skips(1, "cat") == "other class"
    assert skips(["cat", "dog"], "cat", "dog") is None
    assert skips(["cat", "cow"], "cat", "dog") == "other class"
    assert skips(None, "cat") is None


def test_a_class_that_no_sample_has_is_refused():
    with refuses("class_without_samples", "classes", says=["classes=cat,dgo", "class dgo"]):
        Selection(classes=("cat", "dgo")).check_classes({"cat": 3})


@pytest.fixture(scope="module")
def inputs(photos, tmp_path_factory):
    """The photos as a folder, a table and an archive: path of each."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "photos").symlink_to(photos)
    rows = [f"photos/{path.relative_to(photos)},{path.parent.name}" for path in sorted(photos.glob("*/*.jpg"))]
    (folder / "table.csv").write_text("\n".join(["image,label", *rows]))
    with tarfile.open(folder / "photos.tar", "w") as archive:
        archive.add(photos, ".")
    return {"folder": photos, "table": folder / "table.csv", "archive": folder / "photos.tar"}


@pytest.mark.parametrize("kind", ["folder", "table", "archive"])
@pytest.mark.parametrize("setting", ["include", "exclude"])
def test_a_glob_that_matches_nothing_is_refused(inputs, tmp_path, convert, kind, setting):
    flags = [f"--input={inputs[kind]}", f"--output={tmp_path / 'out'}", "--dry_run", f"--{setting}=*_0?.jpg"]
    convert(*flags, f"--{setting}=*.jpgg").refused("unmatched_glob", setting, says=["*.jpgg"])


def test_a_glob_that_matches_only_what_is_no_sample_is_not_refused(touch, convert, tmp_path):
    root = touch("in/cat/1.jpg", "in/dog/2.jpg", "in/cat/1.txt")
    assert convert(f"--input={root}/in", f"--output={tmp_path / 'out'}", "--dry_run", "--exclude=*.txt").code == 0


@pytest.mark.parametrize("setting", ["include", "exclude"])
def test_a_glob_that_matches_only_what_splits_leave_out_is_not_refused(touch, convert, tmp_path, setting):
    names = [f"{split}/cat/{number}.jpg" for split in ("train", "test", "extra") for number in range(8)]
    root = touch(*(f"in/{name}" for name in names), *(f"in/{name}".replace("cat", "dog") for name in names))
    flags = [f"--input={root}/in", f"--output={tmp_path / 'out'}", "--dry_run", "--splits=train=train,test=test"]
    globs = ["extra/dog/7.jpg", *(["train/**", "test/**"] if setting == "include" else [])]
    ran = convert(*flags, *(f"--{setting}={glob}" for glob in globs))
    assert ran.code == 0, ran.err
    globs.append("x")
    convert(*flags, *(f"--{setting}={glob}" for glob in globs)).refused("unmatched_glob", setting)


@pytest.mark.parametrize("kind", ["folder", "table", "archive"])
def test_samples_that_are_not_wanted_are_skipped_and_counted(inputs, photos, tmp_path, build, kind):
    flags = ["--classes=cat,flower", "--exclude=*_01.jpg", "--include=*_0[1-4].jpg", "--include=*_0[5-9].jpg"]
    out = build(tmp_path / "out", f"--input={inputs[kind]}", *flags, "--image_size=16")
    names = {path.relative_to(photos).as_posix() for path in photos.glob("*/*.jpg")}
    wanted = {name for name in names if name.startswith(("cat/", "flower/")) and not name.endswith("_01.jpg")}
    assert {key.removeprefix("photos/") for key in splits_of(out)} == wanted
    manifest = manifest_of(out)
    assert manifest["class_names"] == ["cat", "flower"]
    skipped = {kind: entry["files"] for kind, entry in manifest["skipped"].items()}
    assert skipped["excluded"] == sum(name.endswith("_01.jpg") for name in names)
    assert skipped["excluded"] + skipped["other class"] + len(wanted) == len(names)


def test_rows_of_one_group_stay_in_one_split(photos, tmp_path, build, convert):
    paths = sorted(photos.glob("*/*.jpg"))
    patients = {str(path): number // 6 for number, path in enumerate(paths)}
    rows = [{"image": path, "label": path.split("/")[-2], "patient": patient} for path, patient in patients.items()]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    flags = [f"--input={tmp_path / 'rows.jsonl'}", "--group_column=patient", "--allow_outside_root", "--image_size=16"]
    splits = splits_of(build(tmp_path / "out", *flags, "--splits=train=0.5,test=0.5"))
    assert len({(patient, splits[path]) for path, patient in patients.items()}) == len(set(patients.values()))
    assert set(splits.values()) == {"train", "test"}
    refused = convert(*flags, f"--output={tmp_path / 'other'}")
    refused.refused("needs_setting", "group_column", "splits")


def test_a_group_named_group_in_the_pattern_keeps_images_in_one_split(touch, opened, listed):
    root = touch("p1-cat-1.jpg", "p1-cat-2.jpg", "p2-dog-1.jpg")
    samples = listed(opened(root, label_pattern=r"(?P<group>p\d)-(?P<label>\w+)-"))
    assert {key: sample.group for key, sample in samples.items()} == {
        "p1-cat-1.jpg": "p1",
        "p1-cat-2.jpg": "p1",
        "p2-dog-1.jpg": "p2",
    }
