"""Nothing of an input vanishes or changes its number without a word, whatever its format is."""

from __future__ import annotations

import csv
import io
import json
import random
import tarfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from beam_tfrecords import Sample, WriteDataset, build, open_dataset, plan
from tests.framing import example_of, framed
from tests.pictures import picture
from tests.writers import MEANING, WRITERS

EXTRA = "zz_extra"
# Forms in which another file has the fields, or a further column is a further pixel.
OTHERS = {"function", "gzip_table", "own_dataset", "pixel_table"}


def _json(data: bytes, draw: random.Random) -> bytes:
    tree = json.loads(data)
    _choose(tree, draw)[EXTRA] = 7
    return json.dumps(tree).encode()


def _choose(tree: Any, draw: random.Random) -> dict[str, Any]:
    """Returns a dictionary in a tree."""
    return draw.choice([*_dictionaries(tree)])


def _dictionaries(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
    for one in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _dictionaries(one)


def _lines(data: bytes, draw: random.Random) -> bytes:
    rows = [json.loads(line) for line in data.splitlines() if line.strip()]
    return b"".join(json.dumps({**row, EXTRA: 7}).encode() + b"\n" for row in rows)


def _xml(data: bytes, draw: random.Random) -> bytes:
    root = ElementTree.fromstring(data)
    parents = [one for one in root.iter() if len(one)]
    ElementTree.SubElement(draw.choice(parents), EXTRA).text = "7"
    return ElementTree.tostring(root)


def _table(delimiter: str) -> Callable[[bytes, random.Random], bytes]:
    def change(data: bytes, draw: random.Random) -> bytes:
        rows = [*csv.reader(io.StringIO(data.decode()), delimiter=delimiter)]
        out = io.StringIO()
        csv.writer(out, delimiter=delimiter).writerows(
            [*row, EXTRA if number == 0 else "7"] for number, row in enumerate(rows)
        )
        return out.getvalue().encode()

    return change


def _yaml(data: bytes, draw: random.Random) -> bytes:
    return yaml.safe_dump({**yaml.safe_load(data), EXTRA: 7}, sort_keys=False).encode()


def _parquet(data: bytes, draw: random.Random) -> bytes:
    table = pq.read_table(io.BytesIO(data))
    out = io.BytesIO()
    pq.write_table(table.append_column(EXTRA, pa.array([7] * len(table))), out)
    return out.getvalue()


def _npz(data: bytes, draw: random.Random) -> bytes:
    arrays = dict(np.load(io.BytesIO(data)))
    out = io.BytesIO()
    np.savez(out, **arrays, **{EXTRA: np.full(len(next(iter(arrays.values()))), 7)})
    return out.getvalue()


def _tar(data: bytes, draw: random.Random) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(data)) as old, tarfile.open(fileobj=out, mode="w") as new:
        stems = dict.fromkeys(member.name.partition(".")[0] for member in old if member.isfile())
        for stem in stems:
            for member in old:
                if member.isfile() and member.name.partition(".")[0] == stem:
                    new.addfile(member, old.extractfile(member))
            more = tarfile.TarInfo(f"{stem}.{EXTRA}")
            more.size = 1
            new.addfile(more, io.BytesIO(b"7"))
    return out.getvalue()


CHANGES = {
    ".json": _json, ".jsonl": _lines, ".xml": _xml, ".csv": _table(","), ".tsv": _table("\t"), ".yaml": _yaml,
    ".parquet": _parquet, ".npz": _npz, ".tar": _tar,
}  # fmt: skip


def _add_field(folder: Path, draw: random.Random) -> str | None:
    """Adds a field to all files of a form in a folder; returns where, or None if there is no such file."""
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in CHANGES and path.name != "mapping.yaml"]
    if not files:
        return None
    path = draw.choice(files)
    alike = (
        [one for one in files if one.suffix == path.suffix] if path.suffix in (".csv", ".tsv", ".parquet") else [path]
    )
    for one in alike:
        one.write_bytes(CHANGES[one.suffix](one.read_bytes(), draw))
    return path.name


@pytest.mark.parametrize("name", sorted(WRITERS.keys() - OTHERS))
@pytest.mark.parametrize("seed", range(3))
def test_a_field_that_nothing_uses_is_named(name, seed, tmp_path):
    draw = random.Random(seed)
    settings = WRITERS[name].write(tmp_path, MEANING)
    where = _add_field(tmp_path, draw)
    if where is None:
        pytest.skip("the format has no file with fields")
    planned = plan(**settings, output=str(tmp_path / "out"), image_encoding="png")
    # Members of archives of images are skipped and counted by kind; a list of classes has a class more.
    named = [*(entry.field for entry in planned.ledger), *planned.skipped, *planned.class_names]
    assert any(EXTRA in name for name in named), f"{where}: {planned}"


