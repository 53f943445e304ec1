"""Finds the name that a misspelled one means."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable

# Share of equal letters from which two names are taken for one.
_CUTOFF = 0.8
_SHORTEST_ABBREVIATION = 4


def plain(word: str) -> str:
    """Returns a name for comparison: without case and separators."""
    return re.sub(r"[-_. ]", "", word).lower()


def find_near(word: str, known: Collection[str], *, cutoff: float = _CUTOFF) -> str | None:
    """Returns the only known name that begins with a word, or the one that is most like it, or None.

    Args:
      word: the word.
      known: the names.
      cutoff: share of equal letters that a name needs.
    """
    names = {plain(name): name for name in known}
    key = plain(word)
    begun = [name for name in names if name.startswith(key)] if len(key) >= _SHORTEST_ABBREVIATION else []
    # Swapped letters weigh much in a short name: `dgo` and `dog` have two of three letters in common.
    swapped = [name for name in names if name[:1] == key[:1] and sorted(name) == sorted(key)]
    near = begun if len(begun) == 1 else swapped or difflib.get_close_matches(key, names, n=1, cutoff=cutoff)
    return names[near[0]] if near else None


def did_you_mean(word: str, known: Collection[str], *, otherwise: str = "") -> str:
    """Returns `did you mean 'cat'?`, or another hint if no known name is like the word."""
    near = find_near(word, known)
    return otherwise if near is None else f"did you mean {near!r}?"


def list_known(word: str, known: Iterable[str]) -> str:
    """Returns a hint about an unknown name: the one that is most like it, and all that there are."""
    names = list(known)
    it_has = f"has: {', '.join(names) or 'none'}"
    hint = "" if word in names else did_you_mean(word, names)
    return f"{hint} It {it_has}" if hint else f"it {it_has}"
