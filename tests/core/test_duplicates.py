"""The search, step by step and without Beam, compared with a dict."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.errors import BuildError
from beam_tfrecords.features.layouts import parse_layout
from beam_tfrecords.transforms.duplicates.groups import MOST_IMAGES, DuplicatesFound, describe_groups
from beam_tfrecords.transforms.duplicates.search import (
    DuplicateSearch,
    find_bucket,
    find_repeated,
    part_id,
    read_hashes,
    read_images,
)
from beam_tfrecords.transforms.parts import GROUP_BYTES, Part
from tests.core.part_writing import ROW, add_row, part_writer

# Samples whose rows are a group.
RANGE = GROUP_BYTES // 160


def make_search(folder: Path, *, samples: int = 10, **changes: Any) -> DuplicateSearch:
    """A search in which `test` is the smallest split and `train` the largest."""
    search = DuplicateSearch(
        folder=str(folder),
        listed={"train": samples, "test": 1, "validation": 5},
        row_bytes=160,
        drops=True,
        near_distance=0,
        layout=parse_layout("tfds"),
        class_names=("cat", "dog"),
        compression="none",
    )
    return dataclasses.replace(search, **changes)


def write_part(folder: Path, rows: Iterable[tuple[str, str, str | None]], *, split="train", block=0) -> Part:
    """A part with a record for every (key, content hash, label); the record is its key."""
    writer = part_writer(folder / "parts", f"{split}-{block:06d}", split=split, block=block)
    for key, content_hash, label in rows:
        row = {"key": key, "uri": f"/photos/{key}", "content_hash": content_hash, "label": label}
        add_row(writer, key.encode(), {**ROW, **row, "height": 1, "width": 2})
    (part,) = writer.close()
    return part


def group_by_key(pairs: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, list[Any]]]:
    groups = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    # In reverse: no step may depend on the order in which elements arrive.
    for key in reversed(groups):
        yield key, groups[key][::-1]


def find(parts: list[Part], search: DuplicateSearch) -> tuple[list[dict], list[DuplicatesFound]]:
    """All groups as the build lists them, and what was found in every range of the hash space."""
    hashes = itertools.chain.from_iterable(read_hashes(part, search=search) for part in parts)
    of_ranges = (find_repeated(one, most_rows=search.most_rows) for one in group_by_key(hashes))
    repeated = dict(group_by_key(itertools.chain.from_iterable(of_ranges)))
    joined = [(part_id(part), {"parts": [part], "hashes": repeated.get(part_id(part), [])}) for part in parts]
    images = itertools.chain.from_iterable(read_images(one, search=search) for one in joined)
    found = [describe_groups(bucket, search=search) for bucket in group_by_key(images)]
    files = sorted(file for one in found for file in one.files)
    return [json.loads(line) for file in files for line in Path(file).read_text().splitlines()], found


# The first two begin with the same 64 bits and differ.
HASHES = [f"{0:063x}1", f"{0:063x}2", "8" * 64, "f" * 64, ""]
SAMPLES = st.lists(
    st.tuples(
        st.sampled_from(["train", "test", "validation"]),
        st.integers(0, 2),
        st.sampled_from(HASHES),
        st.sampled_from(["cat", "dog", None]),
    ),
    max_size=25,
)


@given(samples=SAMPLES, buckets=st.integers(1, 5))
def test_the_groups_are_those_of_a_dict_of_all_samples(tmp_path_factory, samples, buckets):
    folder = tmp_path_factory.mktemp("groups")
    search = make_search(folder, samples=buckets * RANGE - 6)
    assert search.buckets == buckets
    rows = defaultdict(list)
    for number, (split, block, content_hash, label) in enumerate(samples):
        rows[split, block].append((f"{number}.jpg", content_hash, label))
    parts = [write_part(folder, few, split=split, block=block) for (split, block), few in rows.items()]
    listed, found = find(parts, search)

    order = ["test", "validation", "train"]
    expected = defaultdict(list)
    for split, block in sorted(rows, key=lambda place: (order.index(place[0]), place[1])):
        for row, (key, content_hash, label) in enumerate(rows[split, block]):
            expected[content_hash].append((split, block, row, key, label))
    expected.pop("", None)
    groups = {content_hash: copies for content_hash, copies in expected.items() if len(copies) > 1}
    assert {group["content_hash"] for group in listed} == set(groups)
    dropped = defaultdict(set)
    for group in listed:
        copies = groups[group["content_hash"]]
        assert [(image["split"], image["key"], image["label"]) for image in group["images"]] == [
            (split, key, label) for split, _, _, key, label in copies
        ]
        splits = [split for split, *_ in copies]
        assert group["copies"] == len(copies)
        assert group["splits"] == {split: splits.count(split) for split in splits}
        assert group["across_splits"] is (len(set(splits)) > 1)
        assert group["conflicting_labels"] is (len({label for *_, label in copies}) > 1)
        assert group["kept"] == copies[0][3]
        for split, block, row, _, _ in copies[1:]:
            dropped[split, block, 0].add(row)
    across = [group["across_splits"] for group in listed]
    assert across == sorted(across, reverse=True)
    for part, few in group_by_key(item for one in found for item in one.dropped):
        assert sorted(itertools.chain(*few)) == sorted(dropped.pop(part))
    assert not dropped


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1), st.integers(1, 10_000))
def test_ranges_of_the_hash_space_follow_the_order_of_the_hashes(prefixes, buckets):
    numbers = [find_bucket(prefix, buckets) for prefix in sorted(prefixes)]
    assert numbers == sorted(numbers)
    assert 0 <= numbers[0] <= numbers[-1] < buckets
    assert find_bucket(np.sort(np.array(prefixes, dtype=np.uint64)), buckets).tolist() == numbers


def test_parts_without_a_repeated_hash_are_not_read_again(tmp_path):
    hashes = [hashlib.sha256(bytes([number])).hexdigest() for number in range(100)]
    part = write_part(tmp_path, [(content_hash, content_hash, "cat") for content_hash in hashes])
    search = make_search(tmp_path)
    ((_, (identity, packed)),) = read_hashes(part, search=search)
    assert len(packed) == 800
    # Of a part that is known from a checkpoint, the index tells.
    assert [(0, (identity, packed))] == list(read_hashes(dataclasses.replace(part, hashes=None), search=search))
    assert list(find_repeated((0, [(identity, packed)]), most_rows=1)) == []
    assert list(read_images((identity, {"parts": [part], "hashes": []}), search=search)) == []


def test_smaller_splits_come_first_in_keeping_a_copy_and_train_last_among_equals(tmp_path):
    search = make_search(tmp_path, listed={"train": 7, "validation": 7, "test": 7, "challenge": 3})
    assert sorted(search.ranks, key=search.ranks.__getitem__) == ["challenge", "test", "validation", "train"]


@pytest.mark.parametrize("row_bytes", [160, 1 << 12])
def test_a_very_frequent_image_is_counted_in_full_and_listed_in_part(tmp_path, row_bytes):
    """Where its copies are more than a group should have, they are in files."""
    copies = 2 * MOST_IMAGES + 500
    rows = [(f"{number:05d}", "c" * 64, "cat") for number in range(copies)]
    parts = [write_part(tmp_path, rows[start::3], block=start) for start in (2, 1, 0)]
    (group,), (found,) = find(parts, make_search(tmp_path, row_bytes=row_bytes))
    assert (group["copies"], group["kept"]) == (copies, "00000")
    assert [image["key"] for image in group["images"]] == [key for key, _, _ in (rows[0::3] + rows[1::3])[:MOST_IMAGES]]
    assert sum(len(few) for _, few in found.dropped) == copies - 1
    files = list((tmp_path / "duplicates").glob("*.msgpack"))
    assert len(files) == (0 if row_bytes == 160 else 3)


def test_an_index_that_lacks_a_row_breaks_the_build_and_both_numbers_are_named(tmp_path):
    part = dataclasses.replace(write_part(tmp_path, [("a", "a" * 64, None)]), records=2, hashes=None)
    with pytest.raises(BuildError, match="has 1 rows, but its part has 2 records"):
        list(read_hashes(part, search=make_search(tmp_path)))
