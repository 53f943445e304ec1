"""References with one key: all but one are rejected, or together they are one sample."""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from beam_tfrecords.errors import FailureReason
from transforms.ref_columns import RefColumns
from transforms.refs import SampleRef
from transforms.stats import Key

DUPLICATE_KEY = (
    FailureReason.DUPLICATE_KEY.value,
    "another sample has the same key; if rows of a table share images, say `group_rows`",
)


def reject_duplicates(together: Iterable[RefColumns]) -> Iterator[RefColumns]:
    """The sorted references; of those with one key, all except the first as failures."""
    before = None
    for refs in together:
        repeated = list(map(operator.eq, refs.keys, [before, *refs.keys[:-1]]))
        before = refs.keys[-1]
        if True in repeated:
            failures = zip(repeated, refs.each("failure"), strict=True)
            refs = refs.replace(failure=[list(DUPLICATE_KEY) if again else failure for again, failure in failures])
        yield refs


def merge_rows(refs: Iterable[SampleRef], counts: Counter[Key], *, split: str) -> Iterator[SampleRef]:
    """The sorted references, with those of one key as one: the labels of all, and of a column what differs as a list.

    What the source has rejected stays a failure of its own.

    Args:
      refs: of a block.
      counts: receives ("merged", split): the references that became part of another.
      split: of the block.
    """
    for _, group in itertools.groupby(refs, key=lambda ref: ref.key):
        rows = list(group)
        yield from (row for row in rows if row.failure)
        rows = [row for row in rows if not row.failure]
        if len(rows) < 2:
            yield from rows
            continue
        counts["merged", split] += len(rows) - 1
        labels = _unique(label for row in rows for label in _as_list(row.label))
        columns = {
            name: _unique(value for row in rows for value in _as_list(row.columns[name])) for name in rows[0].columns
        }
        yield dataclasses.replace(
            rows[0],
            label=labels,
            columns={name: values[0] if len(values) == 1 else values for name, values in columns.items()},
        )


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def _unique(values: Iterable[Any]) -> list[Any]:
    """The values without repetitions, in their order."""
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found
