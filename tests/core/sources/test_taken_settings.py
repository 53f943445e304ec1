from __future__ import annotations

import dataclasses

import pytest

from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.sources.opening import refuse_settings
from beam_tfrecords.transforms.sources.registry import SOURCES
from beam_tfrecords.transforms.sources.source_spec import SourceSpec
from tests.each import each

SPEC = SourceSpec(input=("/x",))
SETTINGS = sorted({name for entry in SOURCES for name in entry.takes})


@each("entry", SOURCES, ids=lambda entry: entry.name)
def test_a_source_refuses_each_setting_that_it_does_not_take(entry):
    for name in SETTINGS:
        spec = dataclasses.replace(SPEC, **{name: ("a", "b") if isinstance(getattr(SPEC, name), tuple) else "a"})
        if name in entry.takes:
            refuse_settings(entry, spec)
        else:
            with pytest.raises(RequestError, match=f"`{name}=a.*`input=/x` is read as {entry.name}, ") as refused:
                refuse_settings(entry, spec)
            assert (refused.value.code, refused.value.settings[:2]) == ("setting_not_applicable", (name, "input"))
