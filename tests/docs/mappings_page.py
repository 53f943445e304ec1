"""Writes the table of docs/mappings.md from the files of the mappings.

python -m tests.docs.mappings_page
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from beam_tfrecords.transforms.sources.annotated import mapping
from tests.docs.pages import PROJECT

PAGE = PROJECT / "docs" / "mappings.md"
MARKER = "<!-- The rest of this page is the output of: python -m tests.docs.mappings_page -->\n\n"


def table() -> str:
    """The name, the documents and the first comment of each mapping."""
    return "| `--mapping` | documents | what it reads |\n|---|---|---|\n" + "".join(_rows())


def _rows() -> Iterator[str]:
    for name in mapping.mapping_names():
        path = PROJECT / "beam_tfrecords/transforms/sources/annotated/mappings" / f"{name}.yaml"
        comments = re.findall(r"^# (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        text = re.sub(r"(https?://\S+)", r"[format](\1).", " ".join(comments)).rstrip()
        documents = mapping.read_mapping(name).documents
        yield f"| `{name}` | `{documents}` | {text.replace('|', chr(92) + '|')} |\n"


if __name__ == "__main__":
    print(table(), end="")
