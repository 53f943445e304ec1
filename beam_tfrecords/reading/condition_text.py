"""Rewrites conditions from SQL's syntax to Python's, which can parse them."""

from __future__ import annotations

import io
import itertools
import re
import tokenize
from collections.abc import Sequence

# Operator of SQL -> operator of Python that replaces it while a condition is parsed; no condition uses these itself.
_OPERATORS = {"=": "==", "<>": "!=", "like": "@"}
_NOT_LIKE = "//"
_CAPITALS = frozenset(("AND", "OR", "NOT", "IN", "IS", "LIKE"))
_NULLS = frozenset(("NULL", "NONE", "null"))
# A text in quotes; in SQL, a doubled quote stands for one.
_TEXT = re.compile(r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*\"""", re.DOTALL)

# Kind of a token, and its text.
_Token = tuple[int, str]


class SyntaxProblem(Exception):
    """A part of a condition is not supported."""


def to_python(text: str) -> str:
    """Rewrites a condition in Python's syntax.

    Raises:
      SyntaxProblem: there is no operator between two texts.
      SyntaxError, tokenize.TokenError: it cannot be split into tokens.
    """
    tokens = list(tokenize.generate_tokens(io.StringIO(_TEXT.sub(_undouble, text.strip())).readline))
    if any(one.type == other.type == tokenize.STRING for one, other in itertools.pairwise(tokens)):
        raise SyntaxProblem("there is no operator between two texts")
    words = _lower(tokens)
    # In SQL, ('cat') is a list.
    for index in range(len(words) - 4, -1, -1):
        if [word for _, word in words[index : index + 2]] == ["in", "("] and words[index + 3][1] == ")":
            words.insert(index + 3, (tokenize.OP, ","))
    # `not like` is one operator.
    negated = {index for index, pair in enumerate(itertools.pairwise(words)) if [w for _, w in pair] == ["not", "@"]}
    return tokenize.untokenize(
        (kind, _NOT_LIKE if index in negated else word)
        for index, (kind, word) in enumerate(words)
        if index - 1 not in negated
    )


def to_sql(text: str) -> str:
    """Returns a part of a condition as a user would write it."""
    return text.replace(" @ ", " like ").replace(f" {_NOT_LIKE} ", " not like ")


def _undouble(found: re.Match[str]) -> str:
    quote, inside = found[0][0], found[0][1:-1]
    return f"{quote}{inside.replace(2 * quote, chr(92) + quote)}{quote}"


def _lower(tokens: Sequence[tokenize.TokenInfo]) -> list[_Token]:
    """Returns the tokens of a condition; converts SQL keywords, which may be in capitals, to Python's."""
    words: list[_Token] = []
    for kind, word, *_ in tokens:
        before = words[-1][1] if words else ""
        if (before, word) == ("<", ">"):
            # Before Python 3.12, `<>` is two tokens.
            words[-1] = kind, "!="
            continue
        if before != ".":
            word = "None" if word in _NULLS else word.lower() if word in _CAPITALS else word
        words.append((kind, _OPERATORS.get(word, word)))
    return words
