"""All settings of a build, and the request made from raw values; it inherits settings from the dataset it reads."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.dataset.dataset import is_dataset
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.escaping import escape
from beam_tfrecords.features.layouts import SAME
from beam_tfrecords.habits import explain_name
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.request.build_spec import BuildSpec, publish_settings
from beam_tfrecords.transforms.service_faults import describe_fault
from beam_tfrecords.transforms.settings import Setting, read_settings, settings_of, write_settings
from beam_tfrecords.transforms.sources.inputs import name_inputs, quote_input
from beam_tfrecords.transforms.sources.source_spec import SourceSpec

# Name -> setting, in the order of `--help`.
SETTINGS: Mapping[str, Setting] = {setting.name: setting for setting in settings_of(BuildSpec)}
_KEEP = ImageEncoding.KEEP.value
_IMAGE_SETTINGS = frozenset(setting.name for setting in settings_of(ImageSpec))
_QUOTED = re.compile(r"`([a-z_]+)((?:=[^`]*)?)`")


def check_names(raw_values: Mapping[str, Any]) -> None:
    """Checks that the settings that arguments in Python name exist.

    Raises:
      RequestError: a setting does not exist.
    """
    unknown = next((name for name in raw_values if name not in SETTINGS), None)
    if unknown is not None:
        hint = explain_name(unknown, known=(*SETTINGS, *_IN_PYTHON, *RUNNER_FLAGS), ask=_ask_in_python)
        raise RequestError(f"`{unknown}` is not a setting{f'; {hint}' if hint else ''}", code="unknown_setting")


# Flags of `convert` that are functions or arguments in Python, by their names there.
_IN_PYTHON = {"dry_run": "plan", "quiet": "quiet", "verbose": "verbose", "no_report": "report=False"}
# Flags of Beam that people look for under other names.
RUNNER_FLAGS = ("direct_num_workers", "runner")


def _ask_in_python(meaning: str) -> str:
    if meaning in RUNNER_FLAGS:
        return f"give it in `beam_arguments`, as --{meaning}"
    return f"did you mean `{_IN_PYTHON.get(meaning, meaning)}`?"


def read_build_spec(raw_values: Mapping[str, Any]) -> BuildSpec:
    """Makes a request from raw values.

    Args:
      raw_values: name of a setting -> value of its flag, or its value in a spec file.
    """
    check_names(raw_values)
    return read_settings(BuildSpec, raw_values)


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


def change_request(spec: BuildSpec, raw_values: Mapping[str, Any]) -> BuildSpec:
    """Returns a request with other raw values for some settings; None stands for the default, in their order."""
    values: dict[str, Any] = {}
    for name, value in raw_values.items():
        values[name] = SETTINGS[name].value_of({name: value}, values)
    return dataclasses.replace(spec, **values)


def fill_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a manifest as plain values, with published paths.

    A missing setting was added by a later version of beam-tfrecords, and gets its default.
    """
    filled, values = publish_settings(spec), dict[str, Any]()
    for name, setting in SETTINGS.items():
        try:
            values[name] = setting.value_of(spec, values)
        except (RequestError, KeyError):  # a value of another version; it differs from ours, and stays unchanged
            continue
        if setting.in_spec:
            filled.setdefault(name, setting.write(values[name]))
    return filled


def show_flags(message: str) -> str:
    """Converts settings that a message quotes as `name` or `name=value` to flags, quoted for a shell."""
    return _QUOTED.sub(lambda quoted: _show_flag(*quoted.groups()) if quoted[1] in _FLAGS else quoted[0], message)


def join_words(name: str, words: Sequence[str]) -> Sequence[str]:
    """Returns the words of a flag: all of them if it may repeat, else one with commas."""
    return words if name in SETTINGS and SETTINGS[name].may_repeat else [",".join(words)]


def _show_flag(name: str, value: str) -> str:
    # A word that the terminal shows with escapes cannot be pasted, so it needs no quotes.
    words: Sequence[str] = [value[1:]]
    if value[1:2] in ("'", '"', "["):  # a value as in Python
        with contextlib.suppress(ValueError, SyntaxError):
            read = ast.literal_eval(value[1:])
            words = join_words(name, [*map(str, read)] if isinstance(read, list) else [str(read)])
    shown = (shlex.quote(word) if word and escape(word) == word else word for word in words)
    return " ".join(f"--{name}{value[:1]}{word}" for word in shown)


_FLAGS = {
    *SETTINGS,
    *(f"no_{name}" for name, setting in SETTINGS.items() if setting.is_switch and setting.default),
    *("spec", "dry_run", "no_wait", "keep_job", "fail_job", "no_report", "quiet", "verbose"),
    *("dataset", "split", "temp_location", *RUNNER_FLAGS),
    *("examples", "findings", "json"),
    *("flink_master", "flink_version", "parallelism", "environment_type", "environment_config"),
    *("flink_job_server_jar", "spark_job_server_jar"),
}


def settings_by_group() -> Iterator[tuple[str, list[Setting]]]:
    """Yields the settings of each group in the help."""
    for group in dict.fromkeys(setting.group for setting in SETTINGS.values()):
        yield group, [setting for setting in SETTINGS.values() if setting.group == group]


def flags_table() -> str:
    """Returns the settings as Markdown tables, one per group."""
    lines: list[str] = []
    for group, members in settings_by_group():
        lines += [f"## {group}", "", "| flag | meaning | default |", "|---|---|---|"]
        for setting in members:
            meaning, default = (show_flags(text).replace("|", "\\|") for text in (setting.help, setting.shown_default))
            lines.append(f"| `--{setting.name}` | {meaning} | {default} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(flags_table(), end="")
