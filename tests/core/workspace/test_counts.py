"""The counts of workers: in files, at a cost that does not depend on the number of blocks, and as metrics."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import apache_beam as beam
from apache_beam.metrics import MetricsFilter

from beam_tfrecords.transforms.blocks.stage import NAMESPACE, report_block
from beam_tfrecords.transforms.stats import Stats
from beam_tfrecords.transforms.workspace.counts import BlockCounts, add_block, read_block_counts

STATS = Stats({("written", "train"): 90, ("failed", "train", "corrupt"): 10, ("source_bytes",): 5_000})


def add_blocks(folder: str, number: int) -> None:
    for _ in range(number):
        add_block(folder, STATS)


def test_a_forked_worker_does_not_count_what_its_parent_did(tmp_path):
    add_blocks(str(tmp_path), 2)
    child = multiprocessing.get_context("fork").Process(target=add_blocks, args=(str(tmp_path), 3))
    child.start()
    child.join()
    assert read_block_counts(str(tmp_path)) == BlockCounts(5, 450, 50)


def test_a_file_that_a_power_cut_emptied_is_passed_over(tmp_path):
    add_blocks(str(tmp_path), 1)
    Path(tmp_path, "workers", "emptied.json").write_bytes(b"")
    assert read_block_counts(str(tmp_path)).blocks == 1


def test_the_metrics_of_a_pipeline_count_samples_and_bytes():
    pipeline = beam.Pipeline("FnApiRunner")
    attempts = pipeline | beam.Create([False, True])
    _ = attempts | beam.Map(lambda is_resumed: report_block(STATS, bytes_out=7_000, is_resumed=is_resumed))
    result = pipeline.run()
    found = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))
    assert {one.key.metric.name: one.committed for one in found["counters"]} == {
        "samples_written": 180,
        "failed_corrupt": 20,
        "bytes_in": 10_000,
        "bytes_out": 14_000,
        "blocks": 2,
        "blocks_resumed": 1,
    }
