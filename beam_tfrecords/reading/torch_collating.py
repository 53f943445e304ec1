"""Batches of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import default_collate
from torch.utils.data._utils.collate import default_collate_fn_map

from beam_tfrecords.reading.collating import Example, Pair, make_batch


def collate(examples: Sequence[Any], **_: Any) -> Any:
    """Makes a batch of examples; a `DataLoader` uses it by itself for what this package gives.

    Values of one shape are stacked to a tensor. Features with any number of values, such as boxes and several labels,
    are a list with a tensor for each example; texts are a list of `str`.

    Args:
      examples: dicts, or tuples, with arrays, tensors, numbers and texts.

    Raises:
      ValueError: images have different sizes.
    """
    ragged: frozenset[str] = getattr(examples[0], "ragged", frozenset())
    return make_batch(examples, ragged, stack=default_collate, convert=torch.as_tensor)


# PyTorch's own way to extend `default_collate`.
default_collate_fn_map.update({Example: collate, Pair: collate})
