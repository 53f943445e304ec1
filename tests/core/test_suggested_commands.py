"""Choices of a refusal as commands: complete, quoted for a shell, and with the other flags as they were given."""

from __future__ import annotations

import ast
import contextlib
import io
import itertools
import shlex
import tokenize

from beam_tfrecords.beam_pipelines.settings.command_line import parse_arguments
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS, read_request
from beam_tfrecords.beam_pipelines.settings.suggested_commands import change_command, explain
from beam_tfrecords.errors import Reading, RequestError
from tests.cases.loading import read_cases
from tests.cases.outcomes import expected
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


def test_a_flag_that_may_not_repeat_has_all_values():
    shown = change_command("convert", [], {"mask_classes": ["cat=cat/", "dog=dog/"], "exclude": ["a", "b"]})
    assert shown == "beam-tfrecords convert --mask_classes=cat=cat/,dog=dog/ --exclude=a --exclude=b"


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


def test_every_offer_of_the_cases_can_be_pasted():
    offers = {offer for case in read_cases() for offer in expected(case).get("offers", {})}
    assert len(offers) > 800
    for offer in sorted(offers):
        settings = settings_of(offer)
        command = change_command("convert", [], settings)
        pasted = vars(parse_arguments(shlex.split(command)[2:]))["raw_values"]
        request = {"output": "out", "input": "in"}
        try:
            wanted = read_request({**request, **settings})
        except RequestError:
            continue  # it names a file of the case
        assert read_request({**request, **pasted}) == wanted, offer


def settings_of(offer):
    """Returns the settings of an offer, parsed from what `str(reading)` writes."""
    for begin in (place + 2 for place, sign in enumerate(offer) if sign == ":"):
        words = []
        with contextlib.suppress(tokenize.TokenError, IndentationError):
            words += tokenize.generate_tokens(io.StringIO(offer[begin:]).readline)
        pairs = itertools.pairwise(words)
        starts = [one.start[1] for one, sign in pairs if sign.string == "=" and one.string in SETTINGS]
        if starts[:1] == [0]:
            parts = [offer[begin:][here:there] for here, there in itertools.pairwise([*starts, None])]
            return {part.partition("=")[0]: ast.literal_eval(part.partition("=")[2].strip()) for part in parts}
    assert offer.endswith(": "), offer  # it only leaves settings out
    return {}
