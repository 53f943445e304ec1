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
# Function that replaces `between`: `x between 1 and 3` is parsed as `x in between(1, 3)`.
BETWEEN = "between"
_CAPITALS = frozenset(("AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN"))
_NULLS = frozenset(("NULL", "NONE", "null"))
# A text in quotes; in SQL, a doubled quote stands for one.
_TEXT = re.compile(r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*\"""", re.DOTALL)
_OPENING, _CLOSING = frozenset("(["), frozenset(")]")

# Kind of a token, and its text.
_Token = tuple[int, str]


class SyntaxProblem(Exception):
    """A part of a condition is not supported."""


def to_python(text: str) -> str:
    """Rewrites a condition in Python's syntax.

    Raises:
      SyntaxProblem: texts or the bounds of `between` are incomplete.
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
    # The last one first, because its bounds may be within those of another.
    for index in reversed([index for index, (kind, word) in enumerate(words) if _is_between(kind, word)]):
        _rewrite_between(words, index)
    # `not like` is one operator.
    negated = {index for index, pair in enumerate(itertools.pairwise(words)) if [w for _, w in pair] == ["not", "@"]}
    return tokenize.untokenize(
        (kind, _NOT_LIKE if index in negated else word)
        for index, (kind, word) in enumerate(words)
        if index - 1 not in negated
    )


def to_sql(text: str) -> str:
    """Returns a part of a condition as a user would write it."""
    text = re.sub(rf"(.+) in {BETWEEN}\((.+), (.+)\)", r"\1 between \2 and \3", text)
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


def _is_between(kind: int, word: str) -> bool:
    return kind == tokenize.NAME and word == BETWEEN


def _rewrite_between(words: list[_Token], index: int) -> None:
    """Rewrites `between A and B` at an index as `in between(A, B)`."""
    middle = _find_end(words, index + 1, {"and"})
    if middle is None or words[middle][1] != "and":
        raise SyntaxProblem("between has no second bound, as in height between 10 and 20")
    end = _find_end(words, middle + 1, {"and", "or"})
    words.insert(len(words) if end is None else end, (tokenize.OP, ")"))
    words[middle] = tokenize.OP, ","
    words[index : index + 1] = [(tokenize.NAME, "in"), (tokenize.NAME, BETWEEN), (tokenize.OP, "(")]


def _find_end(words: Sequence[_Token], start: int, ends: set[str]) -> int | None:
    """Returns the index of the first of some words, or of the end of the parentheses that are open at the start."""
    depth = 0
    for index in range(start, len(words)):
        kind, word = words[index]
        depth += (word in _OPENING) - (word in _CLOSING)
        if depth < 0 or (depth == 0 and word in ends) or kind in (tokenize.NEWLINE, tokenize.ENDMARKER):
            return index
    return None
