"""Other processors make the same records and index: an x86-64 without AVX and an ARM, emulated by QEMU."""

from __future__ import annotations

import sys

import pytest

from tests.other_processors import ROOT, Digests, find_differences, make_digests

# From tests/integration/arm64.sh.
ARM = ROOT / ".cache/arm64"
EMULATED = {
    "Nehalem": ("qemu-x86_64", "-cpu", "Nehalem", sys.executable),
    "ARM": ("qemu-aarch64", "-L", ARM / "root", "-E", f"PYTHONPATH={ARM / 'site'}", ARM / "root/usr/bin/python3"),
}
# Each takes four minutes of a quiet machine.
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def expected() -> Digests:
    return make_digests("all", python=(sys.executable,))


@pytest.mark.parametrize("processor", EMULATED)
def test_another_processor_makes_the_same_bytes(expected, processor):
    assert find_differences(make_digests("all", python=EMULATED[processor]), expected) == {}
