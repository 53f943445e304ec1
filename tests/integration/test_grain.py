"""Records as a source of Grain: every example once, and the state of an iteration."""

from __future__ import annotations

import shutil

import grain
import pytest

from beam_tfrecords import mix, open_dataset
from beam_tfrecords.grain import RecordSource
from tests.docs.pages import PROJECT, passages_of

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def folder(tmp_path_factory, photos, build):
    return build(tmp_path_factory.mktemp("grain") / "out", f"--input={photos}", "--image_size=32")


@pytest.fixture(scope="module")
def records(folder):
    return open_dataset(folder).records("train")


@pytest.fixture(scope="module", params=[RecordSource, lambda records: records], ids=["source", "records"])
def source(request, records):
    """The adapter, and records as they are."""
    made = request.param(records)
    assert isinstance(made, grain.sources.RandomAccessDataSource)
    return made


def load(source, *, workers: int, shard=None):
    shard = shard or grain.sharding.NoSharding()
    sampler = grain.samplers.IndexSampler(len(source), shard_options=shard, shuffle=True, num_epochs=1, seed=0)
    return grain.DataLoader(data_source=source, sampler=sampler, operations=[Name()], worker_count=workers)


class Name(grain.transforms.Map):
    def map(self, example):
        return example["filename"]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_gives_every_example_once(source, records, workers):
    names = list(load(source, workers=workers))
    assert names != sorted(names)
    assert sorted(names) == sorted(example["filename"] for example in records)


def test_shards_of_a_loader_have_the_same_length(source):
    parts = [
        list(load(source, workers=0, shard=grain.sharding.ShardOptions(i, 4, drop_remainder=True))) for i in range(4)
    ]
    assert [len(part) for part in parts] == [10] * 4
    assert len(set().union(*parts)) == 40


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_goes_on_from_its_state(source, workers):
    names = iter(load(source, workers=workers))
    for _ in range(10):
        next(names)
    state = names.get_state()
    rest = list(names)
    assert len(rest) == 32
    again = iter(load(source, workers=workers))
    again.set_state(state)
    assert list(again) == rest


def test_a_state_fits_a_copy_of_the_dataset_and_no_other(records, folder, tmp_path):
    names = iter(load(RecordSource(records), workers=0))
    next(names)
    copy = open_dataset(shutil.copytree(folder, tmp_path / "copy")).records("train")
    again = iter(load(RecordSource(copy), workers=0))
    again.set_state(names.get_state())
    assert next(again) == next(names)
    with pytest.raises(ValueError, match="RecordSource"):
        iter(load(RecordSource(records[::-1]), workers=0)).set_state(names.get_state())


@pytest.mark.parametrize("workers", [0, 2])
def test_an_iteration_goes_on_from_its_state(source, workers):
    def iterate():
        labels = grain.MapDataset.source(source).shuffle(seed=1).map(lambda example: int(example["label"])).batch(4)
        iterable = labels.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=4))
        return iter(iterable.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers)) if workers else iterable)

    batches = iterate()
    for _ in range(3):
        next(batches)
    state = batches.get_state()
    rest = [batch.tolist() for batch in batches]
    again = iterate()
    again.set_state(state)
    assert [batch.tolist() for batch in again] == rest
    assert len(rest) == 8


@pytest.mark.parametrize("make", [lambda mixed: mixed, RecordSource])
def test_a_mixture_is_read_as_records_are(records, make):
    def mixture(seed: int):
        return mix([(records.filter(label="cat"), 0.5), (records, 0.5)], seed=seed)

    expected = sorted(example["filename"] for example in mixture(1))
    names = iter(load(make(mixture(1)), workers=2))
    had = [next(names) for _ in range(10)]
    state = names.get_state()
    rest = list(names)
    assert sorted(had + rest) == expected
    again = iter(load(make(mixture(1)), workers=2))
    again.set_state(state)
    assert list(again) == rest
    if make is RecordSource:
        with pytest.raises(ValueError, match="RecordSource"):
            iter(load(make(mixture(2)), workers=2)).set_state(state)


def test_the_passage_of_the_documentation_runs(folder, tmp_path, monkeypatch, capsys):
    (passage,) = (one for one in passages_of(PROJECT / "docs" / "python.md") if "beam_tfrecords.grain" in one.text)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "photos").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    exec(passage.text, {})
    assert len(capsys.readouterr().out.splitlines()) == 6
