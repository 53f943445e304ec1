"""Inherits settings from the input: a dataset of ours records how it was made."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.settings.definitions import check_names, read_build_spec
from beam_tfrecords.dataset.dataset import is_dataset
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.features.layouts import SAME
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.service_faults import describe_fault
from beam_tfrecords.transforms.settings import settings_of, write_settings
from beam_tfrecords.transforms.sources.inputs import name_inputs, quote_input
from beam_tfrecords.transforms.sources.source_spec import SourceSpec

_KEEP = ImageEncoding.KEEP.value
_IMAGE_SETTINGS = frozenset(setting.name for setting in settings_of(ImageSpec))


def read_request(raw_values: Mapping[str, Any]) -> BuildSpec:
    """Parses and checks a request; inherits missing settings from its input.

    Args:
      raw_values: as for `read_build_spec`.

    Raises:
      RequestError: a value is wrong, or the inputs are datasets of ours that cannot be merged.
      BuildError: such a dataset cannot be read.
    """
    check_names(raw_values)
    of_input: dict[str, Any] = {}
    for setting in settings_of(SourceSpec):
        of_input[setting.name] = setting.value_of(raw_values, of_input)
    return read_build_spec(_inherit_settings(raw_values, of_input))


def read_call(input: Any, output: Any, settings: Mapping[str, Any]) -> BuildSpec:
    """Returns the request that the arguments of `build` and `plan` make.

    Raises:
      RequestError, BuildError: as `read_request`.
      TypeError: an argument is given twice.
    """
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


def _inherit_settings(raw_values: Mapping[str, Any], of_input: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the raw values of a request, with missing settings taken from inputs that are datasets of beam-tfrecords.

    `image_encoding=keep` without other image settings keeps images as they are stored, with the dataset's settings.

    Args:
      raw_values: the raw values.
      of_input: the settings of the input.

    Raises:
      RequestError: the inputs cannot be read, or have different layouts.
      BuildError: a service fault, or a damaged dataset.
    """
    given = {name: word for name, word in raw_values.items() if word is not None}
    if (
        given.get("source", "auto") not in ("auto", "tfrecord")
        or "label_pattern" in given
        or not all(of_input["input"])
    ):
        return given
    paths = name_inputs(of_input["input"]).paths
    options = dataclasses.replace(storage.current_options(), requester_pays=of_input["requester_pays"])
    with storage.using(options):
        try:
            if not any(map(is_dataset, paths)):
                return given
        except (OSError, ValueError, BuildError, RequestError, storage.SchemeError):
            # Opening the input fails in the same way, with a message.
            return given
        try:
            return _inherit(given, paths, of_input)
        except OSError as error:
            if storage.is_service_fault(error):
                raise BuildError(describe_fault(", ".join(paths), error)) from error
            raise RequestError(
                f"{quote_input(','.join(paths))} cannot be read: {error}", code="unreadable_input"
            ) from error


def _inherit(given: dict[str, Any], paths: Sequence[str], of_input: Mapping[str, Any]) -> dict[str, Any]:
    # Most requests do not need the readers of records.
    from beam_tfrecords.transforms.sources.records.datasets import (
        common_image_spec,
        common_layout,
        find_datasets,
        join_datasets,
        join_layout,
    )
    from beam_tfrecords.transforms.sources.tables.joined_table import open_joins

    datasets = find_datasets(paths)
    if not datasets:
        return given
    inherited: dict[str, Any] = {"source": "tfrecord"}
    if given.get("layout") == SAME:
        given = {name: value for name, value in given.items() if name != "layout"}
    if "layout" not in given:
        joins, _ = join_datasets(datasets, open_joins(of_input["join"], of_input["join_key"]))
        inherited["layout"] = join_layout(common_layout(datasets), joins)
    image = common_image_spec(list(datasets.values()))
    if image is None:
        return {**inherited, "image_encoding": _KEEP, **given}
    stored = {name: word for name, word in write_settings(image).items() if word is not None}
    says_keep = given.get("image_encoding") == _KEEP and given.keys() & _IMAGE_SETTINGS == {"image_encoding"}
    kept = {"image_encoding": stored["image_encoding"]} if says_keep else {}
    return {**inherited, **stored, **given, **kept}
