"""Writes docs/datasets.md: the command for each public dataset whose layout is tested, and what it gives.

python -m tests.docs.datasets_page > docs/datasets.md
"""

from __future__ import annotations

import ast
import itertools
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

from beam_tfrecords.beam_pipelines.settings.suggested_commands import explain
from beam_tfrecords.errors import RequestError
from tests.beam_pipelines.listed_records import commands_of, read, write_layout
from tests.beam_pipelines.public_layouts import LAYOUTS, Layout, Records

_MOST_LABELS = 3
_HEADER = """# Commands for public datasets

Each row has the command that reads a well-known dataset from the folder that you unpacked it into, in its original form
or as Kaggle and Roboflow distribute it. If a tree is ambiguous, `convert` with `--input` alone stops and prints the
commands to choose from; this page shows the first of them. Add `--dry_run` to see classes, splits, counts and five
samples. A test lists each layout, reduced to a few files, with its command, and generates this page
(`python -m tests.docs.datasets_page`). The same rules read archives of these trees, but you have to extract an archive
whose tables or lists are needed; the message has the command.

| dataset | command: `beam-tfrecords convert --output=out …` | splits | labels |
|---|---|---|---|
"""


def page() -> str:
    """The page."""
    # The others show a rule, and are no dataset.
    named = [layout for layout in LAYOUTS if re.search("[A-Z_]", layout.name)]
    return _HEADER + "".join(sorted(map(_row, named), key=str.lower))


def _row(layout: Layout) -> str:
    with tempfile.TemporaryDirectory() as folder:
        root = write_layout(layout, Path(folder))
        words, records = [f"--input={root}"], layout.records
        if records is None:
            try:
                read([*words, "--output=out"], Path(folder) / "listing")
            except RequestError as refusal:
                words = commands_of(explain(refusal, "convert", [*words, "--output=out"]))[0]
                records = layout.suggestions[0]
        assert records is not None
        shown = shlex.join(word for word in words if word != "--output=out")
        command = shown.replace(str(root), root.name if layout.root else "DIR").replace("|", "\\|")
    name = re.sub(r"[|]", "", layout.name)
    return f"| {name} | `{command}` | {', '.join(records)} | {', '.join(_labels(records))} |\n"


def _labels(records: Records) -> Iterator[str]:
    found = {label for counts in records.values() for label in counts}
    # Several labels are listed as text.
    several = (ast.literal_eval(label) if label.startswith("[") else [label] for label in found)
    labels = sorted(set(itertools.chain.from_iterable(several)))
    if labels == [""]:
        yield "none, or objects and masks"
        return
    yield from labels[:_MOST_LABELS]
    if len(labels) > _MOST_LABELS:
        yield "…"


if __name__ == "__main__":
    print(page(), end="")
