"""Names that people type from other tools, and names with a typo: what they mean here.

The hints are the same for flags, spec files and Python. Names are compared without case and separators.
"""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Callable, Collection, Mapping

import yaml

from beam_tfrecords.nearest import find_near, plain

# Share of equal letters of two names that are taken for one. Beam has many flags, so they need a larger one.
_CUTOFF_OF_FLAGS = 0.92


@functools.cache
def _read_habits() -> Mapping[str, Mapping[str, str]]:
    file = importlib.resources.files(__package__) / "habits.yaml"
    tables: dict[str, Mapping[str, str]] = yaml.safe_load(file.read_text("utf-8"))
    return tables


def _find_meanings(word: str, table: str) -> list[str]:
    """Returns what a name means by a table of habits, in its order."""
    return [meaning for meaning, names in _read_habits()[table].items() if plain(word) in map(plain, names.split())]


def find_command(word: str, known: Collection[str]) -> str | None:
    """Returns the command that a word means, or None."""
    return next(iter(_find_meanings(word, "commands")), None) or find_near(word, known)


def is_habit(word: str) -> bool:
    """Whether a name is one that other tools use."""
    return bool(_find_meanings(word, "names") or _find_meanings(word, "advice"))


def explain_name(word: str, *, known: Collection[str], ask: Callable[[str], str], flags: Collection[str] = ()) -> str:
    """Returns a hint about an unknown name; "" for none.

    Args:
      word: the name.
      known: names of settings, and of flags that are not settings.
      ask: makes a hint of what the name means, which is a name or `name=value`.
      flags: more names, such as the names of Beam's flags.
    """
    meant = next((one for one in _find_meanings(word, "names") if one.partition("=")[0] in known), None)
    if meant is None and "splits" in known and (advice := _find_meanings(word, "advice")):
        return advice[0]
    found = meant or find_near(word, known) or find_near(word, flags, cutoff=_CUTOFF_OF_FLAGS)
    return ask(found) if found else ""
