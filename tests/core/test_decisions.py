"""Decisions about a listing: the totals and the references are those of a listing that is written again."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.blocks.rows import read_block
from beam_tfrecords.transforms.listing import deciding, groups
from beam_tfrecords.transforms.listing.deciding import count_paths, decide
from beam_tfrecords.transforms.listing.decisions import (
    AssignSplits,
    LeaveSplits,
    MarkUnlabelled,
    RowDecision,
    SelectClasses,
)
from beam_tfrecords.transforms.listing.listing import Listing, ListPlan, read_refs, write_listing
from beam_tfrecords.transforms.listing.ordering import order_chunk
from beam_tfrecords.transforms.listing.stratifying import find_strata
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs import overflow_rows
from beam_tfrecords.transforms.refs.ref_columns import RefColumns, join_packed
from beam_tfrecords.transforms.refs.sample_refs import File, SampleRef, one_image
from beam_tfrecords.transforms.sources.detect.folder_meaning import FolderMeaning
from beam_tfrecords.transforms.sources.detect.interpretation import Interpretation, ListedLabels
from beam_tfrecords.transforms.sources.detect.path_splits import PathSplits
from beam_tfrecords.transforms.splits import Splits

SEED = 3
PLAN = ListPlan()
FRACTIONS = {"train": 0.5, "validation": 0.3, "test": 0.2}

folders = st.sampled_from(["", "cat", "dog", "cat/train", "cat/test", "dog/val", "train/cat", "test/dog", "a/b/c"])
labels = st.sampled_from([None, "", "cat", "dog", 3, ["cat", "dog"], []])
refs = st.lists(
    st.builds(
        lambda folder, number, label, split, size, failed, group, boxes, columns: SampleRef(
            f"{folder}/{number}.jpg" if folder else f"{number}.jpg",
            one_image(File(f"/in/{folder}/{number}.jpg")),
            size,
            str(size),
            label,
            split,
            columns=columns,
            failure=("unreadable", "it is gone") if failed else None,
            group=group,
            objects=None if boxes is None else Objects((0.0, 0.0, 1.0, 1.0) * len(boxes), tuple(boxes)),
        ),
        folders,
        st.integers(0, 99),
        labels,
        st.sampled_from([None, "train", "val", "Not one!"]),
        st.integers(0, 300),
        st.sampled_from([False, False, False, True]),
        st.sampled_from([None, None, "a", "b"]),
        st.one_of(st.none(), st.none(), st.lists(st.sampled_from(["cat", "dog"]), max_size=3)),
        st.dictionaries(st.sampled_from("ab"), st.sampled_from([None, -9, "é" * 30, b"\0\xff", [1, 2]])),
    ),
    max_size=30,
    unique_by=lambda ref: ref.key,
)
interpretations = st.sampled_from(
    [
        Interpretation(),
        Interpretation({"train": "train", "test": "test"}),
        Interpretation(inner_splits={"train": "train", "test": "test", "val": "validation"}),
        Interpretation({"a/b": "test", "": None}, is_nested=True),
        Interpretation({"": None}, lists={"": ListedLabels("list.txt", {"cat/1.jpg": "tom", "7.jpg": "tim"})}),
    ]
)
steps = st.lists(
    st.one_of(
        st.builds(
            lambda one, keeps_labels, keeps_splits: (
                "folders",
                FolderMeaning({"": one}, "", keeps_labels, keeps_splits, {}),
            ),
            interpretations,
            st.booleans(),
            st.booleans(),
        ),
        st.just(("splits", AssignSplits(Splits(), 0))),
        st.just(("path_splits", PathSplits("", by_image=False, depths=(1,)))),
        st.just(("path_splits", PathSplits("", by_image=False, split="test"))),
        st.just(("split_words", LeaveSplits(frozenset({"test"})))),
        st.just(("classes", SelectClasses(("cat",), None))),
        st.just(("unlabelled", MarkUnlabelled(frozenset({"test"}), has_one=True))),
        st.just(("unlabelled", MarkUnlabelled(frozenset({"test"}), has_one=False))),
        st.just(("strata", None)),
    ),
    unique_by=lambda step: step[0],
)
ORDER = ("folders", "split_words", "splits", "path_splits", "classes", "unlabelled", "strata")


@dataclasses.dataclass(frozen=True)
class Large:
    """A decision that is written."""

    step: RowDecision
    by_group, by_key, is_large = False, True, True

    def apply(self, refs: RefColumns) -> RefColumns:
        return self.step.apply(refs)


def decided(
    listing: Listing, some: list[tuple[str, object]], folder: str, *, plan: ListPlan = PLAN, is_large: bool = False
) -> Listing:
    """The listing with decisions, in the order in which they apply."""
    for name, step in sorted(some, key=lambda one: ORDER.index(one[0])):
        if name == "strata":
            try:
                step = find_strata(listing, fractions=FRACTIONS, seed=SEED)
            except RequestError:
                continue  # There are no labels.
        listing = decide(listing, name, Large(step) if is_large else step, folder=folder, plan=plan)
    return listing


def totals_of(listing: Listing) -> dict[str, object]:
    """The totals that decide blocks and classes."""
    return {
        "samples": +listing.samples,
        "source_bytes": +listing.source_bytes,
        "ref_bytes": +listing.ref_bytes,
        "labels": +listing.labels,
        "split_labels": {split: found for split, found in listing.split_labels.items() if found},
        "unknown": listing.unknown,
        "objects": listing.objects,
        "paths": count_paths(listing, PLAN),
    }


def ordered(listing: Listing) -> dict[object, list[SampleRef]]:
    """The references of each block, as its worker reads what `AssignOrder` emits."""
    blocks = dict.fromkeys(listing.samples, 3)
    found: dict[object, list[bytes]] = {}
    for chunk in listing.chunks:
        for key, _, packed in order_chunk(chunk, seed=SEED, blocks=blocks, decisions=listing.decisions):
            found.setdefault(key, []).append(join_packed([packed]))
    return {
        key: [ref for refs in read_block(joined, seed=SEED, decide=listing.decisions.apply) for ref in refs]
        for key, joined in found.items()
    }


@pytest.fixture(scope="module")
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as path:
        yield path


@given(refs, steps, st.sampled_from([0, 40, 70, 1 << 20]))
def test_totals_and_references_are_those_of_a_listing_that_is_written_again(folder, refs, steps, size):
    listing = write_listing(refs, folder, plan=PLAN)
    by_groups = decided(listing, steps, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "_MOST_GROUPS", -1)
        without = write_listing(refs, folder, plan=PLAN)
        assert without.groups.totals is None or not refs
        counted = decided(without, steps, folder)
    by_hand = decided(listing, steps, folder, is_large=True)
    assert not by_hand.decisions
    assert totals_of(by_groups) == totals_of(counted) == totals_of(by_hand)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overflow_rows, "_OVERSIZED_BYTES", size)
        patch.setattr(overflow_rows, "_BATCH_BYTES", 100)
        apart = f"{folder}/oversized"
        oversized = decided(write_listing(refs, apart, plan=PLAN), steps, apart)
        assert totals_of(oversized) == totals_of(by_hand)
        assert sorted(map(repr, read_refs(oversized))) == sorted(map(repr, read_refs(by_hand)))
        assert ordered(oversized) == ordered(by_hand)
    assert by_groups.fingerprint == counted.fingerprint
    assert list(read_refs(by_groups)) == list(read_refs(by_hand))
    assert ordered(by_groups) == ordered(by_hand)


def read_nothing(_: Listing) -> Iterator[RefColumns]:
    """Fails as soon as the listing is read."""
    raise AssertionError
    yield


@given(refs)
def test_splits_by_fractions_are_counted_by_those_who_list(folder, refs):
    rule = AssignSplits(Splits(FRACTIONS), SEED)
    plan = ListPlan(rule)
    merged = Listing()
    for number, part in enumerate((refs[::2], refs[1::2])):
        merged.merge(Listing.unpack(write_listing(part, folder, plan=plan, stem=f"part-{number}-").pack()))
    assert merged.groups.counted_by == rule or not refs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deciding, "read_batches", read_nothing)
        found = decided(merged, [("splits", rule)], folder, plan=plan)
    by_hand = decided(write_listing(refs, folder, plan=PLAN), [("splits", rule)], folder, is_large=True)
    assert totals_of(found) == totals_of(by_hand)
    assert ordered(found) == ordered(by_hand)


@given(refs)
def test_groups_survive_packing_and_merging(folder, refs):
    whole = write_listing(refs, folder, plan=PLAN)
    merged = Listing()
    for number, part in enumerate((refs[::2], refs[1::2])):
        merged.merge(Listing.unpack(write_listing(part, folder, plan=PLAN, stem=f"part-{number}-").pack()))
    assert merged.groups == whole.groups


def test_a_decision_changes_the_fingerprint_and_a_note_does_not(folder):
    listing = write_listing([SampleRef("a/1.jpg")], folder, plan=PLAN)
    found = [
        decide(listing, "path_splits", PathSplits(note, by_image=False, split=split), folder=folder, plan=PLAN)
        for note, split in (("", "test"), ("splits", "test"), ("", "validation"))
    ]
    assert found[0].fingerprint == found[1].fingerprint
    assert len({one.fingerprint for one in (listing, *found)}) == 3
