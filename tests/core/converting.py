"""One sample as a batch of one, as tests look at it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.features.serialize import serialize_examples
from beam_tfrecords.transforms.blocks.convert_sample import ConvertSample, PreparedSample
from beam_tfrecords.transforms.refs.ref_columns import RefColumns, join_packed, unpack_refs
from beam_tfrecords.transforms.refs.sample_refs import SampleRef


class ConvertedSample(NamedTuple):
    """A sample that is ready to be written."""

    example: bytes
    class_names: tuple[str, ...]
    label: str | None
    index_columns: Mapping[str, Any]


def serialize_example(layout: Layout, values: Mapping[str, Any]) -> bytes:
    """The example of the values of its fields."""
    return serialize_examples(layout, [[values.get(feature.field)] for feature in layout.features])[0]


def pack_refs(refs: Iterable[SampleRef]) -> bytes:
    """References as they are shuffled."""
    return join_packed(batch.pack() for batch in RefColumns.of(refs))


def repacked(ref: SampleRef) -> SampleRef:
    """A reference as it comes back from a shuffle."""
    (found,) = unpack_refs(pack_refs([ref]))
    return found[0]


def identity(ref: SampleRef) -> bytes:
    """What makes a sample another one when it changes."""
    return next(RefColumns.of_one(ref).identities())


def finish(convert: ConvertSample, ref: SampleRef, prepared: PreparedSample) -> ConvertedSample:
    """Makes the example of a sample."""
    made = convert.finish(RefColumns.of_one(ref), [prepared])
    found = {name: value for name, (value,) in made.index_columns.items()}
    label, *_ = map(found.pop, ("label", "key", "uri", "fingerprint"))
    return ConvertedSample(made.examples[0], made.class_names[0], label, {**prepared.index_columns, **found})


def convert_one(convert: ConvertSample, ref: SampleRef, images: Mapping[str, bytes]) -> ConvertedSample:
    """Converts a sample."""
    return finish(convert, ref, convert.prepare(ref, images))
