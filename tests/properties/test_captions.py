"""Captions with all that texts may have, against what other readers find in the same files."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pycocotools.coco import COCO

from beam_tfrecords import build
from tests.pictures import picture
from tests.published import read_published
from tests.writers import save

WORDS = (
    *("a", "dog", 'says "no"', "with, comma", "ünd", "犬", "line\nbreak", "tab\tbed", "\\back", "'", "{}", " ends "),
)
Texts = Mapping[str, Sequence[str]]


def _coco(folder: Path, texts: Texts, chance: random.Random) -> tuple[dict[str, Any], Texts]:
    ids = dict(zip(texts, chance.sample(range(1 << 40), len(texts)), strict=True))
    annotations = [{"image_id": ids[name], "caption": text} for name, several in texts.items() for text in several]
    chance.shuffle(annotations)
    images = [{"id": number, "file_name": name, "height": 9, "width": 9} for name, number in ids.items()]
    content = {"images": images, "annotations": [{**one, "id": number} for number, one in enumerate(annotations)]}
    path = folder / "captions_train.json"
    path.write_text(json.dumps(content, ensure_ascii=chance.random() < 0.5))
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(str(path))
    found = {name: [one["caption"] for one in coco.loadAnns(coco.getAnnIds(imgIds=[ids[name]]))] for name in texts}
    return {"input": str(path)}, found


def _jsonl(folder: Path, texts: Texts, chance: random.Random) -> tuple[dict[str, Any], Texts]:
    rows = [{"image": name, "captions": several} for name, several in texts.items()]
    save(folder / "t.jsonl", "".join(json.dumps(row, ensure_ascii=chance.random() < 0.5) + "\n" for row in rows))
    return {"input": f"{folder}/t.jsonl", "layout": "captions"}, texts


def _parquet(folder: Path, texts: Texts, chance: random.Random) -> tuple[dict[str, Any], Texts]:
    rows = [{"image": name, "captions": several} for name, several in texts.items()]
    pq.write_table(pa.Table.from_pylist(rows), folder / "t.parquet", row_group_size=7)
    return {"input": f"{folder}/t.parquet", "layout": "captions"}, texts


def _csv(folder: Path, texts: Texts, chance: random.Random) -> tuple[dict[str, Any], Texts]:
    pairs = [(name, text) for name, several in texts.items() for text in dict.fromkeys(several)]
    chance.shuffle(pairs)
    delimiter = chance.choice(",;")
    with (folder / "t.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([("image", "caption"), *pairs])
    found: dict[str, list[str]] = {}
    with (folder / "t.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter=delimiter):
            found.setdefault(row["image"], []).append(row["caption"])
    # Workers list the rows of an image in any order.
    expected = {name: sorted(several) for name, several in found.items()}
    settings = {"group_rows": True, "label_type": "text", "label_column": "caption"}
    return {"input": f"{folder}/t.csv", **settings}, expected


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("write", [_coco, _jsonl, _parquet, _csv])
def test_captions_are_those_that_other_readers_have(tmp_path, write: Callable[..., Any], seed):
    chance = random.Random(seed)
    names = [f"{number:03d} ü.png" for number in range(30)]
    texts = {
        name: [" ".join(chance.choices(WORDS, k=chance.randrange(1, 9))) for _ in range(chance.choice((0, 1, 2, 5, 7)))]
        for name in names
    }
    for name in names:
        save(tmp_path / name, picture("red 8x8"))
    settings, expected = write(tmp_path, texts, chance)
    published = read_published(build(output=str(tmp_path / "out"), quiet=True, **settings).path)
    feature = "label" if write is _csv else "captions"
    found = {one.key: [text.decode() for text in one.values[feature]] for one in published.records}
    assert {name: sorted(several) if write is _csv else several for name, several in found.items()} == expected
