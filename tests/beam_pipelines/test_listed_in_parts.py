"""Tables whose rows the workers list: the dataset is the one of a table that one process lists."""

from __future__ import annotations

import gzip
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords.beam_pipelines.build.listing import list_for_build
from beam_tfrecords.beam_pipelines.commands.cli import main
from beam_tfrecords.transforms.sources.tables import parquet_table, table_source, text_table
from tests.beam_pipelines.dataset_checks import manifest_of

ROWS = 300


@pytest.fixture
def in_parts(monkeypatch, count_parts):
    """Has the workers list tables of any size; returns the numbers of parts."""

    def switch(range_bytes=1000):
        monkeypatch.setattr(table_source, "_LEAST_BYTES", 0)
        monkeypatch.setattr(text_table, "RANGE_BYTES", range_bytes)
        monkeypatch.setattr(parquet_table, "_RANGE_ROWS", 50)
        return count_parts()

    return switch


def make_table(path, kind):
    columns = {
        "name": [f'the "{number}",\nof many' for number in range(ROWS)],
        "label": [f"class {number % 3}" for number in range(ROWS)],
        "split": [
            ("train", "test", "not a split!")[min(number % 7, 2) if number < 30 else 0] for number in range(ROWS)
        ],
    }
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if kind == "parquet":
        pq.write_table(pa.table(columns), path)
    elif kind == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    else:
        lines = ["name,label,split"]
        lines += ['"{}",{},{}'.format(row["name"].replace('"', '""'), row["label"], row["split"]) for row in rows]
        path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.any_workers
@pytest.mark.parametrize(
    "flags", [[], ["--limit=100"], ["--split_column=", "--splits=train=0.8,test=0.2", "--stratify"]]
)
@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_the_dataset_is_the_same(tmp_path, in_parts, snapshot, beam_workers, kind, flags):
    table, out = make_table(tmp_path / f"m.{kind}", kind), tmp_path / "out"
    spec = tmp_path / "spec.json"
    layout = {"name": {"field": "column.name", "type": "bytes"}, "label": {"field": "label.index", "type": "int64"}}
    spec.write_text(json.dumps({"layout": layout, "max_failures": 0.5, "name": "m"}))
    words = ["convert", f"--input={table}", f"--output={out}", f"--spec={spec}", "--no_report", *beam_workers]
    counts, found = [], []
    for listed_by_workers in (False, True):
        if listed_by_workers:
            counts = in_parts()
        assert main([*words, *flags, "--overwrite"]) == 0
        found.append(snapshot(out))
    assert found[0] == found[1]
    assert counts[-1] > 3
    assert manifest_of(out)["listed"] == (100 if "--limit=100" in flags else ROWS)


def test_a_table_that_cannot_be_cut_is_listed_as_a_whole(tmp_path, in_parts, snapshot, save, picture):
    images = [save(tmp_path / f"{number}.png", picture(number, 8, 8)).name for number in range(40)]
    header, rows = "image,x,y,width,height\n", [f"{name},1,2,3,4\n" for name in images]
    inputs = [tmp_path / "a.csv.gz", tmp_path / "b.csv"]
    inputs[0].write_bytes(gzip.compress((header + "".join(rows[:10])).encode()))
    inputs[1].write_text(header + "".join(rows[10:]))
    words = ["convert", "--layout=detection", f"--output={tmp_path / 'out'}", "--source=csv", "--no_report"]
    words += [f"--input={path}" for path in inputs]
    assert main(words) == 0
    expected = snapshot(tmp_path / "out")
    counts = in_parts(range_bytes=100)
    assert main([*words, "--overwrite"]) == 0
    assert counts[-1] > 1
    assert snapshot(tmp_path / "out") == expected


def test_a_changed_image_is_found_although_the_table_is_the_same(tmp_path, in_parts, picture, save):
    paths = [save(tmp_path / f"{number}.png", picture(number, 8, 8)) for number in range(12)]
    table, out = tmp_path / "m.csv", tmp_path / "out"
    table.write_text("image,label\n" + "".join(f"{path.name},{number % 2}\n" for number, path in enumerate(paths)))
    counts = in_parts(range_bytes=40)
    words = ["convert", f"--input={table}", f"--output={out}", "--versioned", "--image_encoding=png", "--no_report"]
    for versions in (1, 1, 2):
        assert main(words) == 0
        assert len([name for name in os.listdir(out) if (out / name / "_SUCCESS").exists()]) == versions
        if versions == 1 and len(counts) == 2:
            save(paths[5], picture(100, 9, 9))
    assert len(counts) == 3
    assert min(counts) > 2


def test_a_refused_table_leaves_nothing(tmp_path, in_parts, capsys):
    table, out = make_table(tmp_path / "m.parquet", "parquet"), tmp_path / "out"
    counts = in_parts()
    words = ["convert", f"--input={table}", f"--output={out}", "--class_names=class 0", "--include=nothing"]
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"layout": {"label": {"field": "label.index", "type": "int64"}}}))
    assert main([*words, f"--spec={spec}"]) == 2
    assert counts
    assert "include" in capsys.readouterr().err
    assert not out.exists()


def test_a_table_that_is_cut_short_ends_the_build_with_its_name(tmp_path, in_parts, capsys, monkeypatch):
    table, out = make_table(tmp_path / "m.parquet", "parquet"), tmp_path / "out"
    in_parts()
    index = list_for_build.list_by_workers

    def cut_first(*arguments):
        table.write_bytes(table.read_bytes()[:-100])
        index(*arguments)

    monkeypatch.setattr(list_for_build, "list_by_workers", cut_first)
    assert main(["convert", f"--input={table}", f"--output={out}", "--layout=columns"]) == 1
    assert f"{table} has changed while it was read; run the same command again" in capsys.readouterr().err
