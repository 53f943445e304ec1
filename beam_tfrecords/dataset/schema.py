"""Checks JSON files that others may have written, as a whole, before any part is used.

msgspec would name neither the value nor the key of a mapping (`$.splits[...].bytes`), and save 19 lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias

# (value, location in the file); raises ValueError for an unexpected value.
Check: TypeAlias = Callable[[Any, str], None]

_MOST_COUNT = 1 << 62
# The year 9999, in seconds since the epoch.
LAST_MOMENT = 253_370_764_800
_MOST_SHOWN = 60


def read_json(data: bytes, check: Check) -> Any:
    """Parses and checks a JSON file.

    Raises:
      ValueError: the data is not JSON or fails the check; the message says what was found, and where.
    """
    try:
        value = json.loads(data, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    check(value, "it")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


def count(value: Any, where: str) -> None:
    """Checks for a count."""
    if type(value) is not int or not 0 <= value < _MOST_COUNT:
        _refuse(value, where, "a number of 0 or more")


def whole(value: Any, where: str) -> None:
    """Checks for an integer, which may be negative."""
    if type(value) is not int or not abs(value) < _MOST_COUNT:
        _refuse(value, where, "a whole number")


def moment(value: Any, where: str) -> None:
    """Checks for seconds since the epoch."""
    if type(value) not in (int, float) or not 0 <= value < LAST_MOMENT:
        _refuse(value, where, "seconds since 1970")


def flag(value: Any, where: str) -> None:
    """Checks for true or false."""
    if type(value) is not bool:
        _refuse(value, where, "true or false")


def text(value: Any, where: str) -> None:
    """Checks for a string of valid Unicode, which can be printed and written."""
    if not isinstance(value, str):
        _refuse(value, where, "a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        _refuse(value, where, "valid Unicode")


def plain(value: Any, where: str) -> None:
    """Accepts any JSON value with valid strings."""
    if isinstance(value, list):
        listed(plain)(value, where)
    elif isinstance(value, dict):
        mapped(plain)(value, where)
    elif isinstance(value, str):
        text(value, where)


def optional(of: Check) -> Check:
    """Returns a check that also accepts null."""

    def check(value: Any, where: str) -> None:
        if value is not None:
            of(value, where)

    return check


def listed(of: Check) -> Check:
    """Returns a check of a list whose items pass another check."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, list):
            _refuse(value, where, "a list")
        for number, one in enumerate(value):
            of(one, f"{where}[{number}]")

    return check


def mapped(of: Check) -> Check:
    """Returns a check of an object whose values pass another check."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            _refuse(value, where, "an object")
        for name, one in value.items():
            text(name, f"a name in {where}")
            of(one, _within(where, name))

    return check


def fields(needed: Mapping[str, Check], others: Mapping[str, Check] = MappingProxyType({})) -> Check:
    """Returns a check of an object with these names; other names are allowed if their strings are valid.

    Args:
      needed: checks of required values.
      others: checks of optional values.
    """

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            _refuse(value, where, "an object")
        for name in needed:
            if name not in value:
                raise ValueError(f"{_within(where, name)} is missing")
        for name, one in value.items():
            text(name, f"a name in {where}")
            (needed.get(name) or others.get(name) or plain)(one, _within(where, name))

    return check


def _within(where: str, name: str) -> str:
    return name if where == "it" else f"{where}.{name}"


def _refuse(value: Any, where: str, expected: str) -> NoReturn:
    shown = ascii(value)
    raise ValueError(f"{where} is {shown[:_MOST_SHOWN]}{'…' * (len(shown) > _MOST_SHOWN)}; expected {expected}")
