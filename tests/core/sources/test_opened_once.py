"""An input is opened once, whatever layout it turns out to mean."""

from __future__ import annotations

import functools
import importlib
from collections import Counter

from beam_tfrecords.beam_pipelines.build.listing.source_opening import open_spec_source
from beam_tfrecords.beam_pipelines.build.user_functions import find_functions
from beam_tfrecords.beam_pipelines.settings.command_line import parse_arguments
from beam_tfrecords.beam_pipelines.settings.definitions import read_build_spec
from beam_tfrecords.transforms.sources.registry import find_source
from tests.each import each
from tests.identity_inputs import INPUTS, flags_of


@each("layout", [[], ["--layout=tfds"]], ids=["no layout", "tfds"])
@each("source", INPUTS)
def test_an_input_is_opened_once(source, layout, tmp_path, monkeypatch):
    module = importlib.import_module(f"beam_tfrecords.transforms.sources.{find_source(source, '').module}")
    calls: Counter[str] = Counter()
    open_input = module.open_input

    @functools.wraps(open_input)
    def count(request):
        calls[source] += 1
        return open_input(request)

    monkeypatch.setattr(module, "open_input", count)
    INPUTS[source][0](tmp_path, 0)
    words = parse_arguments([*flags_of(source, tmp_path), *layout, f"--output={tmp_path}/out"]).raw_values
    spec, opened = open_spec_source(find_functions(read_build_spec(words)))
    assert (opened.name, spec.layout is not None) == (source, True)
    assert calls == {source: 1}
