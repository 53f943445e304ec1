"""Oversized rows: only a small part of them is shuffled, and blocks see them as they were listed."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms.blocks.rows import read_block
from beam_tfrecords.transforms.listing import listing as listing_module
from beam_tfrecords.transforms.listing.deciding import decide
from beam_tfrecords.transforms.listing.decisions import UNDECIDED
from beam_tfrecords.transforms.listing.limiting import limit_listing
from beam_tfrecords.transforms.listing.listing import Listing, ListPlan, read_chunk, read_refs, write_listing
from beam_tfrecords.transforms.listing.ordering import order_chunk
from beam_tfrecords.transforms.listing.stratifying import find_strata
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs import overflow_rows
from beam_tfrecords.transforms.refs.ref_columns import join_packed
from beam_tfrecords.transforms.refs.sample_refs import File, SampleRef, one_image

FRACTIONS = {"train": 0.6, "test": 0.4}
PLAN = ListPlan()

values = st.one_of(
    st.none(), st.integers(-9, 9), st.text(max_size=12), st.binary(max_size=12), st.lists(st.integers(0, 9), max_size=5)
)
samples = st.lists(
    st.builds(
        lambda number, names, cells, label, has_image, objects: SampleRef(
            f"{number}.jpg",
            one_image(File(f"/photos/{number}.jpg")) if has_image else {},
            label=label,
            split=("train", "test", "no/split")[number % 3],
            columns=dict(zip(names, cells, strict=False)),
            failure=("corrupt", "") if number % 5 == 4 else None,
            objects=Objects([0.0, 0.0, 1.0, 1.0] * objects, ["cat"] * objects) if objects else None,
        ),
        st.integers(0, 30),
        st.sampled_from([("a", "b"), ("a",), ("b", "a"), ()]),
        st.tuples(values, values),
        st.one_of(st.none(), st.sampled_from(["cat", "dog"])),
        st.booleans(),
        st.integers(0, 2),
    ),
    max_size=12,
)


def read_all(listing: Listing, *, blocks: int) -> dict[object, list[SampleRef]]:
    """The references of every block as a worker sees them."""
    joined: dict[object, list[bytes]] = {}
    for chunk in listing.chunks:
        for key, _, packed in order_chunk(
            chunk, seed=3, blocks=dict.fromkeys(listing.samples, blocks), decisions=listing.decisions
        ):
            joined.setdefault(key, []).append(join_packed([packed]))
    return {
        key: [ref for refs in read_block(several, seed=3, decide=listing.decisions.apply) for ref in refs]
        for key, several in sorted(joined.items())
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("listing")


@given(samples, st.sampled_from([0, 40, 70, 1 << 20]), st.integers(0, 99))
def test_a_block_has_the_same_references_however_many_of_them_are_oversized(folder, refs, oversized, seed):
    shuffled = random.Random(seed).sample(refs, len(refs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing_module, "CHUNK_REFS", 4)
        plain = write_listing(refs, str(folder / "plain"), plan=PLAN)
        patch.setattr(overflow_rows, "_OVERSIZED_BYTES", oversized)
        patch.setattr(overflow_rows, "_BATCH_BYTES", 100)
        overflow = write_listing(shuffled, str(folder / "overflow"), plan=PLAN)
        assert (overflow.fingerprint, overflow.samples, overflow.ref_bytes) == (
            plain.fingerprint,
            plain.samples,
            plain.ref_bytes,
        )
        assert sorted(read_refs(overflow), key=repr) == sorted(read_refs(plain), key=repr)
        assert read_all(overflow, blocks=2) == read_all(plain, blocks=2)
        if refs and all(ref.label is None for ref in refs):
            return  # Without labels, `stratify` is refused.
        strata = find_strata(plain, fractions=FRACTIONS, seed=3)
        assert strata == find_strata(overflow, fractions=FRACTIONS, seed=3)
        stratified = [
            decide(listing, "strata", strata, folder=str(folder / name), plan=PLAN)
            for name, listing in (("plain", plain), ("overflow", overflow))
        ]
        again = write_listing(refs, str(folder / "again"), plan=PLAN)
        limited = [
            limit_listing(listing, limit=5, seed=3, folder=str(folder / name))
            for name, listing in (("again", again), ("overflow", overflow))
        ]
        for one, other in (stratified, limited):
            assert one.samples == other.samples
            assert read_all(one, blocks=1) == read_all(other, blocks=1)


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
