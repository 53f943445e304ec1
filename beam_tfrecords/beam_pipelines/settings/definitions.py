"""All settings of a build, and the request made from raw values."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from beam_tfrecords.errors import RequestError
from beam_tfrecords.escaping import escape
from beam_tfrecords.habits import explain_name
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.request.published_settings import publish_settings
from beam_tfrecords.transforms.settings import Setting, read_settings, settings_of

# Name -> setting, in the order of `--help`.
SETTINGS: Mapping[str, Setting] = {setting.name: setting for setting in settings_of(BuildSpec)}
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


def _show_flag(name: str, value: str) -> str:
    # A word that the terminal shows with escapes cannot be pasted, so it needs no quotes.
    words = [value[1:]]
    if value[1:2] in ("'", '"', "["):  # a value as in Python
        with contextlib.suppress(ValueError, SyntaxError):
            read = ast.literal_eval(value[1:])
            words = [*map(str, read)] if isinstance(read, list) else [str(read)]
            words = words if name in SETTINGS and SETTINGS[name].may_repeat else [",".join(words)]
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
