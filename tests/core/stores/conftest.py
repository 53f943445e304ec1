"""Servers of gs:// and s3://; `make test-integration` and `make test-nightly` run the tests of this folder."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration import buckets

_NUMBERS = itertools.count()


@pytest.fixture(scope="module", params=buckets.SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    """Of the store."""
    return str(request.param)


@pytest.fixture(scope="module")
def running(scheme: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The server of a module."""
    with buckets.services(tmp_path_factory.mktemp(scheme), scheme) as servers:
        yield servers[scheme]


@pytest.fixture
def server(running: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The server, which has no faults yet and has seen no requests; a silence of two seconds ends a build."""
    monkeypatch.setenv("BEAM_TFRECORDS_RETRY_SECONDS", "2")
    running.forget_faults()
    running.requests.clear()
    yield running
    running.forget_faults()


@pytest.fixture
def root(server: Any, scheme: str) -> str:
    """An empty folder of the bucket `photos`, without a slash at the end."""
    return f"{scheme}://photos/{next(_NUMBERS)}"
