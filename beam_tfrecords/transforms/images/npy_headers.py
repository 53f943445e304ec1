"""Headers of .npy files (numpy.org/doc/stable/reference/generated/numpy.lib.format.html)."""

from __future__ import annotations

import numpy as np

NPY_START = b"\x93NUMPY"
# Version -> reader of the shape, of whether the first axis changes fastest, and of the type.
NPY_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
