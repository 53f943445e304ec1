"""Words of splits in paths decide for all samples or for none, whatever the order of the rows."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from beam_tfrecords import RequestError, build
from tests.pictures import picture
from tests.published import read_published
from tests.writers import save

SPLITS = {"train": "train", "val": "validation", "test": "test"}


def outcome(rows: list[str], folder: Path) -> dict[str, str] | str:
    """Returns key -> split of a table of these rows, or the code of its refusal."""
    save(folder.parent / "t.csv", "image,label\n" + "".join(rows))
    try:
        published = read_published(build(input=f"{folder.parent}/t.csv", output=str(folder), quiet=True).path)
    except RequestError as error:
        return error.code
    return {record.key: record.split for record in published.records}


@pytest.mark.parametrize("seed", range(8))
def test_every_sample_has_the_split_of_its_folders_or_none_has_one(seed, tmp_path):
    chance = random.Random(seed)
    words = chance.sample([*SPLITS, "x", "y"], 3)
    folders = ["/".join(chance.choices(words, k=chance.randint(1, 2))) for _ in range(5)]
    rows = []
    for number, folder in enumerate(folders):
        save(tmp_path / f"{folder}/{number}.png", picture("red 8x8"))
        rows.append(f"{folder}/{number}.png,{('cat', 'dog')[number % 2]}\n")
    first = outcome(rows, tmp_path / "first")
    chance.shuffle(rows)
    assert outcome(rows, tmp_path / "second") == first
    if isinstance(first, dict):
        told = {key: {SPLITS[word] for word in key.split("/") if word in SPLITS} for key in first}
        assert {*first.values()} == {"train"} or all(first[key] in told[key] for key in first)
