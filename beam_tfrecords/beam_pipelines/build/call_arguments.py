"""Reads the arguments of `build` and `plan` as a request."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner
from beam_tfrecords.beam_pipelines.settings.inherited_settings import read_request
from beam_tfrecords.transforms.request.build_spec import BuildSpec


def read_arguments(input: Any, output: Any, beam_arguments: Sequence[str], settings: Mapping[str, Any]) -> BuildSpec:
    """Returns the request that the arguments of `build` and `plan` make.

    Raises:
      RequestError: the request is wrong.
      TypeError: an argument is given twice.
    """
    find_runner(beam_arguments).arguments.check_known()
    given = {name: value for name, value in (("input", input), ("output", output)) if value is not None}
    twice = next((name for name in given if name in settings), None)
    if twice is not None:
        raise TypeError(f"`{twice}` is given twice: as {given[twice]!r}, and by its name as {settings[twice]!r}")
    return read_request({name: _as_plain(value) for name, value in {**given, **settings}.items()})


def _as_plain(value: Any) -> Any:
    """Converts a value to the types of a spec file: tuples become lists, `pathlib.Path`s strings."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return [_as_plain(one) for one in value] if isinstance(value, list | tuple) else value
