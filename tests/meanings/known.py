"""Kinds of wrong outcomes that are known: how the kind begins -> why it stands.

A kind is taken out with its fix; what is left is what the program still gets wrong.
"""

from __future__ import annotations

from collections.abc import Mapping

KNOWN: Mapping[str, str] = {}
