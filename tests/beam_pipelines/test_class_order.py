"""Class indices between versions: earlier classes keep theirs, whatever comes and goes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import beam_tfrecords
from tests.annotated_inputs import save_pictures, write_coco
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.beam_pipelines.version_builds import Source, with_flags

FLAGS = ["--name=pets", "--image_size=8", "--accept=all"]


@pytest.fixture
def source(tmp_path, convert) -> Source:
    return Source(tmp_path / "in", tmp_path / "out", convert)


@pytest.fixture
def add(source):
    """Gives classes two pictures each."""

    def write(*names: str) -> None:
        for name in names:
            for number in range(2):
                source.put(f"{name}/{number}.png", sum(name.encode()) + number)

    return write


def classes_of(path: Path) -> list[str]:
    return manifest_of(path)["class_names"]


# Steps of versions: classes that come and go (-), flags, and the class names after it or what a guard says.
STEPS: dict[str, list[tuple[str, str, str]]] = {
    "a class that appears moves no other": [("bbb ccc", "", "bbb ccc"), ("aaa", "", "bbb ccc aaa")],
    "a class that vanished keeps its place until classes are sorted": [
        ("aaa bbb", "", "aaa bbb"),
        ("-aaa", "", "aaa bbb"),
        ("", "", "aaa bbb"),
        ("", "--class_order=sorted --accept=count", "indices that move: bbb 1 -> 0; before: aaa, bbb; allowed: none\n"),
        ("", "--class_order=sorted", "bbb"),
    ],
    "every index that another order moves is named": [
        ("b c d", "", "b c d"),
        ("a", "--class_order=sorted --accept=count,classes,class_shares", "move: b 0 -> 1, c 1 -> 2, d 2 -> 3;"),
    ],
    "the request numbers classes": [
        ("aaa bbb", "", "aaa bbb"),
        ("", "--class_names=bbb,aaa", "bbb aaa"),
        ("", "", "bbb aaa"),
    ],
    "a limit leaves the other classes their places": [("a b c", "", "a b c"), ("", "--limit=1", "a b c")],
    "classes come and go": [
        ("m n", "", "m n"),
        ("x b", "", "m n b x"),
        ("-m c", "", "m n b x c"),
        ("m -b", "", "m n b x c"),
    ],
}


@pytest.mark.parametrize("name", STEPS)
def test_earlier_classes_keep_their_indices_and_the_bytes_are_those_of_a_build_with_their_names(
    source, add, tmp_path, name
):
    for number, (changes, flags, expected) in enumerate(STEPS[name]):
        add(*(change for change in changes.split() if change[0] != "-"))
        for change in changes.split():
            if change[0] == "-":
                shutil.rmtree(source.folder / change[1:])
        words = flags.split()
        ran = source.build(*(FLAGS[:2] if "--accept" in flags else FLAGS), *words)
        if ";" in expected:
            assert ran.code == 3
            assert expected in ran.err
            continue
        assert ran.code == 0, ran.err
        latest = source.latest
        assert classes_of(latest) == (latest / "label.labels.txt").read_text().split() == expected.split()
        assert beam_tfrecords.verify(latest) == []
        new, names = tmp_path / f"new{number}", f"--class_names={','.join(classes_of(latest))}"
        words = with_flags(names, *FLAGS[:2], *(word for word in words if "limit" in word))
        assert source.convert(f"--input={source.folder}", f"--output={new}", *words).code == 0
        for pattern in ("*.tfrecord-*", "*.txt", "features.json", "index/*"):
            written = {path.relative_to(latest): path.read_bytes() for path in latest.glob(pattern)}
            assert written == {path: (new / path).read_bytes() for path in written}
    if name.startswith("a class that appears"):
        assert source.counts() == {"copied": 4, "added": 2}
        assert "3 would have another index in a dataset of their own" in " ".join(manifest_of(latest)["notes"])
    assert len(source.versions) <= len(STEPS[name])


def test_categories_of_coco_keep_their_indices(source, tmp_path):
    save_pictures(tmp_path / "in")
    path = write_coco(tmp_path / "in/instances.json")
    flags = [f"--input={path}", f"--image_root={tmp_path / 'in'}", "--layout=detection", *FLAGS]
    words = [f"--output={source.output}", "--versioned", *flags]
    assert source.convert(*words).code == 0
    before = classes_of(source.latest)
    label_map = (source.latest / "label_map.pbtxt").read_text()
    coco = json.loads(path.read_text())
    coco["categories"] = [{"id": 77, "name": "aardvark"}, *reversed(coco["categories"])]
    path.write_text(json.dumps(coco))
    ran = source.convert(*words)
    assert ran.code == 0, ran.err
    assert classes_of(source.latest) == [*before, "aardvark"]
    assert (source.latest / "label_map.pbtxt").read_text().startswith(label_map)
    assert beam_tfrecords.verify(source.latest) == []


def test_labels_that_are_indices_are_not_renumbered_and_the_guard_says_what_they_meant(source, picture, save):
    for number in range(2):
        save(source.folder / f"{number}.png", picture(number, 9, 9))
    table = source.folder / "rows.csv"
    table.write_text("image,label\n0.png,0\n1.png,1\n")
    words = [f"--input={table}", f"--output={source.output}", "--versioned", *FLAGS[:2]]
    assert source.convert(*words, "--class_names=cat,dog").code == 0
    ran = source.convert(*words)
    assert ran.code == 3
    assert "class indices that move: index 0: cat -> 0, index 1: dog -> 1;" in ran.err


def test_a_dry_run_shows_the_classes_that_would_move(source, add, run):
    add("bbb", "ccc")
    assert source.build(*FLAGS).code == 0
    add("aaa")
    words = [f"--input={source.folder}", f"--output={source.output}", "--versioned", *FLAGS[:2]]
    assert "classes keep the indices of the version before" in run("convert", *words, "--dry_run").out


def test_an_earlier_dataset_without_versions_gives_the_indices_if_that_is_asked_for(source, add, tmp_path):
    add("bbb", "ccc")
    words = [f"--input={source.folder}", *FLAGS[:2]]
    assert source.convert(*words, f"--output={tmp_path / 'one'}").code == 0
    add("aaa")
    reuse = [*words, f"--reuse={tmp_path / 'one'}"]
    assert source.convert(*reuse, f"--output={tmp_path / 'two'}").code == 0
    assert classes_of(tmp_path / "two") == ["aaa", "bbb", "ccc"]
    assert source.convert(*reuse, f"--output={tmp_path / 'three'}", "--class_order=stable").code == 0
    assert classes_of(tmp_path / "three") == ["bbb", "ccc", "aaa"]


def test_overwriting_names_the_classes_whose_index_changes_and_the_flags_that_keep_them(source, add, run):
    words = [f"--input={source.folder}", f"--output={source.output}", *FLAGS[:2]]
    add("cat", "dog", "fox")
    assert source.convert(*words).code == 0
    add("bee")
    stable = ["--class_order=stable", f"--reuse={source.output}"]
    for ran, shown in (
        (run("convert", *words, "--overwrite", "--dry_run"), "out"),
        (source.convert(*words, "--overwrite"), "err"),
    ):
        assert f"class indices change in {source.output}: cat 0 -> 1, dog 1 -> 2, fox 2 -> 3;" in getattr(ran, shown)
        assert f"{' '.join(stable)} keeps them" in getattr(ran, shown)
    add("ant")
    ran = source.convert(*words, "--overwrite", *stable)
    assert "class indices change" not in ran.err
    assert classes_of(source.output) == ["bee", "cat", "dog", "fox", "ant"]


def test_overwriting_names_the_classes_of_several_features_too(tmp_path, save, picture, convert):
    table = tmp_path / "pets.csv"
    words = [f"--input={table}", f"--output={tmp_path / 'out'}", "--layout=image,kind:class,coat:class", *FLAGS[:2]]
    for coats in ("bw", "abw"):
        for number in range(len(coats)):
            save(tmp_path / f"{number}.png", picture(number, 8, 8))
        rows = "".join(f"{number}.png,{'cat' if number else 'dog'},{coat}\n" for number, coat in enumerate(coats))
        table.write_text(f"image,kind,coat\n{rows}")
        ran = convert(*words, "--overwrite")
        assert ran.code == 0, ran.err
    assert "class indices change" in ran.err
    assert ": b 0 -> 1 of coat, w 1 -> 2 of coat;" in ran.err
