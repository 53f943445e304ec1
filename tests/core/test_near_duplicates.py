"""The search for near hashes, step by step and without Beam, compared with all pairs."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_tfrecords.transforms.duplicates import near, near_groups
from beam_tfrecords.transforms.duplicates.groups import MOST_IMAGES, DuplicatesFound
from beam_tfrecords.transforms.duplicates.near import NearHashes, count_bits, find_near, read_phashes
from beam_tfrecords.transforms.duplicates.near_groups import (
    assign_groups,
    describe_near,
    gather_images,
    merge_pairs,
    read_near_images,
    unpack_rows,
)
from beam_tfrecords.transforms.duplicates.search import DuplicateSearch, part_id
from beam_tfrecords.transforms.parts import GROUP_BYTES, Part
from beam_tfrecords.transforms.stats import Stats
from tests.core.part_writing import add_row, part_writer
from tests.core.test_duplicates import group_by_key, make_search

# Samples whose pairs of hashes are a group.
RANGE = GROUP_BYTES // (33 * 16)
# Key, content hash, label and perceptual hash.
Row = tuple[str, str, str, "int | None"]


def write_part(folder: Path, rows: list[Row], *, split="train", block=0) -> Part:
    writer = part_writer(folder / "parts", f"{split}-{block:06d}", split=split, block=block)
    for key, content_hash, label, phash in rows:
        row = {"key": key, "fingerprint": "", "content_hash": content_hash, "sample_hash": "", "label": label}
        add_row(writer, key.encode(), {**row, "phash": phash})
    (part,) = writer.close()
    return part


def find_hashes(parts: list[Part], search: DuplicateSearch) -> tuple[list[NearHashes], list[Stats]]:
    """What the workers of all ranges find, and what those of all parts count."""
    read = [read_phashes(part, search=search) for part in parts]
    pieces = itertools.chain.from_iterable(pieces for pieces, _ in read)
    return [find_near(one, search=search) for one in group_by_key(pieces)], [stats for _, stats in read]


def find(parts: list[Part], search: DuplicateSearch) -> tuple[list[dict], dict[str, int]]:
    """All groups as the build lists them, and the counts."""
    near, stats = find_hashes(parts, search)
    pairs = [merge_pairs(one) for one in group_by_key(itertools.chain.from_iterable(one.pairs for one in near))]
    groups = list(itertools.chain.from_iterable(assign_groups(one, search=search) for one in pairs))
    by_part = dict(group_by_key(itertools.chain.from_iterable(one.parts for one in near)))
    of_parts = [(part_id(part), {"parts": [part], "hashes": by_part.get(part_id(part), [])}) for part in parts]
    images = list(itertools.chain.from_iterable(read_near_images(one, search=search) for one in of_parts))
    by_range = {number: dict(group_by_key(found)) for number, found in enumerate((images, groups))}
    joined = [
        (number, {"images": by_range[0].get(number, []), "groups": by_range[1].get(number, [])})
        for number in dict(images + groups)
    ]
    gathered = itertools.chain.from_iterable(gather_images(one, search=search) for one in joined)
    found: list[DuplicatesFound] = [describe_near(bucket, search=search) for bucket in group_by_key(gathered)]
    lines = [
        line for file in sorted(f for one in found for f in one.files) for line in Path(file).read_text().splitlines()
    ]
    merged = Stats.merge([*stats, *(one.stats for one in (*near, *found))])
    return [json.loads(line) for line in lines], {what: count for (_, what), count in merged.counts.items()}


def distance(one: int, other: int) -> int:
    return (one ^ other).bit_count()


def group_all(hashes: list[int], most: int) -> list[set[int]]:
    """Each hash and the higher ones near to it, unless all of it is near to a lower one: of all pairs."""
    groups = []
    for first in sorted(set(hashes)):
        group = {one for one in hashes if one >= first and distance(one, first) <= most}
        below = sorted({one for one in hashes if one < first and distance(one, first) <= most})[:8]
        is_listed = any(all(distance(one, lower) <= most for one in group) for lower in below)
        if not is_listed and sum(one in group for one in hashes) > 1:
            groups.append(group)
    return groups


@st.composite
def clustered(draw) -> list[int]:
    """Hashes of which many are a few bits off others."""
    hashes = draw(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=6))
    for _ in range(draw(st.integers(0, 25))):
        flipped = draw(st.lists(st.integers(0, 63), max_size=6))
        hashes.append(draw(st.sampled_from(hashes)) ^ sum(1 << bit for bit in set(flipped)))
    return hashes


@given(
    hashes=clustered(),
    most=st.integers(1, 10),
    buckets=st.integers(1, 4),
    few=st.sampled_from([5, 512]),
    data=st.data(),
)
def test_the_pairs_are_those_of_comparing_all_and_each_pair_is_in_a_group(
    tmp_path_factory, hashes, most, buckets, few, data
):
    folder = tmp_path_factory.mktemp("near")
    search = make_search(folder, samples=buckets * RANGE - 6, near_distance=most)
    rows = [(f"{number:03d}", f"{number:064x}", "cat", phash) for number, phash in enumerate(hashes)]
    places = data.draw(st.lists(st.sampled_from(["train", "test"]), min_size=len(rows), max_size=len(rows)))
    own = [
        (split, [row for row, place in zip(rows, places, strict=True) if place == split]) for split in ("train", "test")
    ]
    parts = [write_part(folder, few_rows, split=split) for split, few_rows in own if few_rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(near, "_FEW_HASHES", few)
        listed, counts = find(parts, search)
        near_hashes, _ = find_hashes(parts, search)
    expected = {
        frozenset((one[0], other[0]))
        for one, other in itertools.combinations(rows, 2)
        if distance(one[3], other[3]) <= most
    }
    by_hash = {frozenset((hashes[int(one)], hashes[int(other)])) for one, other in map(tuple, expected)}
    packed = b"".join(packed for one in near_hashes for _, packed in one.pairs)
    found = [tuple(pair) for pair in unpack_rows(packed).tolist()]
    assert {frozenset(pair) for pair in found} == by_hash
    assert len(found) == len(set(found))
    together = [{image["key"] for image in group["images"]} for group in listed]
    assert sorted(map(sorted, together)) == sorted(
        sorted(key for key, _, _, phash in rows if phash in group) for group in group_all(hashes, most)
    )
    assert all(any(pair <= keys for keys in together) for pair in expected)
    split_of = {row[0]: place for row, place in zip(rows, places, strict=True)}
    for group, keys in zip(listed, together, strict=True):
        first = int(group["phash"], 16)
        assert len(keys) == group["copies"] > 1
        assert all(first <= hashes[int(key)] and distance(first, hashes[int(key)]) <= most for key in keys)
        assert group["across_splits"] is (len({split_of[key] for key in keys}) > 1)
    across = [group["across_splits"] for group in listed]
    assert across == sorted(across, reverse=True)
    assert counts.get("groups", 0) == len(listed)
    assert counts.get("groups_across_splits", 0) == sum(across)


@settings(max_examples=25)
@given(
    hashes=st.lists(st.integers(0, 255), min_size=2, max_size=120),
    most=st.integers(1, 3),
    buckets=st.integers(1, 4),
)
def test_every_image_with_a_near_one_is_listed_and_a_crowded_one_in_few_groups(tmp_path_factory, hashes, most, buckets):
    folder = tmp_path_factory.mktemp("near")
    search = make_search(folder, samples=buckets * RANGE - 6, near_distance=most)
    rows = [(f"{number:03d}", f"{number:064x}", "cat", phash) for number, phash in enumerate(hashes)]
    with pytest.MonkeyPatch.context() as patch:
        for module in (near, near_groups):
            patch.setattr(module, "MOST_NEAR", 9)
        listed, _ = find([write_part(folder, rows)], search)
    together = [{image["key"] for image in group["images"]} for group in listed]
    near_to = {
        one: {other for other in hashes if distance(one, other) <= most and (other != one or hashes.count(one) > 1)}
        for one in hashes
    }
    crowded = {one for one in hashes if len(near_to[one]) > 9}
    for one, other in itertools.combinations(rows, 2):
        if distance(one[3], other[3]) <= most:
            groups = [{one[0], other[0]} & keys for keys in together]
            assert {one[0], other[0]} in groups or not crowded.isdisjoint({one[3], other[3]})
            assert {one[0]} in groups or {one[0], other[0]} in groups
            assert {other[0]} in groups or {one[0], other[0]} in groups
    for group, keys in zip(listed, together, strict=True):
        first, members = int(group["phash"], 16), {hashes[int(key)] for key in keys}
        assert all(first <= one and distance(first, one) <= most for one in members)


@pytest.mark.nightly
def test_frames_of_a_fixed_camera_are_fewer_groups_than_hashes(tmp_path):
    rows = [(f"{number:05d}", f"{number:064x}", "cat", number % 1024 << 20) for number in range(3000)]
    parts = [write_part(tmp_path, rows[start::3], block=start) for start in range(3)]
    groups, counts = find(parts, make_search(tmp_path, samples=3 * RANGE, near_distance=4))
    assert len(groups) == counts["groups"] < 200
    assert len(rows) <= sum(group["copies"] for group in groups) < 3 * len(rows)


def test_bits_are_counted():
    values = np.random.default_rng(0).integers(0, 2**64, 1000, dtype=np.uint64)
    assert count_bits(values).tolist() == [int(value).bit_count() for value in values]


def test_identical_images_stand_for_one_and_are_no_group_of_their_own(tmp_path):
    same, other = "a" * 64, "b" * 64
    train = write_part(tmp_path, [("1", same, "cat", 7), ("2", same, "cat", 7), ("3", "c" * 64, "cat", 2**63 | 0xFF00)])
    test = write_part(tmp_path, [("4", same, "cat", 7)], split="test")
    search = make_search(tmp_path, near_distance=4)
    assert find([train, test], search) == ([], {})
    near_one = write_part(tmp_path, [("5", other, "dog", 6)], split="validation")
    (group,), counts = find([train, test, near_one], search)
    assert group == {
        "kind": "near",
        "phash": f"{6:016x}",
        "copies": 4,
        "splits": {"test": 1, "train": 2, "validation": 1},
        "across_splits": True,
        "conflicting_labels": True,
        "images": [
            {"key": "4", "uri": None, "split": "test", "label": "cat"},
            {"key": "5", "uri": None, "split": "validation", "label": "dog"},
        ],
    }
    assert counts == {"groups": 1, "groups_across_splits": 1, "groups_with_conflicting_labels": 1}


def test_many_images_that_are_all_near_to_each_other_are_one_group(tmp_path):
    rows = [(f"{bit:02d}", f"{bit:064x}", "cat", 1 << bit) for bit in range(64)]
    (group,), counts = find([write_part(tmp_path, rows)], make_search(tmp_path, near_distance=2))
    assert (group["copies"], counts) == (64, {"groups": 1})


@pytest.mark.nightly
def test_a_hash_that_most_images_have_takes_no_time_that_grows_with_their_pairs(tmp_path):
    """All-white images have one hash: it is compared once."""
    count = 30_000
    rows = [(f"{number:05d}", f"{number:064x}", "cat", 1 << 63) for number in range(count)]
    rows.append(("near", "f" * 64, "cat", 1 << 63 | 1))
    (group,), counts = find([write_part(tmp_path, rows)], make_search(tmp_path, near_distance=4))
    assert (group["copies"], len(group["images"]), counts) == (count + 1, MOST_IMAGES, {"groups": 1})


@pytest.mark.parametrize("limit", ["MOST_HASHES", "MOST_COMPARISONS", "MOST_PAIRS"])
def test_a_range_with_too_many_hashes_is_cut_the_same_way_every_time_and_counted(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(near, limit, 20)
    monkeypatch.setattr(near, "_COMPACTED_AT", 10)
    hashes = [1 << one | 1 << other for one, other in itertools.combinations(range(10), 2)]
    rows = [(f"{number:02d}", f"{number:064x}", "cat", phash) for number, phash in enumerate(hashes)]
    parts = [write_part(tmp_path, rows[start::5], block=start) for start in range(5)]
    search = make_search(tmp_path, near_distance=4)
    found, counts = find(parts, search)
    assert counts["ranges_cut"] > 0
    assert find(parts[::-1], search) == (found, counts)


def test_images_without_a_hash_are_counted_and_rows_without_an_image_are_not(tmp_path):
    rows = [("kept", "a" * 64, "cat", None), ("row", "", "cat", None), ("image", "b" * 64, "cat", 0)]
    assert find([write_part(tmp_path, rows)], make_search(tmp_path, near_distance=4)) == ([], {"not_hashed": 1})


def test_what_a_range_compares_grows_with_its_hashes_and_not_with_their_pairs():
    """At a billion images, a band has some 140,000 hashes of each value."""
    drawn = np.random.default_rng(0).integers(0, 2**51, 40_000, dtype=np.uint64)
    bands = near._split_bits(range(64), 5)
    compared = sum(count for *_, count in near._compare(np.unique(drawn << np.uint64(13)), bands, 0, 4))
    assert compared < 40_000**2 / 2 / 100
