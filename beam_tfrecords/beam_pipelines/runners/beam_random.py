"""A replacement for the module `random` in Beam, with a separate generator.

Beam then does not change the random numbers that a user's program gets for its seed. This is a module, because Beam
pickles functions with the modules that they use, and workers must be able to import them.
"""

from __future__ import annotations

import os

# Uses another name, because `random` must remain the function `random.random` here.
import random as _random
from typing import Any

_generator = _random.Random()
os.register_at_fork(after_in_child=_generator.seed)


def __getattr__(name: str) -> Any:
    return getattr(_generator if hasattr(_generator, name) else _random, name)
