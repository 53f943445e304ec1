"""The words of a command line, read as `convert` reads them."""

from __future__ import annotations

from collections.abc import Sequence

from beam_tfrecords.beam_pipelines.settings.command_line import Parser, add_beam_flags, flag_names, parse_arguments
from beam_tfrecords.beam_pipelines.settings.definitions import read_build_spec
from beam_tfrecords.transforms.request.build_spec import BuildSpec


def read_flags(words: Sequence[str]) -> tuple[BuildSpec, list[str]]:
    """Returns the request, and the words that are for Beam, which knows them."""
    parsed = parse_arguments(list(words))
    known = flag_names(add_beam_flags(Parser(add_help=False, allow_abbrev=False)))
    assert {word.removeprefix("--").split("=")[0] for word in parsed.beam} <= {*known}
    return read_build_spec(parsed.raw_values), list(parsed.beam)
