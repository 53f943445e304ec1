"""The module `random` for Beam: its functions draw from a generator of their own.

So the numbers of a user's program stay those of its seed. Beam pickles functions with the module that they use, so this
is a module that workers can import.
"""

from __future__ import annotations

import os

# Under another name: `random.random` is a function.
import random as _random
from typing import Any

_generator = _random.Random()
os.register_at_fork(after_in_child=_generator.seed)


def __getattr__(name: str) -> Any:
    return getattr(_generator if hasattr(_generator, name) else _random, name)
