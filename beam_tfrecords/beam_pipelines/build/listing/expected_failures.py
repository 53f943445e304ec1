"""Predicts the samples that a build would reject, as far as the listing shows."""

from __future__ import annotations

import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.blocks.convert_sample import ConvertSample
from beam_tfrecords.transforms.blocks.rows import CONFLICTING_ROWS, DUPLICATE_KEY, content_of
from beam_tfrecords.transforms.hashing import order_hashes
from beam_tfrecords.transforms.labels import ClassNames
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import SampleRef


class ExpectedFailures:
    """Counts the samples that a build would reject, as far as the listing shows; keeps the first of each reason.

    Attributes:
      counts: reason -> number of samples.
      classes: split -> index -> number of samples with this label that would not be rejected.
      examples: reason -> (key, detail) of its first sample.
      shared: number of samples that another sample with the same key joins or replaces.

    Args:
      convert: rejects samples without the labels that the layout needs.
      class_names: the classes.
      shares_keys: whether several samples may have one key: they are joined, or the last one counts.
    """

    def __init__(self, convert: ConvertSample, class_names: ClassNames, *, shares_keys: bool) -> None:
        self.counts: Counter[str] = Counter()
        self.classes: dict[str, Counter[int]] = {}
        self.examples: dict[str, tuple[str, str]] = {}
        self.shared = 0
        self._convert = convert
        self._class_names = class_names
        self._shares_keys = shares_keys
        # Sixteen bytes per sample: hashes of keys and contents are enough to count equal ones.
        self._keys, self._contents = array("Q"), array("Q")

    def watch(self, batches: Iterable[RefColumns]) -> Iterator[RefColumns]:
        """Yields the references unchanged, and counts them."""
        for refs in batches:
            for sample, error in zip(refs, self._convert.find_failures(refs), strict=True):
                self._look_at(sample, error)
            yield refs
        self._compare()

    def _look_at(self, sample: SampleRef, error: SampleError | None) -> None:
        if sample.failure is None:
            self._keys.extend(order_hashes(seed=0, keys=[f"{sample.split}/{sample.key}"]))
            self._contents.append(zlib.crc32(content_of(sample)))
        failure = sample.failure or ((error.reason.value, error.detail) if error else None)
        if failure is not None:
            self._add(*failure, key=sample.key)
        else:
            found = (self._class_names.find(label) for label in sample.labels)
            self.classes.setdefault(sample.split or "", Counter()).update(one for one in found if one is not None)

    def _compare(self) -> None:
        """Counts samples with equal keys, as `reject_duplicates` rejects them."""
        keys, contents = (np.frombuffer(hashes, np.uint64) for hashes in (self._keys, self._contents))
        order = np.lexsort((contents, keys))
        keys, contents = keys[order], contents[order]
        _, starts, counts = np.unique(keys, return_index=True, return_counts=True)
        if self._shares_keys:
            self.shared = len(keys) - len(counts)
            return
        # In sorted order, all contents are equal if the first equals the last.
        conflicts = contents[starts] != contents[starts + counts - 1]
        for failure, count in (
            (CONFLICTING_ROWS, counts[conflicts].sum()),
            (DUPLICATE_KEY, (counts[~conflicts] - 1).sum()),
        ):
            if count:
                self._add(*failure, key="", count=int(count))

    def _add(self, reason: str, detail: str, *, key: str, count: int = 1) -> None:
        self.counts[reason] += count
        self.examples.setdefault(reason, (key, detail))
