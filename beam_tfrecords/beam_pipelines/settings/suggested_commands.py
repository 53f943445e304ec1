"""Formats the readings that a refusal offers as complete shell commands."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords.beam_pipelines.settings.command_line import spell_out
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS, join_words, show_flags
from beam_tfrecords.errors import RequestError
from beam_tfrecords.escaping import escape


def explain(error: RequestError, command: str, argv: Sequence[str]) -> list[str]:
    """Returns lines that explain an error of a request, and the suggested commands.

    Args:
      error: the error.
      command: the command that was run, such as `convert`.
      argv: its arguments.
    """
    commands = [
        (f"{one.meaning} ({one.gives})" if one.gives else one.meaning, change_command(command, argv, one.settings))
        for one in error.suggestions
    ]
    # A command that the terminal shows with escapes cannot be pasted.
    commands = [(meaning, line) for meaning, line in commands if escape(line) == line]
    asks = "; choose one of:" if len(commands) > 1 else "; instead:" if commands else ""
    shown = [show_flags(error.message) + asks]
    for meaning, line in commands:
        shown += [f"  {meaning}:", f"    {line}"]
    return [*shown, *error.traceback.splitlines()]


def change_command(command: str, argv: Sequence[str], settings: Mapping[str, Any]) -> str:
    """Returns a command line with changed settings, quoted for a shell."""
    arguments = ["beam-tfrecords", command, *_without(argv, settings)]
    for name, value in settings.items():
        if isinstance(value, (list, tuple)) and value:
            value = join_words(name, [*map(str, value)])
        values = value if isinstance(value, (list, tuple)) else [] if value is None else [value]
        arguments += [f"--{name}" if one is True else f"--{name}={_shorten(str(one))}" for one in values]
    return " ".join(map(_quote, arguments))


def _without(argv: Sequence[str], settings: Mapping[str, Any]) -> Iterator[str]:
    """Yields the arguments except those that set these settings."""
    rest = iter(spell_out(argv))
    for word in rest:
        name, equals, _ = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in settings:
            yield word
        elif not equals and not SETTINGS[name].is_switch:
            next(rest, None)


def _shorten(value: str) -> str:
    """Shortens paths below the working directory to relative ones, also in `name=path,name=path`."""
    return re.sub(rf"(^|[=,]){re.escape(os.getcwd() + os.sep)}(?=.)", r"\1", value)


def _quote(word: str) -> str:
    name, equals, value = word.partition("=")
    if equals and name.startswith("--"):
        return f"{shlex.quote(name)}={shlex.quote(value)}"
    return shlex.quote(word)
