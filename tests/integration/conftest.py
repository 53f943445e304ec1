"""The browser of the pages, and the order of the modules: the longest first, so that none is left to one process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Minutes each, the longest first; with `--no-loadscope-reorder`, xdist hands out modules in the order of their tests.
LONGEST = (
    *("test_flink_faults", "test_cluster_sources", "test_two_builds", "test_flink", "test_sources_in_buckets"),
    *("test_map", "test_nights", "test_processors", "test_killed_versions", "test_disturbed_buckets", "test_full_disk"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Orders the tests; those of a module stay together."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # The tests may run as root in a container, where Chromium has no sandbox.
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()
