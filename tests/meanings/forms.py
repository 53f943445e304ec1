"""All forms of inputs, and the case of a seed."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping, Sequence

from tests.meanings.annotations import ANNOTATION_FORMS, draw_annotations
from tests.meanings.containers import CONTAINER_FORMS, draw_container
from tests.meanings.folders import FOLDER_FORMS, draw_folder
from tests.meanings.functions import FUNCTION_FORMS, draw_function
from tests.meanings.meaning import Case
from tests.meanings.several import SEVERAL_FORMS, draw_several
from tests.meanings.tables import TABLE_FORMS, draw_table

_DRAWN_BY: Mapping[Callable[..., Case], Sequence[str]] = {
    draw_table: TABLE_FORMS,
    draw_folder: FOLDER_FORMS,
    draw_container: CONTAINER_FORMS,
    draw_annotations: ANNOTATION_FORMS,
    draw_several: SEVERAL_FORMS,
    draw_function: FUNCTION_FORMS,
}
FORMS: Mapping[str, Callable[[random.Random], Case]] = {
    form: functools.partial(draw, form=form) for draw, forms in _DRAWN_BY.items() for form in forms
}


def draw_case(seed: int, number: int, form: str | None = None) -> Case:
    """Draws an input.

    Args:
      seed: of all inputs.
      number: of this one.
      form: its form; None takes the forms in turn.
    """
    chance = random.Random(f"{seed}/{number}")
    in_turn = list(FORMS)[number % len(FORMS)]
    return FORMS[form or in_turn](chance)
