"""Reads a dataset as one reader does, and says how long an epoch took.

    python benchmarks/peers/epochs.py make READER FOLDER      the reader's own files, from FOLDER/files
    python benchmarks/peers/epochs.py read READER FOLDER      a line of JSON: images and seconds of the second epoch

All give shuffled batches of 64 with decoded pixels, [C, H, W] uint8, by two processes where the reader has processes.
In the first epoch processes start and libraries are loaded; the second one is measured.
"""

from __future__ import annotations

import json
import multiprocessing
import pathlib
import random
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

_BATCH = 64
_WORKERS = 2


def read_tf_data(folder: pathlib.Path) -> Iterable[int]:
    """What a hand-tuned pipeline is: parallel, not deterministic, shuffled before decoding, without autotune."""
    import tensorflow as tf

    def parse(record: Any) -> Any:
        features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
        example = tf.io.parse_single_example(record, features)
        image = tf.io.decode_jpeg(example["image"], channels=3, dct_method="INTEGER_FAST")
        return tf.transpose(image, [2, 0, 1]), example["label"]

    files = tf.data.Dataset.list_files(f"{folder}/records/*.tfrecord-*", shuffle=True)
    records = files.interleave(
        tf.data.TFRecordDataset, cycle_length=16, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    ).shuffle(8000)
    examples = records.map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
    options = tf.data.Options()
    options.autotune.enabled = False
    batches = examples.batch(_BATCH).prefetch(tf.data.AUTOTUNE).with_options(options)
    return (len(labels) for _ in range(2) for _, labels in batches)


def read_load(folder: pathlib.Path) -> Iterable[int]:
    """`load`, with [C, H, W] by its transform."""
    import tensorflow as tf

    from beam_tfrecords import load

    def transpose(example: Any) -> Any:
        return tf.transpose(example["image"], [2, 0, 1]), example["label"]

    batches = load(folder / "records", "train", batch_size=_BATCH, shuffle=True, transform=transpose)
    return (len(labels) for _ in range(2) for _, labels in batches)


def _read_numbers(folder: pathlib.Path, own: int, barrier: Any) -> None:
    import numpy as np

    from beam_tfrecords import open_dataset

    records = open_dataset(folder / "records").records("train")
    numbers = random.Random(0).sample(range(len(records)), len(records))[own::_WORKERS]
    for _ in range(2):
        for number in numbers:
            np.ascontiguousarray(records[number]["image"].transpose(2, 0, 1))
        barrier.wait()


def read_numbers(folder: pathlib.Path) -> Iterable[int]:
    """`records[i]` in a shuffled order, from two processes."""
    from beam_tfrecords import open_dataset

    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(_WORKERS + 1)
    processes = [context.Process(target=_read_numbers, args=(folder, own, barrier)) for own in range(_WORKERS)]
    for process in processes:
        process.start()
    for _ in range(2):
        barrier.wait()
        yield len(open_dataset(folder / "records").records("train"))
    for process in processes:
        process.join()


def _load_torch(dataset: Any, **options: Any) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(dataset, _BATCH, num_workers=_WORKERS, persistent_workers=True, **options)


def read_torch(folder: pathlib.Path) -> Iterable[int]:
    """`RecordDataset`."""
    from beam_tfrecords import open_dataset
    from beam_tfrecords.torch import RecordDataset

    dataset = RecordDataset(open_dataset(folder / "records").records("train"), as_supervised=True)
    loader = _load_torch(dataset, shuffle=True)
    return (len(labels) for _ in range(2) for _, labels in loader)


def read_torch_stream(folder: pathlib.Path) -> Iterable[int]:
    """`RecordStream`."""
    from beam_tfrecords import open_dataset
    from beam_tfrecords.torch import RecordStream

    records = open_dataset(folder / "records").records("train")
    stream = RecordStream(records, batch_size=_BATCH, shuffle=True, as_supervised=True)
    loader = _load_torch(stream)
    for epoch in range(2):
        stream.set_epoch(epoch)
        yield from (len(labels) for _, labels in loader)


