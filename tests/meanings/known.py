"""Kinds of wrong outcomes that are known: how the kind begins -> why it stands."""

from __future__ import annotations

from collections.abc import Mapping

_ISSUE = "found by the first runs; to be fixed with issue 46"

KNOWN: Mapping[str, str] = {
    "crash": _ISSUE,
    "guessed": _ISSUE,
    "images": _ISSUE,
    "labels": _ISSUE,
    "lost": _ISSUE,
    "silent": _ISSUE,
    "splits": _ISSUE,
    "stopped": _ISSUE,
    "suggestion": _ISSUE,
    "values": _ISSUE,
}
