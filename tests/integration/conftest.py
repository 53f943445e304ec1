"""The browser of the pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # The tests may run as root in a container, where Chromium has no sandbox.
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()