def read_grain(folder: pathlib.Path) -> Iterable[int]:
    """`RecordSource`."""
    import grain

    from beam_tfrecords import open_dataset
    from beam_tfrecords.grain import RecordSource

    source = RecordSource(open_dataset(folder / "records").records("train"), as_supervised=True)
    pairs = grain.MapDataset.source(source).shuffle(seed=0).repeat(2)
    batches = pairs.map(lambda pair: (pair[0].transpose(2, 0, 1), pair[1])).batch(_BATCH)
    # As PyTorch's loader; Grain itself would read 500 batches ahead, the measured epoch during the first.
    ahead = grain.ReadOptions(num_threads=1, prefetch_buffer_size=2)
    processes = grain.MultiprocessingOptions(num_workers=_WORKERS)
    return (len(labels) for _, labels in batches.to_iter_dataset(ahead).mp_prefetch(processes))


def read_image_folder(folder: pathlib.Path) -> Iterable[int]:
    """ImageFolder of torchvision, of the same JPEGs as files."""
    from torchvision import datasets, transforms  # type: ignore[import-not-found, unused-ignore]

    loader = _load_torch(datasets.ImageFolder(folder / "files", transforms.PILToTensor()), shuffle=True)
    return (len(labels) for _ in range(2) for _, labels in loader)


def _files(folder: pathlib.Path) -> list[tuple[pathlib.Path, int]]:
    classes = sorted(path.name for path in (folder / "files").iterdir())
    return [(path, classes.index(path.parent.name)) for path in sorted((folder / "files").glob("*/*.jpg"))]


def _sample_of(file: tuple[str, int]) -> dict[str, Any]:
    from PIL import Image

    # It stores the file of such an image as it is.
    return {"image": Image.open(file[0]), "label": file[1]}


def make_litdata(folder: pathlib.Path) -> None:
    """The files of litData, of the same JPEGs."""
    import litdata  # type: ignore[import-not-found, unused-ignore]

    inputs = [(str(path), label) for path, label in _files(folder)]
    litdata.optimize(
        fn=_sample_of, inputs=inputs, output_dir=str(folder / "litdata"), chunk_bytes="64MB", num_workers=1
    )


def read_litdata(folder: pathlib.Path) -> Iterable[int]:
    """StreamingDataset of litData, which decodes by torchvision."""
    import litdata

    dataset = litdata.StreamingDataset(str(folder / "litdata"), shuffle=True)
    loader = litdata.StreamingDataLoader(dataset, batch_size=_BATCH, num_workers=_WORKERS, persistent_workers=True)
    return (len(batch["label"]) for _ in range(2) for batch in loader)


def make_streaming(folder: pathlib.Path) -> None:
    """The files of MosaicML Streaming, of the same JPEGs."""
    from PIL import Image
    from streaming import MDSWriter  # type: ignore[import-not-found, unused-ignore]

    with MDSWriter(out=str(folder / "streaming"), columns={"image": "jpeg", "label": "int"}) as writer:
        for path, label in _files(folder):
            # It stores the file of such an image as it is.
            writer.write({"image": Image.open(path), "label": label})


def read_streaming(folder: pathlib.Path) -> Iterable[int]:
    """StreamingDataset of MosaicML; it gives Pillow's images."""
    import streaming
    from torchvision import transforms

    to_tensor = transforms.PILToTensor()

    class Dataset(streaming.StreamingDataset):  # type: ignore[misc, unused-ignore]
        def __getitem__(self, at: int) -> Any:
            sample = super().__getitem__(at)
            return to_tensor(sample["image"]), sample["label"]

    # One loader, so that its workers are there in the second epoch.
    loader = _load_torch(Dataset(local=str(folder / "streaming"), shuffle=True, batch_size=_BATCH))
    return (len(labels) for _ in range(2) for _, labels in loader)


READERS: dict[str, Callable[[pathlib.Path], Iterable[int]]] = {
    name.removeprefix("read_"): function for name, function in list(globals().items()) if name.startswith("read_")
}


def main() -> None:
    """Makes or reads."""
    what, name, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    if what == "make":
        globals()[f"make_{name}"](folder)
        return
    count = len(_files(folder))
    sizes = iter(READERS[name](folder))
    first = 0
    while first < count:
        first += next(sizes)
    begin = time.monotonic()
    second = sum(sizes) + first - count
    print(json.dumps({"images": second, "seconds": time.monotonic() - begin}))


if __name__ == "__main__":
    main()
