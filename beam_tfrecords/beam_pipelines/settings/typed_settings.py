"""Generates `build_settings`, the types of settings in Python.

`python -m beam_tfrecords.beam_pipelines.settings.typed_settings` prints that module.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Mapping

from beam_tfrecords.beam_pipelines.settings.definitions import settings_by_group
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.settings import Setting

_HEAD = '''"""Settings of `build` for editors and type checkers; made by `typed_settings`."""

# fmt: off

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

Path: TypeAlias = "str | os.PathLike[str]"
Words: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"


class BuildSettings(TypedDict, total=False):
    """Settings under the names of the flags, with values as in a spec file."""
'''
# Settings for which a spec file allows further types.
_BY_NAME = {
    "input": "Words | Callable[..., Any]",
    "parts": "str | Sequence[str | int | float]",
    "class_names": "Words | Sequence[Mapping[str, Any]] | Mapping[Any, Any]",
    "mask_colors": "Path | Sequence[Mapping[str, Any]] | Mapping[str, Any]",
    "mask_values": "str | Mapping[int, int]",
    "pixels": "str",
    "output": "Path",
    "reuse": "Path",
    "image_size": "int | str | tuple[int, int]",
    "splits": "str | Mapping[str, Any]",
    "layout": "str | Mapping[str, Any]",
    "map": "str | Callable[..., Any]",
}
_BY_TYPE: Mapping[object, str] = {bool: "bool", float: "float", str: "str"}


def settings_module() -> str:
    """Returns the source code of `build_settings`."""
    lines = [_HEAD]
    hints = typing.get_type_hints(BuildSpec)
    for group, members in settings_by_group():
        lines.append(f"    # {group}\n")
        lines += [f"    {setting.name}: {_type(setting, hints[setting.name])}\n" for setting in members]
    return "".join(lines)


def _type(setting: Setting, hint: object) -> str:
    if setting.name in _BY_NAME:
        return _BY_NAME[setting.name]
    choices = [word for word in typing.get_args(hint) if word is not types.NoneType]
    if typing.get_origin(hint) is typing.Literal:
        return _literal(choices)
    kind = choices[0] if typing.get_origin(hint) in (typing.Union, types.UnionType) else hint
    if typing.get_origin(kind) is tuple:
        return "Words"
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _literal([member.value for member in kind])
    if kind is int:
        # Sizes and durations may have units.
        return "int" if setting.read.__qualname__.startswith("whole_number") else "int | str"
    return _BY_TYPE.get(kind, "Any")


def _literal(choices: list[object]) -> str:
    return f"Literal[{', '.join(map(repr, choices))}]"


if __name__ == "__main__":
    print(settings_module(), end="")
