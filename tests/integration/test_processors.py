"""Other processors make the same records and index: an x86-64 without AVX and an ARM, emulated by QEMU."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.other_processors import ROOT, Digests, find_differences, make_digests

# From tests/integration/arm64.sh.
ARM = ROOT / ".cache/arm64"
EMULATED = {
    "Nehalem": ("qemu-x86_64", "-cpu", "Nehalem", sys.executable),
    "ARM": ("qemu-aarch64", "-L", ARM / "root", "-E", f"PYTHONPATH={ARM / 'site'}", ARM / "root/usr/bin/python3"),
}
# Both take four minutes of a quiet machine.
pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def made() -> dict[str, Digests]:
    commands = {"this processor": (sys.executable,), **EMULATED}
    with ThreadPoolExecutor(2) as pool:
        ran = pool.map(lambda python: make_digests("all", python=python), commands.values())
        return dict(zip(commands, ran, strict=True))


@pytest.mark.parametrize("processor", EMULATED)
def test_another_processor_makes_the_same_bytes(made, processor):
    assert find_differences(made[processor], made["this processor"]) == {}
