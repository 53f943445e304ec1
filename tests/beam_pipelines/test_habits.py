"""What people type from habit, tried on the command line, in a spec file and in Python: the right answer or none."""

from __future__ import annotations

import json
import random
import re
import string
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from beam_tfrecords import RequestError, plan
from tests.each import each
from tests.refusals import refuses
from tests.trees import write_tree

_PAGE = (Path(__file__).parents[2] / "docs/settings.md").read_text(encoding="utf-8")
SETTINGS = re.findall(r"^\| `--(\w+)`", _PAGE, re.MULTILINE)

# What is typed -> what it means, a part of the advice, or "" where an answer would be a guess.
NAMES = {
    "force": "overwrite",
    "data_dir=photos": "input",
    "output_dir=built": "output",
    "target_size=224,224": "image_size",
    "center_crop": "resize_mode=crop",
    "grayscale": "channels=1",
    "validation_split=0.2": "splits",
    "Batch-Size=32": "when it is read",
    "augment": "when you train",
    "shuffle": "every build shuffles",
    "skip_existing": "resumes an interrupted build",
    "file_format=tfrecord": "always TFRecord",
    "samples_per_shard=1000": "shard_size",
    "labels_from=labels.csv": "labels come from folders",
    "x_col=path": "image_column",
    "num_workers=4": "direct_num_workers",
    "jobs=4": "direct_num_workers",
    "silent": "quiet",
    "debug": "verbose",
    "version": "shows the version",
    "imagesize=256": "image_size",
    "image_sise=256": "image_size",
    "overwrit": "overwrite",
    "shrad_size=1GB": "shard_size",
    "device=cuda": "",
    "learning_rate=0.1": "",
    "model=resnet": "",
    "none": "",
    "mode=fast": "",
    "fps=3": "",
}


@pytest.fixture(scope="module")
def on_command_line(run):
    """What the command says of words after its two folders."""

    def ask(*words: str) -> str:
        ran = run("convert", "input_folder", "output_folder", *words)
        assert ran.code == 2, ran.err
        return ran.err

    return ask


@pytest.fixture(scope="module")
def in_spec(run, tmp_path_factory):
    file = tmp_path_factory.mktemp("habits") / "spec.yaml"

    def ask(name: str, value) -> str:
        file.write_text(json.dumps({"input": "input_folder", "output": "output_folder", name: value}), encoding="utf-8")
        return run("convert", f"--spec={file}").refusal.message

    return ask


def in_python(name: str, value=True) -> str:
    with pytest.raises(RequestError) as refused:
        plan("input_folder", "output_folder", **{name: value})
    return refused.value.message


def answers(messages, meant: str) -> None:
    """Asserts that a flag, a key and an argument get one answer."""
    name, equals, value = meant.partition("=")
    forms = [
        (f"--{meant}", f"--{name}"),
        (f"{name}: {value}" if equals else f"{name}?", f"--{name}", f"{name}:"),
        (f"`{meant}`", f"`{name}=", f"--{name}"),
    ]
    for message, (exact, *others) in zip(messages, forms, strict=True):
        hint = message.rpartition("; ")[2] if "; " in message else message
        assert exact in message or (not equals and any(form in hint for form in others)), message


def is_silent(message: str) -> bool:
    return not any(word in message for word in ("did you mean", "give it", "leave it out"))


def split_word(typed: str):
    name, equals, value = typed.partition("=")
    return name, {"True": True, "False": False}.get(value, value) if equals else True


@each("typed", NAMES)
def test_a_name_gets_the_same_right_answer_everywhere_or_none(on_command_line, in_spec, typed):
    name, value = split_word(typed)
    messages = [on_command_line(f"--{typed}"), in_spec(name, value), in_python(name, value)]
    meant = NAMES[typed]
    if not meant:
        assert all(map(is_silent, messages)), messages
    elif " " in meant:
        assert all(meant in message for message in messages), messages
    else:
        answers(messages, meant)


