"""How sizes, durations, rates and tables are shown."""

from __future__ import annotations

import pytest

from beam_tfrecords.beam_pipelines.messages.progress import format_seconds
from beam_tfrecords.beam_pipelines.messages.run_summary import METRICS, SUMMARIZED
from beam_tfrecords.beam_pipelines.messages.summary import HEADERS, LINES, format_bytes, format_table
from beam_tfrecords.beam_pipelines.terminal import format_rate
from beam_tfrecords.transforms.stats import BUILD_METRICS


@pytest.mark.parametrize(
    ("show", "value", "text"),
    [
        *((format_bytes, *one) for one in ((0, "0 B"), (999, "999 B"), (150_000_000, "150.0 MB"), (2.5e12, "2.5 TB"))),
        *((format_seconds, *one) for one in ((0, "0 s"), (59, "59 s"), (61, "1 min 01 s"), (7_260, "2 h 01 min"))),
        *((format_rate, *one) for one in ((0, "0/s"), (0.0512, "0.051/s"), (1, "1/s"), (12_345.6, "12,346/s"))),
        (format_table, [["a", "n"], ["long", "10"]], ["a      n", "long  10"]),
    ],
)
def test_a_value_is_shown_as_people_write_it(show, value, text):
    assert show(value) == text


def test_everything_that_is_shown_is_a_fact():
    assert BUILD_METRICS.keys() >= {*HEADERS, *LINES, *METRICS, *SUMMARIZED}
