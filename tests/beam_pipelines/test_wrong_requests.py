"""`convert` refuses what is said twice, or is read as something else: exit code 2, one line, nothing written."""

from __future__ import annotations

import json
import shutil
import tarfile

import pytest

from tests.beam_pipelines.dataset_checks import manifest_of, splits_of
from tests.refusals import Refusal


@pytest.fixture
def refused(convert, tmp_path):
    """Asserts that `convert` refuses a request and writes nothing; returns its line and the commands below it."""

    def run(refusal, *words):
        ran = convert(f"--output={tmp_path / 'out'}", *words)
        ran.refused(refusal)
        assert [line for line in ran.err.splitlines() if not line.startswith("  ")] == ran.err.splitlines()[:1]
        assert not (tmp_path / "out").exists()
        return ran.err

    return run


def test_several_inputs_are_merged(photos, tmp_path, build):
    flags = [f"--input={photos / 'cat'}", f"--input={photos / 'flower'}", "--image_size=16"]
    out = build(tmp_path / "out", *flags, r"--label_pattern=(?P<label>\w+)/")
    assert manifest_of(out)["class_names"] == ["cat", "flower"]
    assert len(splits_of(out)) == len([*photos.glob("cat/*.jpg"), *photos.glob("flower/*.jpg")])
    assert manifest_of(out)["spec"]["input"] == ["cat", "flower"]


@pytest.mark.parametrize("words", [["--seed=1", "--seed=2"], ["--name=a", "--name=a"], ["--spec=a", "--spec=b"]])
def test_any_other_flag_that_is_given_twice_is_refused(photos, refused, words):
    flag = words[0].split("=")[0].removeprefix("--")
    refused(Refusal("invalid_command_line", flag), f"--input={photos}", *words)


def test_a_switch_that_is_turned_on_and_off_is_refused(photos, refused):
    refused(Refusal("invalid_command_line", "no_upscale"), f"--input={photos}", "--upscale", "--no_upscale")


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("seed: 1\ninput: x\nseed: 2\n", "seed", 3),
        ("input: x\nsplits:\n  train: 0.5\n  test: 0.5\n  train: 0.5\n", "train", 5),
        ('{"input": "x", "seed": 1,\n "seed": 2}', "seed", 2),
    ],
)
def test_a_key_that_occurs_twice_in_a_spec_is_refused(refused, tmp_path, text, key, line):
    (tmp_path / "spec.yaml").write_text(text)
    refusal = Refusal("invalid_spec", "spec", says=[f"key {key} ", f"line {line}"])
    refused(refusal, f"--spec={tmp_path / 'spec.yaml'}")


def test_a_file_of_class_names_that_does_not_exist_is_refused(photos, refused):
    for name in ("classes.txt", "lists/classes"):
        refusal = Refusal("invalid_value", "class_names", says=[f"class_names={name}`", "does not exist"])
        refused(refusal, f"--input={photos}", f"--class_names={name}")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("[no, yes]", "False there"),
        ("[1.0, cat]", "1.0 there"),
        ("[cat, ~]", "None there"),
        ("true", "index order"),
        ("{cat: 0, dog: 2}", "0 to 1 once"),
        ("{cat: 0, dog: 0}", "same number"),
    ],
)
def test_class_names_that_yaml_reads_as_something_else_are_refused(photos, refused, tmp_path, names, said):
    (tmp_path / "spec.yaml").write_text(f"input: {photos}\nclass_names: {names}\n")
    refused(Refusal("invalid_value", "class_names", says=[said]), f"--spec={tmp_path / 'spec.yaml'}")


@pytest.mark.parametrize("names", [{"dog": 1, "no": 0}, {1: "dog", 0: "no"}, ["no", "dog"]])
def test_class_names_are_read_from_mappings_and_lists(names):
    from beam_tfrecords.transforms.request.build_spec import read_class_names

    assert read_class_names(names).names == ("no", "dog")


@pytest.mark.parametrize("name", [" cat", "cat ", "cat\nfish", "cat\u2003"])
def test_a_class_that_a_label_file_cannot_hold_is_refused(photos, convert, tmp_path, name):
    for number, folder in enumerate((name, "dog")):
        (tmp_path / "in" / folder).mkdir(parents=True)
        (tmp_path / "in" / folder / "1.jpg").symlink_to(sorted(photos.glob("*/*.jpg"))[number])
    ran = convert(f"--output={tmp_path / 'out'}", f"--input={tmp_path / 'in'}")
    ran.refused("invalid_class_name", says=[repr(name)])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("where", ["", "photos/", "split", "tar"])
