"""References by column: what comes back, and the room that it takes."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs.ref_columns import (
    RefColumns,
    by_column,
    one_by_one,
    unpack_refs,
)
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from tests.core.converting import identity, pack_refs
from tests.core.test_refs import REFS, photo


def unpack(joined: bytes) -> list[SampleRef]:
    return [ref for together in unpack_refs(joined) for ref in together]


def test_the_references_of_a_batch_come_back_in_order_and_take_a_third_of_the_space():
    refs = [photo(number) for number in range(100)]
    assert unpack(pack_refs(refs)) == refs
    assert len(pack_refs(refs)) < sum(len(ref.pack()) for ref in refs) / 3


@given(st.lists(REFS, max_size=5))
def test_any_references_come_back(refs):
    assert [ref.pack() for ref in unpack(pack_refs(refs))] == [ref.pack() for ref in refs]


@given(st.lists(REFS, max_size=5), st.data())
def test_any_choice_of_references_is_that_of_their_columns(refs, data):
    for together in RefColumns.of(refs):
        found = list(together)
        places = data.draw(st.lists(st.integers(0, len(found) - 1), min_size=1))
        assert list(together.take(places)) == [found[place] for place in places]
        assert list(together.slice(0, places[0])) == found[: places[0]]
        assert together[places[0]] == found[places[0]]
        assert list(RefColumns.join([together, together.take(places)])) == [*found, *together.take(places)]


@given(st.lists(REFS, max_size=5))
def test_identities_labels_and_groups_are_those_of_each_reference(refs):
    refs = [dataclasses.replace(ref, group=ref.key or None) for ref in refs]
    several = list(by_column(refs))
    assert [identity for some in several for identity in some.identities()] == [identity(ref) for ref in refs]
    assert [list(labels) for some in several for labels in some.all_labels()] == [list(ref.labels) for ref in refs]
    assert [ref.group for ref in one_by_one(several)] == [ref.group for ref in refs]


def test_references_by_column_and_others_are_listed_in_their_order():
    refs = [SampleRef(str(number), {}, columns={"n": number}) for number in range(5)]
    (middle,) = RefColumns.of(refs[1:4])
    assert list(one_by_one(by_column([refs[0], middle, refs[4]]))) == refs


def test_references_with_long_values_are_few_in_a_batch():
    texts = [SampleRef(str(number), {}, columns={"text": "x" * (1 << 20)}) for number in range(9)]
    boxes = [SampleRef(str(number), {}, objects=Objects([0.0] * 400_000, ["cat"] * 100_000)) for number in range(3)]
    assert [len(batch) for batch in RefColumns.of(texts)] == [4, 4, 1]
    assert [len(batch) for batch in RefColumns.of(boxes)] == [1, 1, 1]
