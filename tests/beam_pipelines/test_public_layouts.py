"""What comes of folders, lists beside them and masks: the right records, or a refusal whose commands give them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import ANY

import pytest

from beam_tfrecords.beam_pipelines.settings.suggested_commands import explain
from beam_tfrecords.errors import RequestError
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.beam_pipelines.listed_records import Layout, commands_of, read, write_layout
from tests.each import each
from tests.refusals import refuses


@pytest.fixture
def make(tmp_path):
    """Makes the tree of a layout; returns the input."""
    return lambda layout: write_layout(layout, tmp_path)


VAL = {f"v_{number}.jpg": "dog" if number % 2 else "cat" for number in range(1, 5)}


@each(
    "files, name, rows",
    [
        ("val/v_{1..4}.jpg", "val.txt", [f"{image} {label}" for image, label in VAL.items()]),
        ("val/v_{1..4}.jpg", "val.txt", [f"val/{image} {label}" for image, label in VAL.items()]),
        ("val/v_{1..4}.jpg", "val/val.csv", ["image,label", *(f"{image},{label}" for image, label in VAL.items())]),
        ("val/v_{1..4}.jpg", "val.csv", ["id,breed", *(f"{image[:-4]},{label}" for image, label in VAL.items())]),
        ("val/images/v_{1..4}.jpg", "val/boxes.txt", [f"{one}\t{label}\t0\t5\t6" for one, label in VAL.items()][::-1]),
        ("valid/v_{1..4}.jpg", "labels_valid.tsv", ["file\tclass", *(f"{one}\t{label}" for one, label in VAL.items())]),
    ],
)
def test_a_list_gives_the_classes_of_a_split_without_class_folders(files, name, rows, tmp_path):
    tables = {name: "\n".join([*rows, ""]), "README.txt": "cats and dogs\n", "classes.txt": "cat\ndog\n"}
    root = write_layout(Layout("a list", f"train/{{cat,dog}}/{{1..3}}.jpg {files}", tables=tables), tmp_path)
    records, notes = read([f"--input={root}", "--output=out"], tmp_path / "listing")
    assert records == {"train": {"cat": 3, "dog": 3}, "validation": {"cat": 2, "dog": 2}}
    assert any(f"{name} has the labels of the images in" in note for note in notes)
    assert not any("not read" in note for note in notes)


@each(
    "rows, why",
    [
        (["v_1.jpg 1", "v_2.jpg 0", "v_3.jpg 1", "v_4.jpg 0"], "numbers are no names of the folders"),
        (["v_1.jpg cat", "v_2.jpg cow", "v_3.jpg cat", "v_4.jpg dog"], "another class"),
        (["v_1.jpg cat", "v_2.jpg dog", "v_3.jpg cat", "v_3.jpg dog", "v_4.jpg dog"], "two classes of an image"),
        (["v_1.jpg dog", "v_1.jpg dog"], "most images are not in it"),
    ],
)
def test_a_list_that_does_not_give_these_classes_is_not_taken_for_one(rows, why, tmp_path):
    files = "train/{cat,dog}/{1..3}.jpg val/v_{1..4}.jpg"
    root = write_layout(Layout(why, files, tables={"val.txt": "\n".join([*rows, ""])}), tmp_path)
    with refuses("no_class_folders", "input", says=["val"]):
        read([f"--input={root}", "--output=out"], tmp_path / "listing")


def test_an_image_that_the_list_lacks_is_a_failure(make, convert, tmp_path):
    tables = {"val.txt": "v_1.jpg dog\nv_2.jpg cat\nv_3.jpg dog\n"}
    root = make(Layout("a list", "train/{cat,dog}/{1..3}.jpg val/v_{1..4}.jpg", tables=tables))
    ran = convert(f"--input={root}", f"--output={tmp_path / 'out'}", "--max_failures=1")
    assert ran.code == 0, ran.err
    assert "val.txt has the labels of the images in val: 3 labels for 4 images" in ran.out
    manifest = manifest_of(tmp_path / "out")
    assert (manifest["records"], manifest["failure_reasons"]) == (9, {"label_missing": 1})


@each("name", ["train.txt", "labels.csv", "val_list.txt"])
def test_class_folders_in_an_archive_say_which_lists_are_not_read(name, tmp_path):
    layout = Layout("classes", "{cat,dog}/{1..3}.jpg", tables={name: "cat/1.jpg cat\ndog/2.jpg dog\n"})
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", write_layout(layout, tmp_path))
    records, notes = read([f"--input={archive}", "--output=out"], tmp_path / "listing")
    assert records == {"train": {"cat": 3, "dog": 3}}
    assert notes == [f"`input={archive}`: the folders give the labels; not read: {name}"]


def test_what_is_excluded_does_not_count(make, tmp_path):
    root = make(Layout("splits beside another folder", "{train,test}/{cat,dog}/1.jpg extra/3.jpg"))
    records, _ = read([f"--input={root}", "--output=out", "--exclude=extra"], tmp_path / "listing")
    assert records == {"train": {"cat": 1, "dog": 1}, "test": {"cat": 1, "dog": 1}}


def test_a_list_of_boxes_beside_class_folders_is_named(make, tmp_path):
    boxes = "0--Parade/1.jpg\n1\n1 1 3 3\n1--Hands/3.jpg\n1\n2 2 3 3\n"
    root = make(Layout("scenes", "images/{0--Parade,1--Hands}/{1..3}.jpg", tables={"boxes.txt": boxes}))
    records, notes = read([f"--input={root}", "--output=out"], tmp_path / "listing")
    assert records == {"train": {"0--Parade": 3, "1--Hands": 3}}
    assert any("boxes.txt" in note for note in notes)


def pack_each(folder: Path, names: Iterable[str], extension: str, *members: str) -> None:
    """Packs archives of these names, with three of each member."""
    for name in names:
        paths = [folder / name / member.format(number) for member in members for number in range(3)]
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        kind = {"tar": "tar", "tar.gz": "gztar", "zip": "zip"}[extension]
        shutil.make_archive(str(folder / name), kind, folder / name)


@pytest.mark.parametrize("extension", ["tar", "tar.gz", "zip"])
@pytest.mark.parametrize("names", [("cat", "dog"), ("n01440764", "n01443537")], ids=["words", "WordNet"])
def test_the_name_of_an_archive_without_folders_is_the_class(tmp_path, names, extension):
    pack_each(tmp_path, names, extension, "{}x.jpg")
    records, notes = read([f"--input={tmp_path}/*.{extension}", "--output=out"], tmp_path / "listing")
    assert records == {"train": dict.fromkeys(names, 3)}
    assert notes == [f"`input={tmp_path}/*.{extension}`: the archives have no folders; the name of each is the class"]


def test_archives_that_are_classes_are_split_by_fractions(tmp_path):
    pack_each(tmp_path, ("cat", "dog"), "tar", "{}x.jpg")
    words = [f"--input={tmp_path}/*.tar", "--output=out", "--splits=train=0.5,test=0.5", "--stratify"]
    records, _ = read(words, tmp_path / "listing")
    assert records == {split: {"cat": ANY, "dog": ANY} for split in ("train", "test")}
    assert sum(sum(split.values()) for split in records.values()) == 6


@pytest.mark.parametrize("names", [("part1", "part2"), ("a_0", "a_1"), ("images", "more"), ("000", "001")])
def test_the_names_of_parts_are_no_classes(tmp_path, names):
    pack_each(tmp_path, names, "tar", "{}.jpg")
    with refuses("no_class_folders", "input", "label_pattern", says=["directly in it"]):
        read([f"--input={tmp_path}/*.tar", "--output=out"], tmp_path / "listing")


def test_folders_in_archives_beat_their_names(tmp_path):
    pack_each(tmp_path, ("red", "green"), "tar", "cat/{}.jpg", "dog/{}.jpg")
    records, _ = read([f"--input={tmp_path}/*.tar", "--output=out"], tmp_path / "listing")
    assert records == {"train": {"cat": 6, "dog": 6}}


def test_the_names_of_several_inputs_may_be_the_classes(make, tmp_path):
    root = make(Layout("folders as inputs", "{cat,dog}/{1..3}.jpg"))
    argv = [f"--input={root}/cat", f"--input={root}/dog", "--output=out"]
    with refuses("no_class_folders", "input", "label_pattern", says=["directly in it"]) as refused:
        read(argv, tmp_path / "listing")
    first, *_ = commands_of(explain(refused.value, "convert", argv))
    assert read(first, tmp_path / "listing1")[0] == {"train": {"cat": 3, "dog": 3}}


def test_annotations_that_the_request_includes_are_wanted(make, tmp_path):
    root = make(Layout("masks", "{images,masks}/{1..3}.jpg"))
    argv = [f"--input={root}", "--output=out", "--layout=image"]
    with refuses("images_and_masks", "input", says=["in masks look"]):
        read([*argv, "--include=*.jpg"], tmp_path / "listing")
    records, _ = read([*argv, "--include=masks/**"], tmp_path / "listing")
    assert records == {"train": {"": 3}}


def test_a_pattern_beats_the_rules_and_the_masks_are_noted(make, tmp_path):
    root = make(Layout("masks", "images/{cat,dog}_{1..3}.jpg masks/{cat,dog}_{1..3}.png"))
    argv = [f"--input={root}", "--output=out", r"--label_pattern=(?P<label>[a-z]+)_"]
    records, notes = read(argv, tmp_path / "listing")
    assert records == {"train": {"cat": 6, "dog": 6}}
    assert notes == [
        f"`input={root}`: the 6 images in masks look like masks or annotations; to leave them out, use "
        "`exclude=masks/**`"
    ]
    assert read([*argv, "--exclude=masks/**"], tmp_path / "other") == ({"train": {"cat": 3, "dog": 3}}, [])


def test_masks_in_split_folders_that_the_request_names_are_refused(make, tmp_path):
    root = make(Layout("masks in splits", "{a,b}/{images,masks}/{1..3}.png"))
    argv = [f"--input={root}", "--output=out", "--splits=train=a,test=b", "--layout=image"]
    with refuses("images_and_masks", "input", says=["a/masks, b/masks"]) as refused:
        read(argv, tmp_path / "listing")
    (command,) = commands_of(explain(refused.value, "convert", argv))
    assert read(command, tmp_path / "listing1")[0] == {"train": {"": 3}, "test": {"": 3}}


@pytest.mark.parametrize(
    "files", ["images/{10..99}.jpg gt/{10..99}_seg.png", "images/{10..99}_sat.jpg masks/{10..99}_mask.png"]
)
def test_suffixes_are_found_in_folders_of_which_only_some_names_are_known(files, make, convert, tmp_path):
    root = make(Layout("pairs of folders", files))
    flags = [f"--input={root}", f"--output={tmp_path / 'out'}", "--layout=segmentation"]
    (command,) = commands_of(convert(*flags).err.splitlines())
    assert convert(*command).code == 0
    assert manifest_of(tmp_path / "out")["records"] == 90


def test_further_masks_of_an_image_are_left_out(make, convert, tmp_path):
    root = make(Layout("several masks", "{a,b}/{1..6}.png {a,b}/{1..6}_mask.png a/1_mask_1.png"))
    flags = [f"--input={root}", f"--output={tmp_path / 'out'}", "--layout=segmentation"]
    (command,) = commands_of(convert(*flags).err.splitlines())
    assert convert(*command).code == 0
    assert manifest_of(tmp_path / "out")["records"] == 12


def test_other_annotations_are_left_out_as_the_refusal_says(make, convert, tmp_path):
    root = make(Layout("masks and trimaps", "in/images/{1..6}.png in/masks/{1..6}.png in/trimaps/{1..6}.png"))
    flags = [f"--input={root}/in", f"--mask_root={root}/in/masks", f"--output={tmp_path / 'out'}"]
    (command,) = commands_of(convert(*flags).err.splitlines())
    assert convert(*command).code == 0
    assert manifest_of(tmp_path / "out")["records"] == 6


@each(
    "files, flag, records",
    [
        ("{cat,dog}/{1..3}.jpg test/4.jpg", "--classes=cat,dog", {"train": {"cat": 3, "dog": 3}}),
        ("{cat,dog}/{1..3}.jpg test/4.jpg", "--class_names=cat,dog,test", {"train": {"cat": 3, "dog": 3, "test": 1}}),
        ("{color,grey}/{apple,corn}/1.jpg", "--class_names=apple,corn", {"train": {"apple": 2, "corn": 2}}),
        ("{color,grey}/{apple,corn}/1.jpg", "--classes=apple", {"train": {"apple": 2}}),
        ("{color,grey}/{apple,corn}/1.jpg", "--classes=color", {"train": {"color": 2}}),
        ("{images,masks}/{1..2}.jpg", "--class_names=images,masks", {"train": {"images": 2, "masks": 2}}),
        ("{images,masks}/{1..2}.jpg", "--label_pattern=^(?P<label>[^/]+)/", {"train": {"images": 2, "masks": 2}}),
        ("{a,b}/{x,y}/1.jpg", "--splits=train=a,test=b", {"train": {"x": 1, "y": 1}, "test": {"x": 1, "y": 1}}),
        ("train/{a,b}/1.jpg test/{c,d}/1.jpg", "--splits=train=train", {"train": {"a": 1, "b": 1}}),
    ],
)
def test_the_request_has_the_last_word(files, flag, records, tmp_path):
    root = write_layout(Layout("any", files), tmp_path)
    assert read([f"--input={root}", "--output=out", flag], tmp_path / "listing")[0] == records


@each(
    "files, suggestions",
    [
        # Images without masks: left out, unless nobody can say by which folder.
        ("{train,val}/{1..3}.jpg {trainannot,valannot}/{1..3}.png test/{1..3}.jpg", [{"train": 3, "validation": 3}]),
        ("{1..3}.jpg a/images/{4..6}.jpg a/masks/{4..6}.png", [{"train": 3}]),
        ("{1..3}.jpg {a,b}/images/{4..6}.jpg {a,b}/masks/{4..6}.png", []),
        ("{a,b,c,d,e,f,g}/images/{1..3}.jpg {a,b}/masks/{1..3}.png", []),
        # Several masks for each image; masks that are none, and masks of other names.
        ("images/{1..3}.jpg {masks,trimaps}/{1..3}.png", [{"train": 3}, {"train": 3}]),
        ("rgb/{1..3}.png disparity/{1..3}.png", []),
        ("images/{1..3}.jpg masks/{4..6}.png", []),
        ("images/{1..3}.jpg masks/{1..3}.jpg", []),
        ("images/{1..6}.jpg images/{1..6}_mask.jpg", []),
    ],
)
def test_only_a_command_that_finds_masks_is_offered(files, suggestions, tmp_path):
    root = write_layout(Layout("folders of masks", files), tmp_path)
    argv = [f"--input={root}", "--output=out", "--layout=segmentation"]
    with refuses("images_and_masks", "input") as refused:
        read(argv, tmp_path / "listing")
    commands = commands_of(explain(refused.value, "convert", argv))
    given = [read(command, tmp_path / f"listing{number}")[0] for number, command in enumerate(commands)]
    assert given == [{split: {"": count} for split, count in suggestion.items()} for suggestion in suggestions]


def test_a_split_whose_classes_are_in_a_table_is_read_and_its_other_columns_are_named(tmp_path):
    rows = [f"48,36,{number % 3},Test/{number}.jpg" for number in range(6)]
    tables = {"Test.csv": "\n".join(["Width,Height,ClassId,Path", *rows])}
    root = write_layout(Layout("signs", "Train/{0..2}/{1..3}.jpg Test/{0..5}.jpg", tables=tables), tmp_path)
    records, notes = read([f"--input={root}", "--output=out"], tmp_path / "listing")
    assert records == {"train": {"0": 3, "1": 3, "2": 3}, "test": {"0": 2, "1": 2, "2": 2}}
    assert any("not stored: Test.csv: Width, Height" in note for note in notes)


def test_tables_of_several_splits_are_offered_together(tmp_path):
    tables = {
        f"{split}.csv": "\n".join(["Path,ClassId", *(f"{split}/{folder}{n}.jpg,{n % 3}" for n in numbers)])
        for split, folder, numbers in (("Train", "a/", range(4)), ("Test", "", range(6)))
    }
    root = write_layout(Layout("signs", "Train/a/{0..3}.jpg Test/{0..5}.jpg", tables=tables), tmp_path)
    with refuses("no_class_folders", "input") as refused:
        read([f"--input={root}", "--output=out"], tmp_path / "listing")
    assert refused.value.suggestions[0].settings["input"] == [f"train={root}/Train.csv", f"test={root}/Test.csv"]


@each("folder", ["", "ImageSets/Main/", "splits/"])
def test_lists_of_the_stems_of_each_split_are_a_question(folder, tmp_path):
    tables = {f"{folder}train.txt": "1\n2\n4\n", f"{folder}val.txt": "3\n"}
    root = write_layout(Layout("stems", "cat/{1..2}.jpg dog/{3..4}.jpg", tables=tables), tmp_path)
    with pytest.raises(RequestError, match=rf"lists of splits \({folder}train.txt, {folder}val.txt\)"):
        read([f"--input={root}", "--output=out"], tmp_path / "listing")
