"""Collates examples from `records` into batches, of PyTorch and of other libraries."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from beam_tfrecords.escaping import escape
from beam_tfrecords.features.layouts import Feature, decoded_names


class Example(dict[str, Any]):
    """An example that PyTorch's own `default_collate` can batch.

    Attributes:
      ragged: names of the features with any number of values.
    """

    ragged: frozenset[str] = frozenset()


class Pair(tuple[Any, Any]):
    """(image, label) or (image, mask), which PyTorch's `default_collate` can batch."""

    __slots__ = ()


def ragged_names(features: Sequence[Feature]) -> frozenset[str]:
    """Returns the names of the features with any number of values, stored and decoded."""
    several = [feature for feature in features if feature.several]
    return frozenset(feature.name for feature in several) | frozenset(decoded_names(several).values())


def as_examples(examples: Sequence[Any], features: Sequence[Feature]) -> list[Any]:
    """Marks the ragged features of examples; values other than dicts stay unchanged."""
    ragged = ragged_names(features)
    return [_as_example(example, ragged) if type(example) is dict else example for example in examples]


def _as_example(values: dict[str, Any], ragged: frozenset[str]) -> Example:
    example = Example(values)
    example.ragged = ragged
    return example


def make_batch(
    examples: Sequence[Any], ragged: frozenset[str], *, stack: Callable[[Any], Any], convert: Callable[[Any], Any]
) -> Any:
    """Collates examples into one dict or tuple: stacks values of one shape, and makes lists of ragged ones and text.

    Args:
      examples: dicts or tuples of arrays, tensors, numbers and text; anything else is stacked.
      ragged: names of features that are lists in every batch.
      stack: stacks values of one shape.
      convert: converts one value of a list.

    Raises:
      ValueError: images have different sizes.
    """
    first = examples[0]
    if isinstance(first, Mapping):
        columns = {name: [example[name] for example in examples] for name in first}
        return {name: _batch(name, columns[name], name in ragged, stack, convert) for name in columns}
    if isinstance(first, tuple):
        names = ("image", "label") if isinstance(first, Pair) else [f"value {index}" for index in range(len(first))]
        values = zip(names, zip(*examples, strict=True), strict=True)
        return tuple(_batch(name, column, False, stack, convert) for name, column in values)
    return stack(examples)


def _batch(
    name: str, values: Sequence[Any], is_ragged: bool, stack: Callable[[Any], Any], convert: Callable[[Any], Any]
) -> Any:
    if isinstance(values[0], str | bytes | list):
        return list(values)
    shapes = {tuple(np.shape(value)) for value in values}
    if len(shapes) == 1 and not is_ragged:
        return stack(values)
    if is_ragged or max(map(len, shapes)) < 3:
        return list(map(convert, values))
    found = ", ".join(map(str, sorted(shapes)[:3]))
    raise ValueError(
        f"{escape(name)}: images of different sizes cannot be batched: {found}; pass image_size= where the records are "
        "opened or given to a loader, such as image_size=224 with resize_mode='crop', or make them equal in a "
        "transform"
    )


def collate(examples: Sequence[Any], **_: Any) -> Any:
    """Collates examples into a batch; a `DataLoader` uses it automatically for examples of this package.

        >>> batch = collate([{"label": 1, "key": "a.png"}, {"label": 0, "key": "b.png"}])
        >>> batch["key"], batch["label"].tolist()
        (['a.png', 'b.png'], [1, 0])

    Stacks values of one shape to a tensor. Features with any number of values, such as boxes, become a list with one
    tensor per example; text becomes a list of `str`.

    Args:
      examples: dicts or tuples of arrays, tensors, numbers and text.

    Raises:
      ValueError: images have different sizes.
    """
    import torch.utils.data

    ragged: frozenset[str] = getattr(examples[0], "ragged", frozenset())
    return make_batch(examples, ragged, stack=torch.utils.data.default_collate, convert=torch.as_tensor)


@functools.cache
def teach_torch() -> None:
    """Makes PyTorch's own `default_collate` batch the examples of this package."""
    from torch.utils.data._utils.collate import default_collate_fn_map

    default_collate_fn_map.update({Example: collate, Pair: collate})
