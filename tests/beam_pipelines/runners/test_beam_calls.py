"""What is replaced in Beam while a pipeline is built: Beam is as it was afterwards."""

from __future__ import annotations

from apache_beam import pipeline
from apache_beam.utils import interactive_utils

from beam_tfrecords.beam_pipelines.runners.execution import without_notebooks


def test_beam_is_as_it_was_afterwards():
    before = [module.is_in_ipython for module in (pipeline, interactive_utils)]
    with without_notebooks():
        assert not pipeline.is_in_ipython()
    assert [module.is_in_ipython for module in (pipeline, interactive_utils)] == before
