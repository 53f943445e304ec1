"""The command that installs an extra of the package, for messages."""

from __future__ import annotations

# Name of the package in an index; filled in at the release. Before it, the package is installed from a clone.
RELEASED_AS = ""


def install_hint(extra: str) -> str:
    """Returns how to install an extra, such as "pip install '.[gcp]' in the clone"."""
    return f"pip install '{RELEASED_AS}[{extra}]'" if RELEASED_AS else f"pip install '.[{extra}]' in the clone"
