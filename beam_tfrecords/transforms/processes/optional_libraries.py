"""Libraries that ours import where they are installed, although no work of ours needs them."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

# pyarrow imports pandas when it first converts a list; Beam imports all of them, and installs the last one itself.
_OPTIONAL = frozenset(("pandas", "IPython", "pymongo"))


class _Missing(importlib.abc.MetaPathFinder):
    """Says of them what an environment says that lacks them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname in _OPTIONAL:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


_MISSING = _Missing()


def leave_out() -> None:
    """From now on, this process imports none of them: for one that runs nothing but what is ours.

    Who has looked for one meanwhile, as pyarrow does, may not look again after `bring_back`.
    """
    if _MISSING not in sys.meta_path:
        sys.meta_path.insert(0, _MISSING)


def bring_back() -> None:
    """The reverse, for a function of the user that may import them."""
    if _MISSING in sys.meta_path:
        sys.meta_path.remove(_MISSING)
