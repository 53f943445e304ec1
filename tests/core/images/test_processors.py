"""Records and index are the same for every level of vector code; tests/integration/ has other processors."""

from __future__ import annotations

import os

import pytest

from tests.other_processors import Digests, find_differences, make_digests

_NUMPY_AVX512 = "X86_V4 AVX512_ICL AVX512_SPR"
_OPENCV_AVX = "AVX512-SKX,AVX2,FP16,AVX"
# By the settings of Intel's IPP in OpenCV, of OpenCV, of NumPy and of libjpeg-turbo.
LEVELS = {
    "AVX2": {
        "OPENCV_IPP": "avx2",
        "OPENCV_CPU_DISABLE": "AVX512-SKX",
        "NPY_DISABLE_CPU_FEATURES": _NUMPY_AVX512,
        "JSIMD_FORCEAVX2": "1",
    },
    "SSE4.2": {
        "OPENCV_IPP": "sse42",
        "OPENCV_CPU_DISABLE": _OPENCV_AVX,
        "NPY_DISABLE_CPU_FEATURES": f"X86_V3 {_NUMPY_AVX512}",
        "JSIMD_FORCESSE2": "1",
    },
    "no IPP": {"OPENCV_IPP": "disabled"},
    "none": {
        "OPENCV_IPP": "disabled",
        "OPENCV_CPU_DISABLE": f"{_OPENCV_AVX},SSE4.2,SSE4.1",
        "NPY_DISABLE_CPU_FEATURES": f"X86_V3 {_NUMPY_AVX512}",
        "JSIMD_FORCENONE": "1",
    },
}


@pytest.fixture(scope="module")
def expected() -> Digests:
    return make_digests("few")


@pytest.mark.nightly
@pytest.mark.parametrize("level", LEVELS)
def test_every_level_of_vector_code_makes_the_same_bytes(expected, level):
    assert find_differences(make_digests("few", environment={**os.environ, **LEVELS[level]}), expected) == {}
