"""Leaves out samples that do not fulfill the condition of the request, before their images are read where possible.

A condition has the same syntax as in the readers: it names columns of the index and columns of the layout.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.fields import COLUMN
from beam_tfrecords.features.layouts import Feature, Layout
from beam_tfrecords.features.serialize import plain_value
from beam_tfrecords.reading.conditions import fulfils, make_condition, names_in, split_condition
from beam_tfrecords.reading.record_columns import LABELS, condition_schema, join_labels
from beam_tfrecords.transforms.blocks.convert_sample import ConvertedBatch, ConvertSample
from beam_tfrecords.transforms.labels import ClassNames
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.stats import Key

# Columns whose values are known only when a record is written.
_LATER = ("offset", "length")
_LISTED = ("key", "uri", "label", "split")


@dataclasses.dataclass(frozen=True)
class Condition:
    """A picklable condition that samples have to fulfill.

    Attributes:
      text: the condition, as the request gives it.
      layout: layout of the examples.
      heads: as in `ConvertSample`; the condition compares the names of their classes.
    """

    text: str
    layout: Layout
    heads: Mapping[str, ClassNames] = dataclasses.field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        return Condition, (self.text, self.layout, self.heads)

    @functools.cached_property
    def schema(self) -> pa.Schema:
        """The columns that the condition may name."""
        return pa.schema([field for field in condition_schema(self.layout) if field.name not in _LATER])

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """The columns that the condition names."""
        return frozenset(names_in(self._whole, self.schema))

    def check_classes(self, class_names: Collection[str]) -> None:
        """Checks the classes that the condition names.

        Raises:
          RequestError: a class is misspelled.
        """
        make_condition(self.text, self.schema, class_names)

    def find_excluded_splits(self, words: Sequence[str]) -> frozenset[str]:
        """Returns the words for splits that the condition excludes; these need not be names of splits."""
        about = [one for one in map(self._parse, split_condition(self.text)) if names_in(one, self.schema) == ["split"]]
        kept = [fulfils(one, {"split": words}, len(words), schema=self.schema) for one in about]
        return frozenset(word for word, *every in zip(words, *kept, strict=True) if not all(every))

    def keep_listed(
        self, batches: Iterable[RefColumns], counts: Counter[Key], convert: ConvertSample, *, split: str
    ) -> Iterator[RefColumns]:
        """Yields references whose listed values may fulfill the condition, and references that are rejected.

        Args:
          counts: receives ("filtered", split): number of samples that are left out.
          convert: resolves the labels.
        """
        if self._listed is None:
            yield from batches
            return
        for refs in batches:
            failed = zip(refs.each("failure"), convert.find_failures(refs), strict=True)
            unfit = self._unfit(refs)
            told = [index for index, pair in enumerate(failed) if not any(pair) and index not in unfit]
            fitting = refs.take(told)
            names = convert.names_of_labels(fitting)
            labels = [found[0] if len(found) == 1 else None for found in names]
            index_columns = {**convert.listed_columns(fitting), "label": labels}
            passes = np.ones(len(refs), bool)
            passes[told] = self._fulfils(self._listed, fitting, names, index_columns, split=split)
            counts["filtered", split] += len(refs) - int(passes.sum())
            if passes.any():
                yield refs if passes.all() else refs.take(np.flatnonzero(passes).tolist())

    def passes(self, refs: RefColumns, made: ConvertedBatch, *, split: str) -> np.ndarray:
        """Returns [N] bool: which samples of a converted batch fulfill the condition."""
        return self._fulfils(self._whole, refs, made.class_names, made.index_columns, split=split)

    @functools.cached_property
    def _whole(self) -> pc.Expression:
        return self._parse(self.text)

    @functools.cached_property
    def _listed(self) -> pc.Expression | None:
        """The part of the condition that listed values can decide; None if there is no such part."""
        known = [one for one in map(self._parse, split_condition(self.text)) if self._is_listed(one)]
        return functools.reduce(lambda one, other: one & other, known) if known else None

    def _is_listed(self, condition: pc.Expression) -> bool:
        # A sample has only the classes of objects inside its stored image, which the listing does not know.
        listed = {*_LISTED, *([] if Content.OBJECTS in self.layout.required else [LABELS])}
        return all(name in listed or name.startswith(COLUMN) for name in names_in(condition, self.schema))

    def _parse(self, text: str) -> pc.Expression:
        return make_condition(text, self.schema)

    def _fulfils(
        self,
        condition: pc.Expression,
        refs: RefColumns,
        class_names: Sequence[Sequence[str]],
        index_columns: Mapping[str, Any],
        *,
        split: str,
    ) -> np.ndarray:
        columns = {
            "split": [split] * len(refs),
            LABELS: list(map(join_labels, class_names)),
            **{COLUMN + one.column: self._values(one, refs) for one in self.layout.features if one.column is not None},
            **index_columns,
        }
        return fulfils(condition, columns, len(refs), schema=self.schema)

    def _unfit(self, refs: RefColumns) -> set[int]:
        """Returns positions of references with a value that does not fit its feature, in a column of the condition."""
        columns = (self._values(one, refs) for one in self.layout.features if one.column is not None)
        return {index for values in columns if values for index, value in enumerate(values) if value is None}

    def _values(self, feature: Feature, refs: RefColumns) -> list[Any] | None:
        """Returns the values that examples will have in a column; None if the condition does not name the column."""
        if COLUMN + (feature.column or "") not in self.names:
            return None
        # Samples that the listing has rejected have no columns.
        values = refs.columns.get(feature.column or "") or [None] * len(refs)
        if classes := self.heads.get(feature.name):
            found = (classes.find(None if isinstance(value, list) else value) for value in values)
            return [None if index is None else classes.names[index] for index in found]
        return [plain_value(feature, value) for value in values]
