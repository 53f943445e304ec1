"""Writes the table of docs/mappings.md from the files of the mappings.

python -m tests.docs.mappings_page
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from tests.docs.pages import PROJECT

PAGE = PROJECT / "docs" / "mappings.md"
MARKER = "<!-- The rest of this page is the output of: python -m tests.docs.mappings_page -->\n\n"


def table() -> str:
    """The name, the documents and the first comment of each mapping."""
    return "| `--mapping` | documents | what it reads |\n|---|---|---|\n" + "".join(_rows())


def _rows() -> Iterator[str]:
    for path in sorted((PROJECT / "beam_tfrecords/transforms/sources/annotated/mappings").glob("*.yaml")):
        mapping = path.read_text(encoding="utf-8")
        comments = re.findall(r"^# (.*)$", mapping, re.MULTILINE)
        text = re.sub(r"(https?://\S+)", r"[format](\1).", " ".join(comments)).rstrip()
        documents = yaml.safe_load(mapping).get("documents", "")
        yield f"| `{path.stem}` | `{documents}` | {text.replace('|', chr(92) + '|')} |\n"


if __name__ == "__main__":
    print(table(), end="")