@each(
    "words, says",
    [
        (["-o", "built"], "--output?"),
        (["-i", "photos"], "--input?"),
        (["-j8"], "--direct_num_workers?"),
        (["-j", "8"], "--direct_num_workers?"),
        (["-resize", "256"], "--image_size?"),
        (["-quality", "90"], "--jpeg_quality?"),
        (["-v"], "--verbose?"),
        (["--batch-size", "8"], "when it is read"),
        (["--Image_Size=8"], "--image_size?"),
        (["--direct_num_worker=8"], "--direct_num_workers?"),
        (["--a.jpg", "b.jpg"], "see --help"),
        (["image_size=256"], "did you mean --image_size=256?"),
        (["--name=x", "b/2.jpg", "b/3.jpg"], "quote it, as in --input='b/*.jpg'"),
    ],
)
def test_words_of_other_programs_get_the_right_answer(on_command_line, words, says):
    assert says in on_command_line(*words)


@each("typed, command", [("info", "inspect"), ("check", "verify"), ("extract", "export")])
def test_commands_of_other_programs_are_known(run, typed, command):
    run(typed).refused("unknown_command", says=[repr(command)])


def suggested(message: str) -> str:
    """Returns the name that a message suggests, or nothing."""
    return "".join(re.findall("did you mean `([^`=]+)", message))


def test_a_setting_with_a_typo_is_found_or_nothing_is():
    seed = 20261126
    rng = random.Random(seed)
    for name in SETTINGS:
        for _ in range(4):
            at, letter = rng.randrange(len(name)), rng.choice(string.ascii_lowercase)
            typed = rng.choice(
                [name[:at] + name[at + 1 :], name[:at] + letter + name[at:], name[:at] + letter + name[at + 1 :]]
            )
            # `label_columnk` is as near to `label_column` as to `label_columns`.
            found = (name, name.removesuffix("s"), "")
            assert typed in SETTINGS or suggested(in_python(typed)) in found, (seed, name, typed)


@hypothesis.given(st.one_of(st.text(string.ascii_lowercase + "_-", max_size=20), st.text(max_size=12)))
def test_a_suggested_name_is_one_that_is_known(typed):
    assert typed in SETTINGS or suggested(in_python(typed)) in {*SETTINGS, ""}


def test_words_that_are_not_near_suggest_nothing(on_command_line):
    seed = 20261127
    rng = random.Random(seed)
    words = [
        "learning_rate",
        "epochs",
        "gpus",
        "model_name",
        "tile",
        "fps",
        "audio_codec",
        "page_range",
        "thread",
        "zoom",
    ]
    words += ["".join(rng.choices(string.ascii_lowercase, k=rng.randrange(7, 14))) for _ in range(60)]
    assert [word for word in words if not is_silent(on_command_line(f"--{word}"))] == []


@each(
    "typed, meant",
    [
        ("gs:/bucket/photos", "gs://bucket/photos"),
        ("s3:/bucket", "s3://bucket"),
        ("s3//bucket/x", "s3://bucket/x"),
        ("https:/host/x", "https://host/x"),
        ("file:/photos", "file:///photos"),
    ],
)
def test_a_location_without_a_slash_is_recognised(typed, meant):
    for name in ("input", "output", "reuse"):
        with refuses("mistyped_scheme", says=[f"did you mean {meant}?"]):
            plan(**{"input": "a", "output": "b", name: typed})


def test_a_misspelt_folder_is_named_by_its_neighbour(tmp_path, run):
    (tmp_path / "photos").mkdir()
    run("convert", str(tmp_path / "phtos"), str(tmp_path / "out")).refused(
        "not_found", "input", says=["photos is beside it"]
    )
    assert "beside" not in run("convert", str(tmp_path / "cats"), str(tmp_path / "out")).err


def test_a_pattern_that_the_shell_has_replaced_is_named(tmp_path, run):
    write_tree(tmp_path, "cat/{1..2}.png dog/3.png")
    paths = [str(path) for path in sorted(tmp_path.rglob("*.png"))]
    run("convert", *paths, str(tmp_path / "out")).refused(
        "unknown_format", "input", says=[f"`input={tmp_path}/*/*.png`"]
    )
    run("convert", *paths[:2], str(tmp_path / "out")).refused(
        "unknown_format", "input", says=[f"`input={tmp_path}/cat/*.png`"]
    )
