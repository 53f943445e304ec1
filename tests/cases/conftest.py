"""The option that writes what cases give."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-cases", action="store_true", help="write what happens into tests/cases/*.yaml; no -n")
