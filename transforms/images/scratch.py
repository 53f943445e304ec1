"""Memory that one image leaves to the next."""

from __future__ import annotations

import math
import threading

import numpy as np

# Bytes of one array; larger ones are made anew, so that a worker does not hold on to a huge image's memory.
_LARGEST = 8 << 20


class Scratch(threading.local):
    """Arrays to decode and filter into, kept per thread.

    Fresh arrays of this size come from the system and go back to it each time; touching their pages took
    0.4 of the 1.6 ms that an image of 500x375 needs.
    """

    def __init__(self) -> None:
        self._memory: dict[str, np.ndarray] = {}

    def array(self, use: str, shape: tuple[int, ...]) -> np.ndarray:
        """An uninitialised uint8 array that stays valid until the next call for the same use."""
        size = math.prod(shape)
        if size > _LARGEST:
            return np.empty(shape, np.uint8)
        memory = self._memory.get(use)
        if memory is None or memory.size < size:
            memory = self._memory[use] = np.empty(size, np.uint8)
        return memory[:size].reshape(shape)


SCRATCH = Scratch()
