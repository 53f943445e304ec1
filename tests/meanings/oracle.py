"""Judges what the program makes of an input."""

from __future__ import annotations

import dataclasses
import glob
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from beam_tfrecords import RequestError
from tests.meanings.comparison import Comparison
from tests.meanings.meaning import Meaning
from tests.meanings.program import Reading, read_input

READ, ASKED, REFUSED, STOPPED, WRONG, CRASH = OUTCOMES = ("read", "asked", "refused", "stopped", "wrong", "crash")
Read = Callable[[Mapping[str, Any]], Reading]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of an input.

    Attributes:
      kind: one of `OUTCOMES`.
      problems: what is wrong, in words; the first one begins with the kind of the problem and a colon.
      settings: of the request or the offer that is wrong.
      words: notes, or the message of the refusal.
    """

    kind: str
    problems: Sequence[str] = ()
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    words: str = ""


def judge(case: Meaning, settings: Mapping[str, Any], *, read: Read = read_input) -> Outcome:
    """Returns what becomes of the written input of a case with the settings of a request."""
    try:
        reading = read(settings)
    except RequestError as error:
        return _judge_refusal(case, settings, error, read)
    except Exception:
        return Outcome(CRASH, [f"crash: {_last_line()}"], settings, traceback.format_exc(limit=-6))
    kind, problems = judge_reading(case, settings, reading)
    if case.unclear and kind == READ and not _leaves_out_boxes(case, reading):
        return Outcome(WRONG, [f"guessed: {case.unclear}"], settings, reading.text)
    if kind == STOPPED and problems:
        return Outcome(WRONG, [f"stopped, {one}" for one in problems], settings, reading.text)
    return Outcome(kind, problems, settings, reading.text)


def _leaves_out_boxes(meaning: Meaning, reading: Reading) -> bool:
    """Whether only the boxes are unclear, and the records have none."""
    return meaning.unclear.startswith("boxes") and all(record.objects is None for record in reading.records)


def _last_line() -> str:
    return traceback.format_exc().strip().splitlines()[-1][:200]


def _judge_refusal(case: Meaning, settings: Mapping[str, Any], error: RequestError, read: Read) -> Outcome:
    """Executes the offers of a refusal."""
    for offer in error.suggestions:
        changed = {**settings, **offer.settings}
        changed = {name: value for name, value in changed.items() if value is not None}
        try:
            reading = read(changed)
        except RequestError as again:
            found = f"offer refused {again.code}: {again.message}"
            return Outcome(WRONG, [found], offer.settings, str(error))
        except Exception:
            found = f"crash of an offer: {_last_line()}"
            return Outcome(CRASH, [found], offer.settings, traceback.format_exc(limit=-6))
        said = f"{error.message}\n{offer.meaning}\n{reading.text}"
        kind, problems = judge_reading(
            case,
            changed,
            dataclasses.replace(reading, text=said),
            is_offered=True,
            is_part=_is_part(offer.settings, settings["input"]),
        )
        if kind == STOPPED and problems:
            kind, problems = WRONG, [f"publishes nothing, {one}" for one in problems]
        if kind == WRONG:
            return Outcome(WRONG, [f"offer, {one}" for one in problems], offer.settings, f"{error}\n{said}")
    return Outcome(ASKED if error.suggestions else REFUSED, [error.code], settings, str(error))


def judge_reading(
    meaning: Meaning,
    settings: Mapping[str, Any],
    reading: Reading,
    *,
    is_offered: bool = False,
    is_part: bool = False,
) -> tuple[str, list[str]]:
    """Compares records with a meaning; returns the kind of the outcome, and what is wrong.

    Args:
      is_offered: whether an offer has the settings.
      is_part: whether the offer says that it reads a folder of the input.
    """
    problems = list(Comparison(meaning, settings, reading, is_offered=is_offered, is_part=is_part).problems())
    if not reading.published:
        # Its message says how rows that contradict each other become one sample.
        is_said = set(reading.failures) <= {"conflicting_rows", "duplicate_key"}
        return STOPPED, [] if is_said else [one for one in problems if one.startswith("lost")]
    return (WRONG if problems else READ), problems


def _is_part(settings: Mapping[str, Any], whole: Any) -> bool:
    """Whether a reading says that it reads some paths, a folder below the input, or some of several inputs."""
    if not {"exclude", "include"}.isdisjoint(settings):
        return True
    if settings.get("input") is None:
        return False
    paths, all_paths = _paths_of(settings["input"]), _paths_of(whole)
    is_below = all(
        any(path.startswith(f"{one}#/") or (path.startswith(f"{one}/") and os.path.isdir(path)) for one in all_paths)
        for path in paths
    )
    return is_below or paths < all_paths


def _paths_of(value: Any) -> set[str]:
    """Returns the paths of an input, without the splits that it states."""
    words = [word.partition("=")[2] or word for word in (value if isinstance(value, list) else [value])]
    return {path for word in words for path in glob.glob(word) or [word]}
