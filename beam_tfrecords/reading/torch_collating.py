"""Collates batches for PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import default_collate
from torch.utils.data._utils.collate import default_collate_fn_map

from beam_tfrecords.reading.collating import Example, Pair, make_batch


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
    ragged: frozenset[str] = getattr(examples[0], "ragged", frozenset())
    return make_batch(examples, ragged, stack=default_collate, convert=torch.as_tensor)


# PyTorch's own way to extend `default_collate`.
default_collate_fn_map.update({Example: collate, Pair: collate})
