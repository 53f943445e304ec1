"""All settings from one definition each: flags, spec, help, table, messages, and the manifest's spec."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from beam_tfrecords.beam_pipelines.settings.command_line import parse_arguments
from beam_tfrecords.beam_pipelines.settings.definitions import RUNNER_FLAGS, SETTINGS, read_build_spec, show_flags
from tests.package_code import PACKAGE, package_nodes

ROOT = Path(__file__).parents[3]
REQUIRED = {"input": "/photos", "output": "/out"}


def test_help_has_every_setting_with_its_meaning_and_default(capsys):
    with pytest.raises(SystemExit, match="0"):
        parse_arguments(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for name, one in SETTINGS.items():
        default = f" ({one.shown_default})" if one.shown_default else ""
        assert f" --{name} {show_flags(one.help + default)} " in f"{shown} "


def test_every_default_is_shown():
    """A word that is shown as the default gives the default; a phrase stands for a default that depends."""
    spec = read_build_spec(REQUIRED)
    for name, one in SETTINGS.items():
        default = getattr(spec, name)
        if name in REQUIRED:
            continue
        if default in (None, False, "", ()):
            continue
        assert one.shown_default, name
        if " " not in one.shown_default and one.shown_default != "on" and name != "name":
            assert one.read(one.shown_default) == default, name


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("`image_size=x`: expected a size", "--image_size=x: expected a size"),
        ("use `overwrite`, or `no_upscale`", "use --overwrite, or --no_upscale"),
        ("`label_pattern=(?P<label>cat|dog)` finds nothing", "--label_pattern='(?P<label>cat|dog)' finds nothing"),
        ("the column `colour` of `input=a b.csv`", "the column `colour` of --input='a b.csv'"),
        ("nothing `quoted", "nothing `quoted"),
    ],
)
def test_quoted_settings_of_a_message_are_shown_as_flags_and_other_words_are_not(message, shown):
    assert show_flags(message) == shown


def messages_of_errors() -> Iterator[tuple[str, str]]:
    """Every string in the arguments of an error, with its place in the code."""
    for path, nodes in package_nodes().items():
        for call in nodes if path.is_relative_to(PACKAGE / "transforms") else ():
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id.endswith("Error"):
                for node in ast.walk(call):
                    if isinstance(node, ast.Constant) and isinstance(node.value, str):
                        yield f"{path}:{node.lineno}", node.value


def test_errors_of_transforms_quote_settings_that_exist_and_never_dashes():
    messages = list(messages_of_errors())
    assert len(messages) > 100
    known = {*SETTINGS, *(f"no_{name}" for name in SETTINGS), "temp_location", "runner"}
    for place, message in messages:
        assert not re.search(r"--[a-z]", message), place
        # A name of a setting has an end: a backtick, or a value.
        unknown = [name for name in re.findall(r"`([a-z]+_[a-z_]+)[=`]", message) if name not in known]
        assert not unknown, place


def test_every_meaning_of_a_habit_is_a_setting_or_a_flag_and_takes_its_value():
    habits = yaml.safe_load((PACKAGE / "habits.yaml").read_text("utf-8"))
    others = {*RUNNER_FLAGS, "spec", "dry_run", "quiet", "verbose", "dataset", "to", "examples"}
    names = [name for words in habits["names"].values() for name in words.split()]
    assert len(names) <= 100
    for meaning in habits["names"]:
        name, equals, value = meaning.partition("=")
        assert name in SETTINGS or name in others, meaning
        if equals:
            SETTINGS[name].read(value)
    for advice in habits["advice"]:
        assert set(re.findall("`([a-z]+_[a-z_]+)[`=]", advice)) <= {*SETTINGS}
