"""What Beam computes once while a pipeline is built: the same values, and Beam as it was afterwards."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam import pipeline
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.transforms import userstate
from apache_beam.utils import interactive_utils

from beam_tfrecords.beam_pipelines.runners.execution import asked_once


def test_views_of_options_are_made_once_and_share_their_values():
    with asked_once():
        options, others = PipelineOptions(["--runner=one"]), PipelineOptions(["--runner=other"])
        options.view_as(DirectOptions).direct_num_workers = 7
        assert options.view_as(StandardOptions).view_as(DirectOptions).direct_num_workers == 7
        assert options.view_as(DirectOptions) is options.view_as(DirectOptions)
        assert [one.view_as(StandardOptions).runner for one in (options, others)] == ["one", "other"]
        assert others.view_as(DirectOptions).direct_num_workers == 1


def test_no_function_is_searched_for_state():
    with asked_once():
        assert userstate.get_dofn_specs(beam.DoFn()) == (set(), set())


def test_beam_is_as_it_was_afterwards():
    owners = [
        (PipelineOptions, "view_as"),
        (userstate, "get_dofn_specs"),
        (pipeline, "is_in_ipython"),
        (interactive_utils, "is_in_ipython"),
    ]
    before = [getattr(owner, name) for owner, name in owners]
    with pytest.raises(KeyError), asked_once():
        raise KeyError
    assert [getattr(owner, name) for owner, name in owners] == before
