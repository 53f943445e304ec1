"""Oversized rows: only a small part of them is shuffled, and blocks see them as they were listed."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms.listing.decisions import UNDECIDED
from beam_tfrecords.transforms.listing.listing import ListPlan, read_chunk, read_refs, write_listing
from beam_tfrecords.transforms.listing.ordering import order_chunk
from beam_tfrecords.transforms.refs.sample_refs import SampleRef

PLAN = ListPlan()


def texts(count: int) -> list[SampleRef]:
    rng = random.Random(7)
    return [SampleRef(f"{number:03d}", label=rng.randbytes(50_000).hex()) for number in range(count)]


def test_what_is_shuffled_of_long_texts_and_wide_rows_is_small(tmp_path):
    wide = [SampleRef(f"row {n}", columns={f"column {i}": f"{n} {i}" for i in range(2000)}) for n in range(50)]
    listing = write_listing([*texts(50), *wide], str(tmp_path), plan=ListPlan(count_labels=False))
    assert listing.ref_bytes[""] > 50 * 100_000
    shuffled = [
        packed
        for chunk in listing.chunks
        for _, _, packed in order_chunk(chunk, seed=0, blocks={"": 9}, decisions=UNDECIDED)
    ]
    assert sum(map(len, shuffled)) < 100 * 200
    assert [Path(file).suffix for file in listing.files] == [".refs", ".values"]


def test_a_damaged_overflow_file_is_named(tmp_path):
    listing = write_listing(texts(3), str(tmp_path), plan=PLAN)
    (file,) = listing.overflow_files
    assert len(list(read_chunk(listing.chunks[0], UNDECIDED))) == 1
    os.truncate(file, Path(file).stat().st_size // 2)
    with pytest.raises(BuildError, match=rf"{file} is damaged \(.*\); delete it and run the same command again"):
        list(read_refs(listing))
