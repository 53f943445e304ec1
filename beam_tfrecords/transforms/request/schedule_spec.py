"""Settings of repeated builds: versions, reuse and guards."""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.transforms.settings import SCHEDULED, as_number, one_of, setting, share, switch, whole_number

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_setting = functools.partial(setting, group=SCHEDULED, decides_bytes=False, in_spec=False)
# Value of `reuse` that reuses no records.
NO_REUSE = "none"
# Value of `accept` that accepts the violations of all guards.
_ALL = "all"


class GuardMode(str, enum.Enum):
    """Effect of violated guards: STRICT publishes nothing, WARN adds a note; OFF disables all guards."""

    STRICT = "strict"
    WARN = "warn"
    OFF = "off"


class Guard(str, enum.Enum):
    """A comparison of a new version with the previous one."""

    COUNT = "count"
    FAILURES = "failures"
    CLASSES = "classes"
    CLASS_SHARES = "class_shares"
    SETTINGS = "settings"
    SIZES = "sizes"
    SPLITS = "splits"


def read_duration(word: Any) -> int:
    """Reads a duration such as `90s`, `30m`, `1h` or `7d`, or a number of seconds; returns seconds."""
    match = re.fullmatch(r"([0-9]{1,9})([smhd]?)", str(word).strip())
    if not match:
        raise ValueError("expected a duration such as 90s, 30m, 1h or 7d")
    return int(match[1]) * _UNITS[match[2]]


def read_ratio(word: Any) -> float:
    """Reads a positive ratio."""
    number = as_number(str(word))
    if number is None or number <= 0:
        raise ValueError("expected a ratio above 0, such as 0.8")
    return number


def read_guards(word: Any) -> tuple[Guard, ...]:
    """Reads names of guards as a list or separated by commas, or `all`."""
    words = word if isinstance(word, (list, tuple)) else [word]
    names = [name.strip() for part in words for name in str(part).split(",")]
    if _ALL in names:
        return tuple(Guard)
    try:
        return tuple(dict.fromkeys(one_of(Guard)(name) for name in names))
    except ValueError as error:
        raise ValueError(f"{error}, or {_ALL}") from None


def _read_reuse(word: Any) -> str:
    return NO_REUSE if str(word) == NO_REUSE else storage.absolute(str(word)).rstrip("/")


@dataclasses.dataclass(frozen=True)
class ScheduleSpec:
    """The settings of a build that concern previous builds."""

    versioned: bool = _setting(
        False,
        help="write a new version below `output`, named by the time, and point LATEST to it",
        read=switch,
    )
    keep_versions: int | None = _setting(
        None,
        help="keep this many of the newest versions; remove older ones",
        shown_default="all",
        read=whole_number(1),
    )
    grace: int = _setting(
        3600,
        help="keep replaced versions this long for running readers",
        shown_default="1h",
        read=read_duration,
    )
    reuse: str | None = _setting(
        None,
        help="a previous dataset whose records are reused for unchanged samples, or none",
        shown_default="the version before, with `versioned`",
        read=_read_reuse,
    )
    guard: GuardMode = setting(
        GuardMode.STRICT,
        help="strict: no version that differs too much from the one before is published; warn: a note; off",
        group=SCHEDULED,
        read=one_of(GuardMode),
        decides_bytes=False,
        in_spec=False,
    )
    accept: tuple[Guard, ...] = _setting(
        (),
        help=f"guards that may trip in this run: {', '.join(guard.value for guard in Guard)}, or {_ALL}",
        shown_default="",
        read=read_guards,
        may_repeat=True,
    )
    min_count_ratio: float = _setting(
        0.8,
        help="guard count: smallest allowed ratio of samples to the version before, in all or of a split",
        read=read_ratio,
    )
    max_count_ratio: float = _setting(2.0, help="guard count: largest allowed ratio of samples", read=read_ratio)
    max_failure_rise: float = _setting(
        0.01,
        help="guard failures: largest allowed rise of the share of failed samples",
        read=share,
    )
    max_share_change: float = _setting(
        0.05,
        help="guard class_shares: largest allowed change of the share of a class in a split",
        read=share,
    )
    min_size_ratio: float = _setting(
        0.5,
        help="guard sizes: smallest allowed ratio of a record's mean bytes, and of an image's median pixels",
        read=read_ratio,
    )
    max_size_ratio: float = _setting(2.0, help="guard sizes: largest allowed ratio of both", read=read_ratio)