def test_features_of_later_records_are_named(tmp_path):
    many = [{"image": picture("red 8x8"), "label": n % 2, **({EXTRA: 7} if n == 60 else {})} for n in range(61)]
    (tmp_path / "a.tfrecord").write_bytes(b"".join(framed(example_of(one)) for one in many))
    planned = plan(str(tmp_path / "a.tfrecord"), str(tmp_path / "out"))
    assert [(entry.field, entry.count) for entry in planned.ledger] == [(EXTRA, 1)]


@pytest.mark.parametrize("layout", [None, "image"])
def test_columns_and_parts_of_samples_are_named(layout, tmp_path):
    planned = plan(_many_things, str(tmp_path / "out"), parts=["a"], **({"layout": layout} if layout else {}))
    named = {entry.field for entry in planned.ledger}
    assert named == {f"columns.{EXTRA}", "images.left", *(["label"] if layout else [])}


def _many_things(part):
    red = np.full((8, 8, 3), (255, 0, 0), np.uint8)
    for label in ("cat", "dog"):
        yield Sample(label, images={"image": red, "left": red}, label=label, columns={EXTRA: 1})


def test_features_of_examples_in_a_pipeline_are_named(tmp_path):
    example = example_of({"image/encoded": picture("red 8x8"), "image/class/label": 0, "image/class/synset": b"n01"})
    named = example_of({"image/encoded": picture("blue 8x8"), "image/class/label": 1, "image/filename": b"x/b.png"})
    with beam.Pipeline() as root:
        _ = root | beam.Create([example, named]) | WriteDataset(str(tmp_path / "out"), class_names=["a", "b"])
    dataset = open_dataset(tmp_path / "out")
    assert [(one["field"], one["count"]) for one in dataset.manifest["ledger"]] == [("columns.image/class/synset", 1)]
    assert "b.png" in {record["filename"] for record in dataset.records()}


@pytest.mark.parametrize(
    ("numbers", "layout", "stored"),
    [
        ((1, 10, 90), "detection", {"1": 1, "10": 10, "90": 90}),
        ((1, 2, 3), "detection", {"1": 1, "2": 2, "3": 3}),
        ((0, 1, 2), "detection", {"0": 1, "1": 2, "2": 3}),
        ((1, 18, 35), "tfds", {"1": 0, "18": 1, "35": 2}),
        ((0, 1, 2), "tfds", {"0": 0, "1": 1, "2": 2}),
    ],
)
def test_a_number_is_kept_or_the_ledger_says_the_other(numbers, layout, stored, tmp_path):
    names = [f"class {number}" for number in numbers]
    (tmp_path / "a.png").write_bytes(picture("red 20x20"))
    document = {
        "images": [{"id": 1, "file_name": "a.png"}],
        "annotations": [{"image_id": 1, "category_id": number, "bbox": [1, 1, 5, 5]} for number in numbers],
        "categories": [{"id": number, "name": name} for number, name in zip(numbers, names, strict=True)],
    }
    (tmp_path / "x.json").write_text(json.dumps(document))
    dataset = build(str(tmp_path / "x.json"), str(tmp_path / "out"), layout=layout, quiet=True)
    feature = "image/object/class/label" if layout == "detection" else "objects/label"
    (record,) = dataset.records()
    assert [*record[feature]] == [*stored.values()]
    moved = [one["detail"] for one in dataset.manifest["ledger"] if one["fate"] != "not stored"]
    assert moved == [", ".join(f"{was} -> {now}" for was, now in stored.items() if int(was) != now)][: len(moved)]
    assert bool(moved) == any(int(was) != now for was, now in stored.items())


def test_names_of_fields_cannot_control_a_terminal(tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / f"{name}.png").write_bytes(picture("red 20x20"))
    rows = [{"image": f"{name}.png", "label": name, f"{EXTRA}\x1b[31m\n": 1} for name in ("a", "b")]
    (tmp_path / "t.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    dataset = build(str(tmp_path / "t.jsonl"), str(tmp_path / "out"))
    shown = str(plan(str(tmp_path / "t.jsonl"), str(tmp_path / "planned"))) + "".join(capsys.readouterr())
    assert EXTRA in shown
    assert "\x1b[31m" not in shown
    assert EXTRA in str(dataset.manifest["ledger"])
