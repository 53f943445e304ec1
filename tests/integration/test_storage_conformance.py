"""Every function of `storage` does in gs:// and s3:// what it does on a disk: the tests of core, on four servers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.core.storage.test_conformance import *  # noqa: F403
from tests.integration import buckets
from tests.integration.servers import processes

_NUMBERS = itertools.count()
# Kind -> the scheme and the program of its server.
SERVERS = {"gs": ("gs", ""), "s3": ("s3", "moto"), "versitygw": ("s3", "versitygw"), "minio": ("s3", "minio")}


@pytest.fixture(
    params=["gs", "s3", "versitygw", pytest.param("minio", marks=pytest.mark.nightly)], scope="module", name="kind"
)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What the store is; its server runs."""
    kind = str(request.param)
    if kind == "minio" and not (processes.BINARIES / "minio").exists():
        pytest.skip("needs MinIO: tests/integration/install.sh nightly")
    scheme, program = SERVERS[kind]
    with buckets.services(tmp_path_factory.mktemp(kind), scheme, s3_program=program, names=("bucket", "other")):
        yield kind


@pytest.fixture
def root(kind: str) -> str:
    """An empty folder, without a slash at the end."""
    return f"{SERVERS[kind][0]}://bucket/{next(_NUMBERS)}"
