"""Choices of a refused request as complete commands, to be pasted into a shell."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords.beam_pipelines.settings.command_line import spell_out
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS, show_flags
from beam_tfrecords.errors import RequestError
from beam_tfrecords.escaping import escape


def explain(error: RequestError, command: str, argv: Sequence[str]) -> list[str]:
    """The lines that say what is wrong with a request, and the commands that are right instead.

    Args:
      error: the refusal.
      command: what was run, such as `convert`.
      argv: its arguments.
    """
    commands = [
        (suggestion.meaning, [*suggestion.before, change_command(command, argv, suggestion.settings)])
        for suggestion in error.suggestions
    ]
    # What the terminal would show as an escape could not be pasted.
    commands = [(meaning, lines) for meaning, lines in commands if all(escape(line) == line for line in lines)]
    asks = "; choose one of:" if len(commands) > 1 else "; instead:" if commands else ""
    shown = [show_flags(error.message) + asks]
    for meaning, lines in commands:
        shown += [f"  {meaning}:", *(f"    {line}" for line in lines)]
    return [*shown, *error.traceback.splitlines()]


def change_command(command: str, argv: Sequence[str], settings: Mapping[str, Any]) -> str:
    """A command line with some settings changed, quoted for a shell."""
    words = ["beam-tfrecords", command, *_without(argv, settings)]
    for name, value in settings.items():
        values = value if isinstance(value, (list, tuple)) else [] if value is None else [value]
        words += [f"--{name}" if one is True else f"--{name}={_shorten(str(one))}" for one in values]
    return " ".join(map(_quote, words))


def _without(argv: Sequence[str], settings: Mapping[str, Any]) -> Iterator[str]:
    """The arguments but those that give some settings."""
    rest = iter(spell_out(argv))
    for word in rest:
        name, equals, _ = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in settings:
            yield word
        elif not equals and not SETTINGS[name].is_switch:
            next(rest, None)


def _shorten(value: str) -> str:
    """A path below the working directory as people write it."""
    return os.path.relpath(value) if value.startswith(os.getcwd() + os.sep) else value


def _quote(word: str) -> str:
    name, equals, value = word.partition("=")
    if equals and name.startswith("--"):
        return f"{shlex.quote(name)}={shlex.quote(value)}"
    return shlex.quote(word)
