"""Settings: each is defined once, as a field of the dataclass that uses it.

    image_size: tuple[int, int] | None = setting(None, read=read_image_size, group=IMAGES, help="...")

Flags, spec files, `--help`, the manifest's spec and the table of flags are made from these fields. Help texts and
error messages quote a setting as `name` or `name=value`; the command line shows it as a flag.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from beam_tfrecords.errors import RequestError

_KEY = "setting"

INPUT, OUTPUT, IMAGES, FAILURES = "Input", "Output", "Images", "Rejected images"
SCHEDULED = "Scheduled builds"

Value = TypeVar("Value")


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is known of a setting.

    Attributes:
      group: heading in the help.
      default: value where the user says nothing, or a function of the settings before it.
      shown_default: the default as the help shows it.
      read: makes the value from the word of a flag or the value in a spec file. Raises ValueError with what
        was expected, or RequestError with a whole message.
      write: the reverse of `read`, as a plain value for JSON.
      decides_bytes: whether the bytes of the shards depend on it.
      decides_records: whether the record of one sample depends on it, or whether the sample has one, besides what
        its reference says; records made with another value are not reused.
      in_spec: whether the manifest records it.
      may_repeat: whether its flag may be given several times; a spec file has a list then.
    """

    name: str
    help: str
    group: str
    default: Any
    shown_default: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]
    decides_bytes: bool
    decides_records: bool
    in_spec: bool
    may_repeat: bool

    @property
    def is_switch(self) -> bool:
        """Whether its flag takes no value."""
        return self.read is switch

    def value_of(self, words: Mapping[str, Any], resolved: Mapping[str, Any]) -> Any:
        """Returns the value that the user gave, or the default, which may depend on the settings resolved so far."""
        word = words.get(self.name)
        if word is None:
            if self.default is dataclasses.MISSING:
                raise RequestError(f"`{self.name}` is missing; expected {self.help}")
            return self.default(resolved) if callable(self.default) else self.default
        try:
            return self.read(word)
        except ValueError as error:
            raise RequestError(f"`{self.name}={word}`: {error}") from error


def setting(
    default: Any = dataclasses.MISSING,
    *,
    help: str,
    group: str,
    read: Callable[[Any], Any] = str,
    write: Callable[[Any], Any] | None = None,
    default_from: Callable[[Mapping[str, Any]], Any] | None = None,
    shown_default: str | None = None,
    decides_bytes: bool = True,
    decides_records: bool = True,
    in_spec: bool = True,
    may_repeat: bool = False,
) -> Any:
    """A dataclass field that is a setting.

    Args:
      default: of the field; see `Setting` for the rest.
      write: the reverse; by default enumerations become their values and tuples lists.
    """
    write = write or _to_plain
    if shown_default is None:
        has_default = default is not None and default is not False and default is not dataclasses.MISSING
        shown_default = str(write(default)) if has_default else ""
    made = Setting(
        name="",
        help=help,
        group=group,
        default=default_from or default,
        shown_default=shown_default,
        read=read,
        write=write,
        decides_bytes=decides_bytes,
        decides_records=decides_bytes and decides_records,
        in_spec=in_spec,
        may_repeat=may_repeat,
    )
    return dataclasses.field(default=default, metadata={_KEY: made})


def settings_of(kind: type) -> list[Setting]:
    """The settings that a dataclass defines, in its order."""
    return [
        dataclasses.replace(field.metadata[_KEY], name=field.name)
        for field in dataclasses.fields(kind)
        if _KEY in field.metadata
    ]


def read_settings(kind: type[Value], words: Mapping[str, Any]) -> Value:
    """A dataclass whose fields are all settings, from words."""
    values: dict[str, Any] = {}
    for entry in settings_of(kind):
        values[entry.name] = entry.value_of(words, values)
    return kind(**values)


def write_settings(*values: Any) -> dict[str, Any]:
    """The settings of dataclasses as plain values, by name; `read_settings` is the reverse."""
    return {
        entry.name: entry.write(getattr(value, entry.name))
        for value in values
        for entry in settings_of(type(value))
        if entry.in_spec
    }


def switch(word: Any) -> bool:
    """Reads true or false."""
    if str(word).lower() in ("true", "false"):
        return str(word).lower() == "true"
    raise ValueError("expected true or false")


def one_of(kind: type[enum.Enum]) -> Callable[[Any], Any]:
    """Reads the value of an enumeration."""

    def read(word: Any) -> enum.Enum:
        try:
            return kind(str(word))
        except ValueError:
            raise ValueError(f"expected one of {', '.join(str(member.value) for member in kind)}") from None

    return read


def whole_number(at_least: int, at_most: int | None = None) -> Callable[[Any], int]:
    """Reads a whole number within bounds."""
    bounds = f"of {at_least} or more" if at_most is None else f"from {at_least} to {at_most}"

    def read(word: Any) -> int:
        if not isinstance(word, bool) and re.fullmatch(r"[+-]?[0-9]{1,18}", str(word)):
            number = int(word)
            if number >= at_least and (at_most is None or number <= at_most):
                return number
        raise ValueError(f"expected a whole number {bounds}")

    return read


def share(word: Any) -> float:
    """Reads a share from 0 to 1."""
    number = as_number(str(word))
    if number is None or not 0 <= number <= 1:
        raise ValueError("expected a share from 0 to 1, such as 0.01")
    return number


def check_unique(words: list[str]) -> None:
    """Raises ValueError if a word occurs twice."""
    twice = sorted({word for word in words if words.count(word) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)} given more than once")


def as_number(word: str) -> float | None:
    """The finite number that a word is, or None."""
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _to_plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else value
