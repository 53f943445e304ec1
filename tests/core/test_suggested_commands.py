"""Choices of a refusal as commands: complete, quoted for a shell, and with the other flags as they were given."""

from __future__ import annotations

import shlex

from beam_tfrecords.beam_pipelines.settings.suggested_commands import change_command, explain
from beam_tfrecords.errors import Reading, RequestError
from tests.each import each


@each(
    "argv, changes, command",
    [
        (["--input=a", "--output=o"], {"input": "b"}, "--output=o --input=b"),
        (["--input", "a", "--output=o"], {"input": "b"}, "--output=o --input=b"),
        (["--input=a", "--input=b"], {"input": ["c", "d"]}, "--input=c --input=d"),
        (["--input=a", "--stratify", "--seed=1"], {"stratify": None}, "--input=a --seed=1"),
        (
            ["--input=my photos"],
            {"exclude": ["a/**", "b c/**"]},
            "--input='my photos' --exclude='a/**' --exclude='b c/**'",
        ),
        (["--input=a"], {"label_pattern": "(?P<label>it's)"}, "--input=a --label_pattern='(?P<label>it'\"'\"'s)'"),
        (["--spec=s.yaml", "--verbose"], {"layout": "image"}, "--spec=s.yaml --verbose --layout=image"),
        (["--include=x", "--input=a"], {"include": ["x", "y"]}, "--input=a --include=x --include=y"),
    ],
)
def test_a_command_is_changed(argv, changes, command):
    shown = change_command("convert", argv, changes)
    assert shown == f"beam-tfrecords convert {command}"
    flags = [f"--{name}={one}" for name, value in changes.items() if value is not None for one in _listed(value)]
    assert shlex.split(shown)[-len(flags) :] == flags or not flags


def _listed(value):
    return value if isinstance(value, list) else [value]


def test_a_path_below_the_working_directory_is_shown_as_people_write_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    changes = {"input": str(tmp_path / "photos/train")}
    assert change_command("convert", ["--input=photos"], changes).endswith("--input=photos/train")
    several = {"input": None, "images": f"left={tmp_path}/a b,right={tmp_path}/c,other=/elsewhere{tmp_path}/d"}
    shown = change_command("convert", ["--input=photos"], several)
    assert shlex.split(shown)[2:] == [f"--images=left=a b,right=c,other=/elsewhere{tmp_path}/d"]


def test_the_lines_of_a_refusal():
    error = RequestError(
        "`input=a`: unclear",
        [Reading("one way", {"layout": "image"}), Reading("other", {"seed": 2})],
        code="x",
    )
    assert str(error) == "`input=a`: unclear; for one way: `layout='image'`; or for other: `seed=2`"
    assert explain(error, "convert", ["--input=a"]) == [
        "--input=a: unclear; choose one of:",
        "  one way:",
        "    beam-tfrecords convert --input=a --layout=image",
        "  other:",
        "    beam-tfrecords convert --input=a --seed=2",
    ]
    assert explain(RequestError("`seed=x`: no number", code="x"), "convert", ["--seed=x"]) == ["--seed=x: no number"]


def test_a_command_that_the_terminal_would_change_is_not_offered():
    error = RequestError("unclear", [Reading("one way", {"input": "a\nb"})], code="x")
    assert explain(error, "convert", ["--input=a"]) == ["unclear"]
