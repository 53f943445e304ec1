"""`load` in two processes of `tf.distribute`: every record is read, and none twice."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from beam_tfrecords import build

pytestmark = pytest.mark.nightly

WORKERS = 2
# Prints the names that a worker reads.
PROGRAM = """
import sys
import tensorflow as tf
from beam_tfrecords import load

strategy = tf.distribute.MultiWorkerMirroredStrategy()
path, shuffle, readers = sys.argv[1], sys.argv[2] == "shuffle", sys.argv[3] == "readers"
shares = {"num_readers": 2, "reader_index": strategy.cluster_resolver.task_id} if readers else {}
train = load(path, "train", batch_size=4, shuffle=shuffle, seed=1, image_size=8, resize_mode="crop", **shares)
for batch in strategy.experimental_distribute_dataset(train):
    for names in strategy.experimental_local_results(batch["filename"]):
        for name in names.numpy():
            print("read", name.decode(), flush=True)
"""


def free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("localhost", 0))
        return int(opened.getsockname()[1])


def run_workers(*arguments: str) -> list[list[str]]:
    """Returns the names that each worker of a cluster reads."""
    cluster = {"worker": [f"localhost:{free_port()}" for _ in range(WORKERS)]}
    started = []
    for index in range(WORKERS):
        config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        environment = {**os.environ, "TF_CONFIG": config, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [sys.executable, "-c", PROGRAM, *arguments]
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    names = []
    for process in started:
        out, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        names.append([line.removeprefix("read ") for line in out.splitlines() if line.startswith("read ")])
    return names


@pytest.mark.parametrize(("order", "shares"), [("shuffle", "whole"), ("in_order", "readers")])
def test_two_workers_read_every_record_once(tmp_path: Path, photos: Path, order: str, shares: str) -> None:
    dataset = build(input=str(photos), output=str(tmp_path / "out"), image_size=16, num_shards=3, quiet=True)
    read = run_workers(str(tmp_path / "out"), order, shares)
    assert sorted(read[0] + read[1]) == sorted(record["filename"] for record in dataset["train"])
    assert abs(len(read[0]) - len(read[1])) <= 4
