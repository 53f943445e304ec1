"""All forms of inputs, and the case of a seed."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping

from tests.meanings.meaning import Case
from tests.meanings.tables import TABLE_FORMS, draw_table

FORMS: Mapping[str, Callable[[random.Random], Case]] = {
    form: functools.partial(draw_table, form=form) for form in TABLE_FORMS
}


def draw_case(seed: int, number: int, form: str | None = None) -> Case:
    """Draws an input.

    Args:
      seed: of all inputs.
      number: of this one.
      form: its form; None draws one.
    """
    chance = random.Random(f"{seed}/{number}")
    drawn = chance.choice(sorted(FORMS))
    return FORMS[form or drawn](chance)
