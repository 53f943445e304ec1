"""Checks records that are stored as they are. Pure functions."""

from __future__ import annotations

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.examples.layouts import SAME, Layout
from beam_tfrecords.examples.parse import ParsedExample, check_features
from beam_tfrecords.tfrecord import Record


def check_kept(record: Record, features: ParsedExample, layout: Layout) -> None:
    """Checks that a record has the features of the layout.

    Raises:
      SampleError: the features differ; the detail says how to accept them.
    """
    found = next(check_features(features, layout), None)
    if found is None:
        return
    name, problem = found
    known = next((feature.type for feature in layout.features if feature.name == name), "")
    kind = features.get(name, ("", []))[0] or known or "bytes"
    advice = ""
    if known in ("", kind):
        advice = f"; `layout={SAME},{name}:{kind}_list` accepts any number of its values"
    detail = f"record {record.number}: {problem}, as in the first records{advice}"
    raise SampleError(Stage.LIST, FailureReason.WRONG_TYPE, detail)
