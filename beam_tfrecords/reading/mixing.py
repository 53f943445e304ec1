"""Mixes records of several datasets in given proportions, with one list of classes."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import numpy as np

from beam_tfrecords.errors import RequestError
from beam_tfrecords.features.fields import Stored
from beam_tfrecords.features.layouts import Feature, Layout
from beam_tfrecords.reading.records import DatasetRecords, Records
from beam_tfrecords.reading.shuffling import mix_order


def mix(parts: Sequence[tuple[Records, float]], *, seed: int = 0) -> Records:
    """Mixes records of datasets in given proportions.

        >>> from beam_tfrecords import open_dataset
        >>> photos, more = open_dataset("out/"), open_dataset("more/")
        >>> mixed = mix([(photos["train"], 0.7), (more["train"], 0.3)])
        >>> len(mixed)
        18

    Every stretch of the mixture has the proportions of the weights. An epoch ends as soon as every part has been used
    completely; a part that is exhausted earlier restarts. The same parts, weights and seed give the same order. Classes
    are joined by name, so labels are indices into `class_names` of the mixture. A mixture takes 8 bytes of memory per
    position.

    Args:
      parts: (records, weight); the records may come from different splits, and be filtered or mixed. Weights may have
        any sum.
      seed: seed of the order.

    Raises:
      RequestError: the examples of the parts have different features.
      ValueError: there are no parts, a weight is not a positive number, or a part has no records.
    """
    try:
        given = [part for part, _ in parts]
        weights = tuple(float(weight) for _, weight in parts)
    except (TypeError, ValueError) as error:
        raise TypeError("mix: expected pairs of records and weight: mix([(first, 0.7), (second, 0.3)])") from error
    wrong = [weight for weight in weights if not (weight > 0 and math.isfinite(weight))]
    if wrong or not given:
        raise ValueError(f"weights {weights}: expected at least one part, and a number above 0 for each")
    others = [type(part).__name__ for part in given if not isinstance(part, Records)]
    if others:
        raise TypeError(
            f"mix: found {', '.join(others)}; expected records of each dataset: "
            "mix([(open_dataset(first)['train'], 0.7), (open_dataset(second)['train'], 0.3)])"
        )
    if not all(map(len, given)):
        raise ValueError(f"part {list(map(len, given)).index(0)} has no record; expected one or more in each")
    _check_layouts([part.layout for part in given if part.has_features])
    seed = operator.index(seed)
    # The classes of the first part, then those that each later part adds.
    class_names = tuple(dict.fromkeys(name for part in given for name in part.class_names))
    which, places = mix_order(list(map(len, given)), weights, seed)
    sources: list[DatasetRecords] = []
    numbers, start = np.empty_like(places), 0
    for part, records in enumerate(given):
        own, chosen = records.numbered()
        numbers[which == part] = start + chosen[places[which == part]]
        sources += own
        start += sum(len(source.reader) for source in own)
    return Records([source.renumbered(class_names) for source in sources], numbers, class_names)


def _check_layouts(layouts: Sequence[Layout]) -> None:
    """Checks that all examples have the same features.

    Raises:
      RequestError: they differ.
    """
    first, *others = [{feature.name: _kind(feature) for feature in layout.features} for layout in layouts] or [{}]
    for number, other in enumerate(others, 1):
        differing = sorted(name for name in {*first, *other} if first.get(name) != other.get(name))
        if differing:
            name = differing[0]
            raise RequestError(
                f"mix: examples of part {number} have other features than in part 0: {', '.join(differing)}; "
                f"{name} is {first.get(name, 'missing')} in part 0 and {other.get(name, 'missing')} in part {number}; "
                "expected datasets of one `layout`",
                code="layouts_differ",
            )


def _kind(feature: Feature) -> str:
    what = "an image" if feature.holds_image else "a mask" if feature.kind.stored is Stored.MASK else feature.shown_type
    classes = f", the {feature.class_value.name.lower()} of a class" if feature.class_value else ""
    return f"{what}{classes}{f' of {list(feature.class_names)}' if feature.is_class else ''}"
