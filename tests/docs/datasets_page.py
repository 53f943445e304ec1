"""Writes docs/datasets.md: the command for each public dataset whose layout is tested, and what it gives.

python -m tests.docs.datasets_page > docs/datasets.md
"""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path

from tests.beam_pipelines.public_layouts import Layout
from tests.beam_pipelines.recommended_commands import DATASETS, Recommendation, recommend

_MOST_LABELS = 3
_SPLITS = ("train", "validation", "test")
_HEADER = """# Commands for public datasets

Each row has the command that reads a well-known dataset, with the labels that people train on, from the folder that you
unpacked it into, in its original form or as Kaggle and Roboflow distribute it. `DIR` is that folder. Add `--dry_run` to
see classes, splits, counts and five samples.

Some commands differ from the first one that `convert` prints for the folder alone, because the folder does not say
which of two folder levels or lists you want, or what a number in a file name means. Where the column of labels says
`not read`, the command reads only the images, and the reason follows; [unsupported.md](unsupported.md) shows how to
convert other formats. The same rules read [archives](sources/archives.md) of these trees.

The labels are examples. They come from a copy of each dataset that is reduced to a few files: a test runs each command
on that copy and generates this page (`python -m tests.docs.datasets_page`). So COCO has only the class `cat` here, and
a command with a list of columns or folders has only those of the copy.

| dataset | command: `beam-tfrecords convert --output=out …` | splits | labels |
|---|---|---|---|
"""


def page() -> str:
    """The page."""
    return _HEADER + "".join(sorted(map(_row, DATASETS), key=str.lower))


def _row(layout: Layout) -> str:
    with tempfile.TemporaryDirectory() as folder:
        found = recommend(layout, Path(folder))
    command = shlex.join(found.words).replace("|", "\\|")
    name = layout.name.replace("|", "")
    splits = ", ".join(sorted(found.records, key=_SPLITS.index))
    return f"| {name} | `{command}` | {splits} | {_labels(layout, found)} |\n"


def _labels(layout: Layout, found: Recommendation) -> str:
    if found.kind == "nothing":
        assert layout.remark, (
            f"{layout.name}: expected a command that reads labels, or a remark that says why none does"
        )
        return f"not read: {layout.remark}"
    names = sorted({name for counts in found.records.values() for name in counts if name})
    shown = ", ".join([*names[:_MOST_LABELS], *["…"] * (len(names) > _MOST_LABELS)])
    labels = shown if found.kind == "classes" else ": ".join(filter(None, (found.kind, shown)))
    return f"{labels} ({layout.remark})" if layout.remark else labels


if __name__ == "__main__":
    print(page(), end="")
