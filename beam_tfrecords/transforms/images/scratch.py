"""Memory that is reused for one image after another."""

from __future__ import annotations

import math
import threading

import numpy as np

# Bytes. Larger arrays are allocated each time, so that a worker does not keep the memory of a huge image.
_LARGEST = 8 << 20


class Scratch(threading.local):
    """Arrays to decode into, one set per thread.

    Otherwise the system maps and unmaps the memory of every array; touching the new pages took 0.4 of the 1.6 ms for a
    500x375 image.
    """

    def __init__(self) -> None:
        self._memory: dict[str, np.ndarray] = {}

    def array(self, use: str, shape: tuple[int, ...]) -> np.ndarray:
        """Returns an uninitialised uint8 array, valid until the next call with the same `use`."""
        size = math.prod(shape)
        if size > _LARGEST:
            return np.empty(shape, np.uint8)
        memory = self._memory.get(use)
        if memory is None or memory.size < size:
            memory = self._memory[use] = np.empty(size, np.uint8)
        return memory[:size].reshape(shape)


SCRATCH = Scratch()