@pytest.mark.parametrize("name", [" cat", "cat ", " \tcat\u2003", "  black cat "])
def test_spaces_around_a_class_need_no_other_names_in_a_bucket(photos, convert, tmp_path, build, name, where):
    folder = tmp_path / "in"
    for number, path in enumerate(sorted(photos.glob("*/*.jpg"))[:8]):
        split = ("train/" if number < 4 else "test/") if where == "split" else where if where == "photos/" else ""
        target = folder / split / (name, "dog")[number % 2] / f"{number}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    if where == "tar":
        with tarfile.open(tmp_path / "in.tar", "w") as archive:
            for path in sorted(folder.rglob("*.jpg")):
                archive.add(path, path.relative_to(folder))
        folder = tmp_path / "in.tar"
    ran = convert(f"--output={tmp_path / 'out'}", f"--input={folder}")
    (suggestion,) = ran.refused("invalid_class_name", says=[repr(name)]).suggestions
    assert suggestion.meaning == "the names of the folders without spaces around them"
    out = build(tmp_path / "out", f"--input={folder}", f"--label_pattern={suggestion.settings['label_pattern']}")
    manifest = manifest_of(out)
    assert manifest["class_names"] == sorted([name.strip(), "dog"])
    assert sorted(manifest["splits"]) == (["test", "train"] if where == "split" else ["train"])


def test_folders_that_differ_only_in_their_unicode_form_are_one_class(photos, tmp_path, build):
    for number, folder in enumerate(("caf\u00e9", "cafe\u0301", "bar")):
        (tmp_path / "in" / folder).mkdir(parents=True)
        (tmp_path / "in" / folder / "1.jpg").symlink_to(sorted(photos.glob("*/*.jpg"))[number])
    manifest = manifest_of(build(tmp_path / "out", f"--input={tmp_path / 'in'}", "--image_size=16"))
    assert manifest["class_names"] == ["bar", "caf\u00e9"]
    assert manifest["splits"]["train"]["classes"] == {"bar": 1, "caf\u00e9": 2}


def test_a_requested_split_without_samples_is_noted(photos, tmp_path, convert):
    (tmp_path / "in/cat").mkdir(parents=True)
    for path in sorted(photos.glob("cat/*.jpg"))[:2]:
        (tmp_path / "in/cat" / path.name).symlink_to(path)
    flags = [f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", "--image_size=16", "--class_names=cat"]
    ran = convert(*flags, "--splits=train=0.998,validation=0.001,test=0.001")
    assert ran.code == 0, ran.err
    note = "--splits asks for validation, test, which got none of the 2 samples"
    assert f"note: {note}" in ran.out
    assert json.dumps(note.replace("--splits", "`splits`")) in json.dumps(manifest_of(tmp_path / "out")["notes"])


def test_wrapped_classes_and_unclear_splits_are_refused(photos, refused, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/mine").symlink_to(photos)
    shown = refused(Refusal("single_class", "input"), f"--input={tmp_path / 'in'}")
    assert f"--input={tmp_path / 'in/mine'}\n" in shown
    assert "--class_names=mine\n" in shown
    (tmp_path / "in/mine").rename(tmp_path / "in/train2017")
    (tmp_path / "in/val2017").mkdir()
    shutil.copytree(photos / "coffee", tmp_path / "in/val2017/cat")
    shown = refused(Refusal("split_or_class", "input"), f"--input={tmp_path / 'in'}")
    assert "--splits=train=train2017,validation=val2017" in shown


@pytest.mark.parametrize("bracket", ["[", "{a: "])
def test_a_spec_that_is_nested_very_deeply_is_refused_in_one_line(refused, tmp_path, bracket):
    (tmp_path / "spec.yaml").write_text("input: " + bracket * 5_000)
    refused(Refusal("invalid_spec", "spec"), f"--spec={tmp_path / 'spec.yaml'}")


@pytest.mark.parametrize("command", ["verify", "inspect", "status"])
def test_a_flag_that_is_given_twice_is_refused(run, command, tmp_path):
    flag = "output" if command == "status" else "dataset"
    ran = run(command, f"--{flag}={tmp_path}", f"--{flag}=elsewhere")
    ran.refused("invalid_command_line", flag)


def test_a_switch_with_another_word_and_folders_behind_flags_are_explained(run, photos, tmp_path):
    ran = run("convert", photos, tmp_path / "out", "--overwrite=maybe")
    assert "--overwrite=maybe: expected true or false, or --overwrite alone" in ran.err
    ran = run("convert", "--image_size=8", photos, tmp_path / "out")
    assert "folders come before all flags" in ran.err


def test_classes_that_no_sample_has_are_refused_by_name(run, photos, tmp_path):
    ran = run("convert", photos, tmp_path / "out", "--classes=cta")
    ran.refused("class_without_samples", "classes", says=["classes=cta", "42"])


def test_an_input_without_an_image_is_noted(run, photos, tmp_path):
    (tmp_path / "empty").mkdir()
    ran = run("convert", photos, tmp_path / "empty", tmp_path / "out", "--dry_run")
    assert ran.code == 0
    assert f"note: no image in --input={tmp_path / 'empty'}" in ran.out
