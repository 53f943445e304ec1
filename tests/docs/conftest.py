"""What follows the pages of the documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.docs.following import Follower
from tests.docs.inputs import make_inputs, make_urls, photos_by_name
from tests.web_server import web_server


@pytest.fixture(scope="session")
def follower(tmp_path_factory) -> Iterator[Callable[[Path], Follower]]:
    """Page -> its follower, in a folder of its own with all inputs; a server has some of the photos."""
    inputs = tmp_path_factory.mktemp("inputs")
    make_inputs(inputs)
    made: dict[Path, Follower] = {}

    def follow(page: Path) -> Follower:
        if page not in made:
            folder = tmp_path_factory.mktemp(page.stem)
            for entry in inputs.iterdir():
                (folder / entry.name).symlink_to(entry)
            made[page] = Follower(page, folder)
        return made[page]

    with web_server(photos_by_name()) as server:
        make_urls(inputs, f"{server.url}/plain")
        yield follow
