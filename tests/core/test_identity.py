"""The digest that names work: every field of what is executed changes it, in every process."""

from __future__ import annotations

import dataclasses
import enum
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from beam_tfrecords.dataset.dataset import DatasetRef
from beam_tfrecords.features.layouts import parse_layout, with_class_names
from beam_tfrecords.transforms.blocks.block_plan import BlockPlan
from beam_tfrecords.transforms.blocks.convert_sample import ConvertSample
from beam_tfrecords.transforms.blocks.reuse import ReusePlan
from beam_tfrecords.transforms.identity import digest
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.labels import ClassNames
from beam_tfrecords.transforms.parts import PartPolicy

CONVERT = ConvertSample(ImageSpec(image_size=(16, 16)), parse_layout("tfds"), ClassNames(("cat", "dog")))
HEADS = ConvertSample(
    ImageSpec(),
    with_class_names(parse_layout("image,age:class"), {"age": ("old", "young")}),
    ClassNames(()),
    heads={"age": ClassNames(("old", "young"), True)},
)
VECTORS = ConvertSample(
    ImageSpec(),
    parse_layout({"x": {"field": "columns.a..b", "type": "float", "length": 2, "columns": ["a", "b"]}}),
    ClassNames(()),
)
REUSE = ReusePlan(DatasetRef("/out/1", "ab"), 0, {"train": 3}, True, False)
PLAN = BlockPlan(
    CONVERT, 0, {"train": PartPolicy(member_records=3)}, "none", 10, 1.5, reuse=REUSE, libraries={"numpy": "2"}
)


def others(value: Any) -> Iterator[Any]:
    """Values that differ from one in one place each."""
    if dataclasses.is_dataclass(value):
        # A field that is not compared, such as the name of a machine, decides nothing.
        for field in (field for field in dataclasses.fields(value) if field.compare):
            for other in others(getattr(value, field.name)):
                changed = object.__new__(type(value))
                changed.__dict__.update({**vars(value), field.name: other})
                yield changed
    elif isinstance(value, enum.Enum):
        yield from (one for one in type(value) if one is not value)
    elif isinstance(value, Mapping):
        yield from ({**value, key: other} for key, one in value.items() for other in others(one))
        yield {**value, "another": 1}
    elif isinstance(value, tuple):
        yield from (
            (*value[:place], other, *value[place + 1 :]) for place, one in enumerate(value) for other in others(one)
        )
        yield (*value, "another")
        yield value[::-1] if value[::-1] != value else (*value, *value, 1)
    elif isinstance(value, bool) or value is None:
        yield not value
    elif isinstance(value, int | float):
        yield value + 1
    elif isinstance(value, str):
        yield f"{value}x"
    else:
        raise TypeError(f"{value!r}: say here how it may differ")


@pytest.mark.parametrize("value", [CONVERT, HEADS, VECTORS, PLAN], ids=["convert", "heads", "vectors", "plan"])
def test_every_field_of_what_is_executed_changes_the_digest(value):
    # A new field is among them; one of a type that has no digest fails here.
    names = {field.name for field in dataclasses.fields(value) if field.compare}
    changed = {
        name
        for name in names
        if all(
            digest(dataclasses.replace(value, **{name: other})) != digest(value)
            for other in others(getattr(value, name))
        )
    }
    assert changed == names
    found = [digest(other) for other in others(value)]
    assert len({*found, digest(value)}) == len(found) + 1


def test_a_digest_is_the_same_in_every_process():
    program = "from beam_tfrecords.transforms.identity import digest; print(digest({'b': 1, 'a': frozenset('xyz')}))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == digest({"a": frozenset("zyx"), "b": 1})


def test_what_nobody_can_compare_has_no_digest():
    with pytest.raises(TypeError, match="has no digest"):
        digest(object())
