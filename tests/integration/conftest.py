"""The longest modules first, so that none of them is left to one process at the end."""

from __future__ import annotations

import pytest

# Minutes each, the longest first; with `--no-loadscope-reorder`, xdist hands out modules in the order of their tests.
LONGEST = (
    *("test_flink_faults", "test_cluster_sources", "test_two_builds", "test_flink", "test_sources_in_buckets"),
    *("test_map", "test_nights", "test_processors", "test_killed_versions", "test_disturbed_buckets", "test_full_disk"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Orders the tests; those of a module stay together."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))
