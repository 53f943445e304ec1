"""Settings. Each is defined once, as a field of the dataclass that uses it.

    image_size: tuple[int, int] | None = setting(None, read=read_image_size, group=IMAGES, help="...")

A request inherits the settings of all groups, and is flat; `slice_of` makes one group of it for workers.

Flags, spec files, `--help`, the manifest's spec and the table of flags are made from these fields. Help texts and
error messages quote a setting as `name` or `name=value`; the command line shows it as a flag.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from beam_tfrecords.errors import RequestError

_KEY = "setting"

INPUT, OUTPUT, IMAGES, FAILURES = "Input", "Output", "Images", "Rejected images"
SCHEDULED = "Scheduled builds"

Value = TypeVar("Value")


@dataclasses.dataclass(frozen=True)
class Setting:
    """The definition of a setting.

    Attributes:
      group: heading in the help.
      default: value if the user gives none, or a function of the settings before it.
      shown_default: the default in the form that the help shows.
      read: makes the value from the raw value of a flag or a spec file. Raises ValueError with the expected form,
        or RequestError with a complete message.
      write: makes a plain value for JSON; the reverse of `read`.
      decides_bytes: whether the bytes of the shards depend on the setting.
      decides_records: whether the setting decides, beyond the reference of a sample, if the sample has a record and
        what the record contains; records made with another value are not reused.
      in_spec: whether the manifest records the setting.
      may_repeat: whether its flag may be given several times; a spec file then has a list.
      paths: whether its values are paths: "input" for files and folders of the input, "other" for others.
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
    paths: Literal["", "input", "other"]

    @property
    def is_switch(self) -> bool:
        """Whether its flag takes no value."""
        return self.read is switch

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that the setting takes; empty if its reader does not list them."""
        return tuple(getattr(self.read, "choices", ()))

    def value_of(self, raw_values: Mapping[str, Any], resolved: Mapping[str, Any]) -> Any:
        """Returns the value that the user gave, or the default, which may depend on the settings resolved so far."""
        word = raw_values.get(self.name)
        if word is None:
            return self.default(resolved) if callable(self.default) else self.default
        try:
            return self.read(word)
        except ValueError as error:
            raise RequestError(f"`{self.name}={word}`: {error}", code="invalid_value") from error


def setting(
    default: Any,
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
    paths: Literal["", "input", "other"] = "",
) -> Any:
    """Returns a dataclass field that defines a setting.

    Args:
      default: default of the field; see `Setting` for all other arguments.
      write: reverse of `read`; by default enumerations become their values, and tuples become lists.
    """
    write = write or _to_plain
    if shown_default is None:
        shown_default = "" if default is None or default is False else str(write(default))
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
        paths=paths,
    )
    return dataclasses.field(default=default, metadata={_KEY: made})


# Defines settings of the input, which decide which samples exist and what their references contain.
input_setting = functools.partial(setting, group=INPUT, decides_records=False)
# Defines settings of the output, and those of them that no byte of a shard depends on; the same for rejected images.
output_setting = functools.partial(setting, group=OUTPUT, decides_records=False)
describing_setting = functools.partial(setting, group=OUTPUT, decides_bytes=False)
failure_setting = functools.partial(setting, group=FAILURES, decides_records=False)
limit_setting = functools.partial(setting, group=FAILURES, decides_bytes=False)


def settings_of(kind: type) -> Sequence[Setting]:
    """Returns the settings of a dataclass.

    They are in the order of the fields. If the dataclass has an attribute `order`, the names in it come first.
    """
    return _settings_of(kind)


@functools.cache
def _settings_of(kind: Any) -> Sequence[Setting]:
    order: Sequence[str] = getattr(kind, "order", ())
    found = [
        dataclasses.replace(field.metadata[_KEY], name=field.name)
        for field in dataclasses.fields(kind)
        if _KEY in field.metadata
    ]
    return sorted(found, key=lambda one: order.index(one.name) if one.name in order else len(order))


def read_settings(kind: type[Value], raw_values: Mapping[str, Any]) -> Value:
    """Makes a dataclass of settings from raw values."""
    values: dict[str, Any] = {}
    for entry in settings_of(kind):
        values[entry.name] = entry.value_of(raw_values, values)
    return kind(**values)


def slice_of(kind: type[Value], request: Value) -> Value:
    """Returns the settings of a request that a group of settings has."""
    return kind(**{one.name: getattr(request, one.name) for one in settings_of(kind)})


def write_settings(value: Any) -> dict[str, Any]:
    """Returns the settings of a dataclass as name -> plain value; the reverse of `read_settings`."""
    return {one.name: one.write(getattr(value, one.name)) for one in settings_of(type(value)) if one.in_spec}


def write_list(values: Sequence[str]) -> Any:
    """Writes a list; None for an empty one."""
    return list(values) or None


def switch(word: Any) -> bool:
    """Reads true or false."""
    if str(word).lower() in ("true", "false"):
        return str(word).lower() == "true"
    raise ValueError("expected true or false")


def one_of(kind: type[enum.Enum]) -> Callable[[Any], Any]:
    """Returns a function that reads a value of an enumeration."""

    def read(word: Any) -> enum.Enum:
        try:
            return kind(str(word))
        except ValueError:
            raise ValueError(f"expected one of {', '.join(choices)}") from None

    choices = tuple(str(member.value) for member in kind)
    read.choices = choices  # type: ignore[attr-defined]
    return read


def whole_number(at_least: int, at_most: int | None = None) -> Callable[[Any], int]:
    """Returns a function that reads a whole number within bounds."""
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


def check_unique(names: list[str]) -> None:
    """Raises ValueError if a word occurs twice."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)} given more than once")


def as_number(word: str) -> float | None:
    """Returns a word as a finite number, or None if it is not one."""
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _to_plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else value
