"""What tests take for granted of the servers that they stand on."""

from __future__ import annotations

import pytest
from google.api_core.exceptions import BadRequest

from tests.integration.servers import flink, gcs

pytestmark = pytest.mark.nightly


def test_gcs_composes_32_objects_and_no_more(tmp_path):
    with gcs.gcs_server(tmp_path, buckets=("bucket",)) as server:
        bucket = server.client().bucket("bucket")
        parts = [bucket.blob(f"part-{number}") for number in range(33)]
        for number, part in enumerate(parts):
            part.upload_from_string(b"%d," % number)
        whole = bucket.blob("whole")
        whole.compose(parts[:32])
        assert whole.download_as_bytes() == b"".join(b"%d," % number for number in range(32))
        with pytest.raises(BadRequest):
            whole.compose(parts)


def test_a_second_up_leaves_a_running_flink_cluster_alone(tmp_path):
    with flink.flink_cluster(tmp_path / "one") as cluster:
        before = [cluster.task_manager_pid(1), cluster.task_manager_pid(2)]
        with flink.flink_cluster(tmp_path / "other", task_managers=1) as other:
            assert other.get("/overview")["taskmanagers"] == 1
        assert [cluster.task_manager_pid(1), cluster.task_manager_pid(2)] == before
        assert cluster.get("/overview")["slots-available"] == 2
