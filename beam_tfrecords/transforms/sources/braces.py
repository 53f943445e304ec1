"""Expands braces in the names of inputs, as in shells: `{000..099}` and `{train,extra}`. Pure functions.

The library bracex also expands `{a..c}`, drops empty names, treats `$` and backslashes as escapes, and is 4x slower.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence

from beam_tfrecords.errors import RequestError

_BRACES = re.compile(r"\{(?:(\d+)\.\.(\d+)|([^{},]*(?:,[^{},]*)+))\}")
# More names would exhaust memory; no dataset has that many files.
_MOST_NAMES = 10_000_000


def has_braces(path: str) -> bool:
    """Whether the path has braces that stand for several names."""
    return bool(_BRACES.search(path))


def braces_as_glob(path: str) -> str:
    """Returns a glob that matches all names of a path with braces, and possibly more."""
    return _BRACES.sub("*", path)


def expand_braces(path: str) -> list[str]:
    """Returns the names that a path with braces stands for, in the order of the braces.

    Raises:
      RequestError: there are too many names.
    """
    # Alternates literal text and the alternatives of one pair of braces.
    pieces: list[Sequence[str]] = []
    end = 0
    for braces in _BRACES.finditer(path):
        pieces += [[path[end : braces.start()]], _words(path, braces)]
        end = braces.end()
    pieces.append([path[end:]])
    _check(path, math.prod(map(len, pieces)))
    return list(map("".join, itertools.product(*pieces)))


def split_list(word: str) -> list[str]:
    """Splits a list at the commas outside braces."""
    return re.findall(r"(?:[^,{]|\{[^{}]*\}|\{)+", word)


def _words(path: str, braces: re.Match[str]) -> list[str]:
    if braces[3] is not None:
        return braces[3].split(",")
    first, last = braces[1], braces[2]
    # A leading zero in either number gives all numbers the same width, as in shells.
    has_zeros = any(len(one) > 1 and one.startswith("0") for one in (first, last))
    width = max(len(first), len(last)) if has_zeros else 0
    step = 1 if int(first) <= int(last) else -1
    numbers = range(int(first), int(last) + step, step)
    _check(path, (numbers[-1] - numbers[0]) * step + 1)
    return [f"{number:0{width}d}" for number in numbers]


def _check(path: str, names: int) -> None:
    if names > _MOST_NAMES:
        raise RequestError(
            f"`input={path}`: the braces expand to {names:,} names; expected {_MOST_NAMES:,} at most",
            code="too_many_names",
        )
