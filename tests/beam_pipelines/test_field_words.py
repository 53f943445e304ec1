"""Columns and images that are called like fields: what the user names says nothing of classes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow

_TABLE = (Path(__file__).parents[2] / "docs/layouts.md").read_text().partition("| field |")[2].partition("\n\n")[0]
# Every field, and the words that they are made of.
FIELDS = re.findall(r"`([a-z_]+(?:\.[a-z_]+)?)`", "".join(row.split(" | ")[0] for row in _TABLE.splitlines()))
WORDS = sorted({word for field in FIELDS for word in (field, *field.split("."))} | {"x.index", "x.id", "x.name"})
NUMBER = 4711
ROWS = 4


def test_a_table_of_images_and_columns(tmp_path, picture, save, run, build):
    images = [save(tmp_path / f"{number}.png", picture(number, 8, 8)) for number in range(ROWS)]
    table = {"path": [Path(image).name for image in images], "class": ["cat", "dog"] * (ROWS // 2)}
    columns = {f"my {word}": [NUMBER + row for row in range(ROWS)] for word in WORDS}
    columns |= {word: [NUMBER + row for row in range(ROWS)] for word in WORDS}
    pq.write_table(pa.table({**table, **columns}), tmp_path / "rows.parquet")
    layout = {"picture": "image.encoded", "class": "label.index"}
    layout |= {f"f/{name}": {"field": f"column.{name}", "type": "int64"} for name in columns}
    check(tmp_path, layout, run, build, "--image_column=path", "--label_column=class")


def test_a_table_of_columns_alone(tmp_path, run, build):
    # A column that is called `image` has to hold paths.
    columns = {word: [NUMBER + row for row in range(ROWS)] for word in WORDS if word != "image"}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    check(tmp_path, "columns", run, build)


@pytest.mark.parametrize("last", ["index", "id", "name"])
def test_images_that_are_called_like_fields(tmp_path, picture, save, run, build, last):
    paths = [save(tmp_path / f"{number}.png", picture(number, 8, 8)).name for number in range(ROWS)]
    pq.write_table(
        pa.table({"other": paths, last: paths[::-1], "class": ["cat", "dog"] * 2}), tmp_path / "rows.parquet"
    )
    layout = {"other": "images.other", f"f/{last}": f"images.{last}", "class": "label.index"}
    check(tmp_path, layout, run, build, f"--image_column=other,{last}", "--label_column=class")


def check(folder: Path, layout, run, build, *flags: str) -> None:
    """Checks that a dataset goes through all commands and readers with its values."""
    spec = folder / "spec.json"
    spec.write_text(json.dumps({"layout": layout}))
    out = build(folder / "out", f"--spec={spec}", f"--input={folder / 'rows.parquet'}", *flags)
    assert run("verify", f"--dataset={out}", "--direct_num_workers=1").code == 0
    shown = run("inspect", f"--dataset={out}")
    assert shown.code == 0
    assert f"{NUMBER} (" not in shown.out
    assert run("report", f"--dataset={out}").code == 0
    assert [path.name for path in out.glob("*.labels.txt")] == (["class.labels.txt"] if "class" in layout else [])
    examples = list(load(out, "train").as_numpy_iterator())
    assert len(examples) == ROWS
    columns = [name for name in examples[0] if layout == "columns" or "column." in str(layout[name])]
    for name in columns:
        assert sorted(int(example[name]) for example in examples) == [NUMBER + row for row in range(ROWS)], name
