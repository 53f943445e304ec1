"""Records in PyTorch's own DataLoader and torchdata's: every example once, equal shards, states in mid-epoch."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, DistributedSampler, default_collate
from torchdata.stateful_dataloader import StatefulDataLoader

from beam_tfrecords import mix, open_dataset
from beam_tfrecords.torch import RecordDataset, RecordStream
from tests.docs.pages import PROJECT, passages_of

pytestmark = pytest.mark.nightly

BATCH = 4
WORKERS = pytest.mark.parametrize("workers", [0, 2])


@pytest.fixture(scope="module")
def folder(tmp_path_factory, photos, build):
    flags = ("--image_size=32", "--resize_mode=crop", "--num_shards=3")
    return build(tmp_path_factory.mktemp("torch"), f"--input={photos}", *flags)


@pytest.fixture(scope="module")
def records(folder):
    return open_dataset(folder).records("train")


@pytest.fixture(scope="module")
def names(records):
    return [example["filename"] for example in records]


def names_of(batches) -> list[list[bytes]]:
    return [batch["filename"] for batch in batches]


def flat(batches) -> list[bytes]:
    return list(itertools.chain.from_iterable(names_of(batches)))


def as_floats(example):
    return {**example, "image": torch.from_numpy(example["image"]).float() / 255}


@WORKERS
def test_batches_by_number_hold_every_example_once(records, names, workers):
    loader = DataLoader(RecordDataset(records), BATCH, shuffle=True, num_workers=workers)
    batches = list(loader)
    assert len(batches) == len(loader) == 11
    assert batches[0]["image"].shape == (BATCH, 3, 32, 32)
    assert batches[0]["image"].dtype == torch.uint8
    assert batches[0]["label"].dtype == torch.int64
    assert flat(batches) != names
    assert sorted(flat(batches)) == sorted(names)


def test_a_transform_is_applied_in_the_workers(records):
    for dataset in (RecordDataset(records, transform=as_floats), RecordStream(records, transform=as_floats)):
        batch = next(iter(DataLoader(dataset, BATCH, num_workers=1)))
        assert (batch["image"].shape, batch["image"].dtype) == ((BATCH, 3, 32, 32), torch.float32)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("encoding", ["png", "raw"])
def test_images_of_other_encodings_can_be_written_to(tmp_path, photos, build, encoding):
    flags = ("--image_size=8", "--resize_mode=crop", f"--image_encoding={encoding}")
    records = open_dataset(build(tmp_path, f"--input={photos}", *flags)).records("train")
    records[0]["image"][:] = 0
    assert next(iter(DataLoader(RecordDataset(records), BATCH)))["image"].shape == (BATCH, 3, 8, 8)


def test_shards_by_number_have_the_same_length_and_share_nothing(records, names):
    shards = [[e["filename"] for e in RecordDataset(records, shard=(i, 4))] for i in range(4)]
    assert [len(shard) for shard in shards] == [10] * 4
    assert list(itertools.chain(*shards)) == names[:40]
    assert [e["filename"] for i in range(42) for e in RecordDataset(records, shard=(i, 42))] == names
    for shard in ((4, 4), (-1, 4), (0, 0), (0, 43)):
        with pytest.raises(ValueError, match="shard="):
            RecordDataset(records, shard=shard)


def test_samplers_of_pytorch_share_it_out(records, names):
    dataset = RecordDataset(records)
    samplers = [DistributedSampler(dataset, num_replicas=2, rank=rank, seed=1) for rank in range(2)]
    assert sorted(itertools.chain(*(flat(DataLoader(dataset, BATCH, sampler=one)) for one in samplers))) == sorted(
        names
    )


def test_a_shuffled_stream_is_the_same_for_every_number_of_workers(records, names):
    def batches(workers: int, epoch: int = 0, seed: int = 0, **options) -> list[list[bytes]]:
        stream = RecordStream(records, batch_size=BATCH, shuffle=True, seed=seed)
        stream.set_epoch(epoch)
        return names_of(DataLoader(stream, BATCH, num_workers=workers, **options))

    first = batches(0)
    assert sorted(itertools.chain(*first)) == sorted(names)
    assert batches(1) == batches(2) == batches(3) == batches(2, multiprocessing_context="spawn") == first
    assert len({str(batches(0, *one)) for one in ((0, 0), (1, 0), (0, 1), (1, 1))}) == 4


def test_persistent_workers_follow_the_epoch(records, names):
    stream = RecordStream(records, batch_size=BATCH, shuffle=True)
    loader = DataLoader(stream, BATCH, num_workers=2, persistent_workers=True)
    epochs = []
    for epoch in (0, 1, 0):
        stream.set_epoch(epoch)
        epochs.append(flat(loader))
        assert sorted(epochs[-1]) == sorted(names)
    assert epochs[0] == epochs[2] != epochs[1]


@WORKERS
def test_shards_of_a_stream_have_the_same_length_and_share_nothing(records, names, workers):
    left_out = set()
    for epoch in range(3):
        seen = []
        for number in range(4):
            stream = RecordStream(records, batch_size=BATCH, shuffle=True, shard=(number, 4))
            stream.set_epoch(epoch)
            assert len(stream) == 10
            seen.append(flat(DataLoader(stream, BATCH, num_workers=workers)))
        assert [len(one) for one in seen] == [10] * 4
        assert len(set(itertools.chain(*seen))) == 40
        left_out.add(frozenset(names) - set(itertools.chain(*seen)))
    assert len(left_out) == 3


@pytest.mark.parametrize("number", range(200))
def test_a_stream_goes_on_from_how_many_were_had(records, number):
    chance = random.Random(number)
    epoch, batch, shards = chance.randrange(3), chance.randint(1, 9), chance.randint(1, 3)
    shuffle, shard = chance.random() < 0.8, (chance.randrange(shards), shards)

    def make():
        return RecordStream(records, batch_size=batch, shuffle=shuffle, seed=5, shard=shard)

    def read(stream, workers: int):
        return DataLoader(stream, batch, num_workers=workers)

    stream = make()
    stream.set_epoch(epoch)
    expected = names_of(read(stream, 0))
    loader, had = iter(read(stream, chance.randrange(3))), chance.randrange(len(expected) + 1)
    for _ in range(had):
        next(loader)
    state = json.loads(json.dumps(stream.state_dict(examples=min(had * batch, len(stream)))))
    again, workers = make(), chance.randrange(4)
    again.load_state_dict(state)
    assert again.epoch == epoch
    again.set_epoch(epoch)
    assert names_of(read(again, workers)) == expected[had:]
    # The epoch after it is a whole one.
    again.set_epoch(epoch + 1)
    assert len(flat(read(again, workers))) == len(stream)


def test_a_stream_of_a_mixture_goes_on_from_its_state(records):
    mixed = mix([(records.filter(label="cat"), 0.5), (records, 0.5)], seed=1)
    shards = [RecordDataset(mixed, shard=(number, 2)) for number in range(2)]
    expected = [example["filename"] for example in mixed]
    assert [e["filename"] for shard in shards for e in shard] == expected[: len(expected) // 2 * 2]

    def stream(of):
        return RecordStream(of, batch_size=BATCH, shuffle=True, seed=2)

    shuffled = names_of(DataLoader(stream(mixed), BATCH))
    assert sorted(itertools.chain(*shuffled)) == sorted(expected)
    again = stream(mixed)
    again.load_state_dict(stream(mixed).state_dict(examples=3 * BATCH))
    assert names_of(DataLoader(again, BATCH, num_workers=2)) == shuffled[3:]
    with pytest.raises(ValueError, match="the state belongs to"):
        stream(mix([(records, 0.5), (records, 0.5)])).load_state_dict(stream(mixed).state_dict())


def test_arguments_that_are_none_are_refused(records):
    for arguments, error in (
        ({"batch_size": 0}, ValueError),
        ({"batch_size": "8"}, TypeError),
        ({"transform": 3}, TypeError),
        ({"shard": (2, 2)}, ValueError),
        ({"image_size": 8, "resize_mode": "squeeze"}, ValueError),
    ):
        with pytest.raises(error):
            RecordStream(records, **arguments)
    with pytest.raises(TypeError, match="transform=3"):
        RecordDataset(records, transform=3)


def test_a_stream_without_a_loader_knows_where_it_is(records):
    stream = RecordStream(records, batch_size=BATCH, shuffle=True)
    expected = [example["filename"] for example in stream]
    examples = iter(stream)
    for _ in range(7):
        next(examples)
    again = RecordStream(records, batch_size=BATCH, shuffle=True)
    again.load_state_dict(stream.state_dict())
    rest = iter(again)
    next(rest)
    last = RecordStream(records, batch_size=BATCH, shuffle=True)
    last.load_state_dict(again.state_dict())
    assert [example["filename"] for example in last] == expected[8:]


@pytest.mark.parametrize("kind", [RecordStream, RecordDataset])
@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False), (2, True)])
@pytest.mark.parametrize("had", [1, 4, 10])
def test_a_stateful_loader_goes_on_in_mid_epoch(records, kind, workers, persistent, had):
    def make():
        torch.manual_seed(0)
        options = {"num_workers": workers, "persistent_workers": persistent, "shuffle": kind is RecordDataset or None}
        dataset = (
            RecordDataset(records) if kind is RecordDataset else RecordStream(records, batch_size=BATCH, shuffle=True)
        )
        return StatefulDataLoader(dataset, BATCH, **options)

    loader = make()
    batches = iter(loader)
    for _ in range(had):
        next(batches)
    state = loader.state_dict()
    rest = names_of(batches)
    assert len(rest) == 11 - had
    again = make()
    again.load_state_dict(state)
    assert names_of(again) == rest


def test_a_state_of_other_records_is_refused(records):
    state = RecordStream(records, shuffle=True).state_dict()
    RecordStream(records, shuffle=True, batch_size=9).load_state_dict(state)
    others = (
        RecordStream(records[1:], shuffle=True),
        RecordStream(records, shuffle=True, seed=1),
        RecordStream(records),
        RecordStream(records, shuffle=True, shard=(0, 2)),
    )
    for other in others:
        with pytest.raises(ValueError, match="the state belongs to"):
            other.load_state_dict(state)


def test_numbers_of_numpy_and_json_choose_the_same_order(records):
    plain = RecordStream(records, shuffle=True, seed=3, shard=(1, 2))
    other = RecordStream(records, shuffle=np.True_, seed=np.int64(3), shard=[np.int64(1), 2])
    other.load_state_dict(plain.state_dict())
    assert [example["filename"] for example in other] == [example["filename"] for example in plain]


def test_the_passages_of_the_documentation_run(tmp_path, photos, build):
    training, streaming = (
        one.text for one in passages_of(PROJECT / "docs" / "python.md") if "beam_tfrecords.torch" in one.text
    )
    build(tmp_path / "out" / "photos", f"--input={photos}", "--image_size=64")
    ends = {
        training: "assert images.shape[1:] == (3, 64, 64)",
        streaming: "assert images.shape[1:] == (3, 64, 64) and (state['epoch'], state['begin']) == (1, 24)",
    }
    for code, end in ends.items():
        # In processes of their own, as `torch.optim` imports a compiler that ends one in which TensorFlow is imported.
        subprocess.run([sys.executable, "-c", f"{code}\n{end}"], check=True, cwd=tmp_path)


def test_the_recipe_for_augmentation_runs(tmp_path, photos, build):
    pytest.importorskip("torchvision")
    (code,) = (one.text for one in passages_of(PROJECT / "docs" / "recipes.md") if "torchvision" in one.text)
    build(tmp_path / "out" / "photos", f"--input={photos}", "--image_size=64")
    end = "assert images.shape == (8, 3, 56, 56) and images.dtype == torch.float32 and labels.dtype == torch.int64"
    subprocess.run([sys.executable, "-c", f"{code}\n{end}"], check=True, cwd=tmp_path)


def test_a_transform_gets_a_plain_pair_and_its_pairs_make_batches(records):
    got = []

    def keep(pair):
        got.append(type(pair))
        return pair

    images, labels = default_collate(
        [*map(RecordDataset(records, as_supervised=True, transform=keep).__getitem__, (0, 1))]
    )
    assert (images.shape, labels.shape, set(got)) == ((2, 3, 32, 32), (2,), {tuple})


def test_the_tutorial_trains_a_model(tmp_path, photos, build):
    (training,) = (one.text for one in passages_of(PROJECT / "docs" / "tutorial.md") if "import torch" in one.text)
    build(tmp_path / "data", f"--input={photos}", "--image_size=128", "--resize_mode=crop")
    ran = subprocess.run([sys.executable, "-c", training], check=True, cwd=tmp_path, capture_output=True, text=True)
    first, *_, last = (float(line.rpartition(" ")[2]) for line in ran.stdout.splitlines())
    assert last < first / 2
    assert (tmp_path / "model.pt").is_file()


def test_the_package_is_imported_without_torch_and_grain():
    code = "import sys, beam_tfrecords.reading.records; assert not {'torch', 'grain', 'tensorflow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PROJECT)


@pytest.mark.parametrize("encoding", ["jpeg", "png"])
@pytest.mark.parametrize("make", [RecordDataset, RecordStream])
def test_pairs_are_tensors_of_one_size(tmp_path, photos, build, encoding, make):
    flags = ("--image_size=40", f"--image_encoding={encoding}")
    records = open_dataset(build(tmp_path / "out", f"--input={photos}", *flags)).records("train")
    dataset = make(records, image_size=(24, 32), resize_mode="crop", as_supervised=True)
    images, labels = next(iter(DataLoader(dataset, batch_size=8)))
    assert (images.shape, images.dtype, labels.dtype) == ((8, 3, 24, 32), torch.uint8, torch.int64)
    assert images.is_contiguous()
    assert all(image.is_contiguous() for image, _ in (dataset if make is RecordStream else [dataset[0]]))


def test_masks_are_numbers_of_classes(tmp_path, build):
    for name in "ab":
        for folder, pixels in (("images", np.zeros((30, 40, 3))), ("masks", np.full((30, 40), 255))):
            (tmp_path / folder).mkdir(exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / folder / f"{name}.png")
    words = (f"--input={tmp_path / 'images'}", f"--mask_root={tmp_path / 'masks'}", "--layout=segmentation")
    records = open_dataset(build(tmp_path / "out", *words)).records("train")
    (batch,) = DataLoader(RecordDataset(records, image_size=16, resize_mode="crop", as_supervised=True), batch_size=2)
    images, masks = batch
    assert (images.shape, masks.shape, masks.dtype) == ((2, 3, 16, 16), (2, 16, 16), torch.int64)
    assert masks.unique().tolist() == [255]


def test_what_has_no_label_makes_no_pair(tmp_path, photos, build):
    records = open_dataset(build(tmp_path / "out", f"--input={photos}", "--layout=image")).records("train")
    with pytest.raises(ValueError, match="an image and a label among the features; found filename, image"):
        RecordDataset(records, as_supervised=True)


def test_a_stream_needs_no_shared_memory(folder, names):
    script = 'mount -t tmpfs -o ro tmpfs /dev/shm && exec "$@"'
    prefix = ["unshare", "--mount", "sh", "-c", script, "sh"]
    if shutil.which("unshare") is None or subprocess.run([*prefix, "true"], check=False).returncode:
        pytest.skip("needs to mount a disk: root and unshare")
    code = """
import sys
from torch.utils.data import DataLoader
from beam_tfrecords import open_dataset
from beam_tfrecords.torch import RecordStream
stream = RecordStream(open_dataset(sys.argv[1]).records("train"), batch_size=4)
stream.load_state_dict(stream.state_dict(examples=8))
print(*(name for batch in DataLoader(stream, 4) for name in batch["filename"]), sep="\\n")
"""
    command = [*prefix, sys.executable, "-c", code, str(folder)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert ran.stdout.splitlines() == names[8:]
