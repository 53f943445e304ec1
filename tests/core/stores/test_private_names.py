"""Private names of the libraries of stores and of PyTorch: that the libraries still have them, and what they do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import botocore
import botocore.config
import botocore.session
import numpy as np
import pytest
import requests
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client
from requests.adapters import HTTPAdapter

from beam_tfrecords.storage import botocore_private, gcs_private

pytestmark = pytest.mark.nightly

UPDATED = "2026-01-02T03:04:05.678Z"


class _Listing(HTTPAdapter):
    """Answers every request with a listing of one object."""

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        answer = requests.Response()
        answer.status_code, answer.request, answer.url = 200, request, request.url
        answer._content = json.dumps({"items": [{"name": "a.jpg", "updated": UPDATED}]}).encode()
        return answer


def test_the_session_of_a_client_of_gcs_sends_its_requests_and_an_object_has_its_time():
    client = Client(project=None, credentials=AnonymousCredentials())
    session = gcs_private.session_of(client)
    assert session.is_mtls is False
    session.mount("https://", _Listing())
    assert [gcs_private.update_time(blob) for blob in client.list_blobs("photos")] == [UPDATED]


def test_gcs_says_which_errors_pass():
    for error in (exceptions.ServiceUnavailable(""), exceptions.TooManyRequests(""), requests.ConnectionError()):
        assert gcs_private.is_transient(error)
    for error in (exceptions.NotFound(""), exceptions.Forbidden(""), ValueError()):
        assert not gcs_private.is_transient(error)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> botocore.session.Session:
    config = tmp_path / "config"
    config.write_text("[default]\nregion = us-east-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    return botocore.session.Session()


def test_botocore_has_a_pool_of_connections_to_an_endpoint_without_a_proxy(session: botocore.session.Session):
    url = "http://127.0.0.1:9/photos/a.jpg"
    unsigned = botocore.config.Config(signature_version=botocore.UNSIGNED)
    client = session.create_client("s3", endpoint_url="http://127.0.0.1:9", config=unsigned)
    pool = botocore_private.connections_to(client, url)
    assert (pool.host, pool.port) == ("127.0.0.1", 9)
    assert pool is botocore_private.connections_to(client, url)
    proxies = botocore.config.Config(proxies={"http": "http://127.0.0.1:3128"}).merge(unsigned)
    assert botocore_private.connections_to(session.create_client("s3", config=proxies), url) is None


def test_torch_makes_batches_of_our_examples_by_itself():
    pytest.importorskip("torch")
    from torch.utils.data import default_collate

    import beam_tfrecords.torch  # noqa: F401
    from beam_tfrecords.reading.collating import Example

    one, two = Example(boxes=np.zeros((1, 4))), Example(boxes=np.zeros((2, 4)))
    one.ragged = two.ragged = frozenset({"boxes"})
    assert [len(boxes) for boxes in default_collate([one, two])["boxes"]] == [1, 2]
