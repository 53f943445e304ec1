"""Records as a source of Grain: every example once, and the state of an iteration."""

from __future__ import annotations

import grain
import pytest

from beam_tfrecords import open_dataset


@pytest.fixture(scope="module")
def records(tmp_path_factory, photos, build):
    folder = build(tmp_path_factory.mktemp("grain"), f"--input={photos}", "--image_size=32")
    return open_dataset(folder).records("train")


def test_a_loader_gives_every_example_once(records):
    sampler = grain.samplers.IndexSampler(
        len(records), shard_options=grain.sharding.NoSharding(), shuffle=True, num_epochs=1, seed=0
    )
    loader = grain.DataLoader(data_source=records, sampler=sampler, operations=[], worker_count=0)
    names = [example["filename"] for example in loader]
    assert names != sorted(names)
    assert sorted(names) == sorted(example["filename"] for example in records)


def test_an_iteration_goes_on_from_its_state(records):
    def iterate():
        labels = grain.MapDataset.source(records).shuffle(seed=1).map(lambda example: int(example["label"])).batch(4)
        return iter(labels.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=4)))

    batches = iterate()
    for _ in range(3):
        next(batches)
    state = batches.get_state()
    rest = [batch.tolist() for batch in batches]
    again = iterate()
    again.set_state(state)
    assert [batch.tolist() for batch in again] == rest
    assert len(rest) == 8
