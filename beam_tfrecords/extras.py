"""The commands that install the package and its extras, in messages and pages."""

from __future__ import annotations

import re

# Name of the package in an index; filled in at the release. Before it, the package is installed from a clone.
RELEASED_AS = ""
# Address of the repository; filled in at the release.
REPOSITORY = ""


def install_hint(extra: str) -> str:
    """Returns how to install an extra, such as "pip install '.[gcp]' in the clone"."""
    return install_release(f"pip install '.[{extra}]' in the clone")


def install_release(text: str) -> str:
    """Returns a text whose commands install from a clone with commands that install the release, if there is one."""
    if not RELEASED_AS:
        return text
    text = re.sub(r"pip install '\.(\[\w+\])'(?: in (?:a|the) clone)?", rf"pip install '{RELEASED_AS}\1'", text)
    return re.sub(r" ?\b(?:In|Work in) a clone of the repository[:.]", "", text)
