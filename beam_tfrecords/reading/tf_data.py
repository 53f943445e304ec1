"""Reads a dataset with tf.data, with the features that its metadata describes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

try:
    import tensorflow as tf
except ImportError as error:
    raise ImportError(
        "reading with tf.data needs TensorFlow: pip install '.[tensorflow]' in a clone of beam-tfrecords"
    ) from error

from beam_tfrecords.output.manifest import Shard
from beam_tfrecords.reading.dataset import CACHE_SIZE, Dataset
from beam_tfrecords.reading.mixing import MixOrder, Mixture
from beam_tfrecords.reading.opening import open_dataset
from beam_tfrecords.reading.resizing import ImageSize, Resize, ResizeMode
from beam_tfrecords.reading.split_ranges import cut
from beam_tfrecords.reading.tf_examples import ExampleReader
from beam_tfrecords.reading.tf_shards import Share, read_share

# Size of the shuffle buffer in bytes of records, with `shuffle=True`.
_SHUFFLE_BYTES = 256_000_000


def load(
    path: str | os.PathLike[str] | Dataset | Mixture,
    split: str,
    *,
    batch_size: int | None = None,
    shuffle: bool | int = False,
    seed: int | None = None,
    decode: bool = True,
    image_size: ImageSize = None,
    resize_mode: ResizeMode | None = None,
    channels: int | None = None,
    transform: Callable[[dict[str, Any]], Any] | None = None,
    drop_remainder: bool = False,
    as_supervised: bool = False,
    multi_hot: bool = False,
    num_objects: int | None = None,
    num_readers: int = 1,
    reader_index: int = 0,
    cache: str | os.PathLike[str] | None = None,
    cache_size: int | str = CACHE_SIZE,
) -> tf.data.Dataset:
    """Reads one split of a dataset: parsed, decoded, shuffled, batched, prefetched.

        >>> train = load("out/", "train", batch_size=4, image_size=8, as_supervised=True)
        >>> images, labels = next(iter(train))
        >>> images.shape
        TensorShape([4, 8, 8, 3])

    The result knows its cardinality, so Keras knows the steps per epoch. Features with any number of values, such as
    the labels of a multi-label dataset or the boxes of objects, are ragged in a batch. Autotune is off.

    `tf.train.Checkpoint(iterator=iter(...))` saves and restores the state of an iterator, also within an epoch: without
    a shuffle, or with a `seed`, the restored iterator yields the same batches.

    Args:
      path: folder of the dataset, or the dataset itself; or a mixture from `mix`.
      split: name of the split, or an expression: "train[:80%]", "train[100:]", "train[:10%]+validation", "all".
      batch_size: examples per batch; None for single examples.
      shuffle: size of the shuffle buffer in examples, which several shards fill in turn; True for 256 MB of records;
        False or 0 for the order of the dataset, which the build shuffled and `Dataset.records` uses.
      seed: seed of the shuffle; with a seed, every run has the same order.
      decode: decodes images to [H, W, C] uint8 tensors, or uint16 if they are stored with 16 bits; masks to [H, W, 1];
        masks of objects to [n, H, W] uint8 of zeros and ones; and a list of images to [n, H, W, C]. False leaves the
        stored bytes.
      image_size: (height, width) of decoded images in pixels, or one number for both. Masks, boxes and keypoints
        follow; objects outside the image are dropped.
      resize_mode: how images are resized: "crop" (fits the shorter side and crops the centre), "pad" (fits the whole
        image on a black canvas), "exact" (ignores the aspect ratio), "shorter" or "longer" (fits that side; such images
        cannot be batched if their sizes differ). None crops, and logs a warning.
      channels: channels of decoded images: 1, 3 or 4, or 0 for the channels of each file. None uses the channels of
        the build, or 3 if the build kept those of each file. Raw pixels have the channels they were stored with.
      transform: applied to every example, a dict of tensors by feature name, before batching.
      drop_remainder: drops a last batch that is not full.
      as_supervised: returns (image, label), or (image, mask), instead of a dict.
      multi_hot: returns the labels of a multi-label dataset as a [number of classes] float32 tensor of zeros and ones.
      num_objects: returns this number of annotated objects per image, so that they are not ragged. Pads numbers with
        -1, text with "" and masks with 0, and drops further objects; keypoints stay unchanged. None keeps all objects.
      num_readers: number of readers that share the split. Each reads a contiguous range of the same size; no reader
        reads the last `records % num_readers` records.
      reader_index: number of this reader, from 0.
      cache: local folder that keeps data read from a bucket, as in `open_dataset`.
      cache_size: size limit of the cache, as in `open_dataset`: bytes, or text such as "50GB".

    Raises:
      RequestError: the dataset or the split does not exist.
      ValueError: an argument does not fit the dataset, or images of different sizes would be batched.
    """
    mixture = path if isinstance(path, Mixture) else None
    if not isinstance(path, str | os.PathLike | Dataset | Mixture):
        raise TypeError(f"load: found {path!r}; expected a dataset or its folder, and a split: load('out/', 'train')")
    given = path.datasets if isinstance(path, Mixture) else [path if isinstance(path, Dataset) else open_dataset(path)]
    datasets = [dataset.with_cache(cache, cache_size) for dataset in given]
    reads = [
        ExampleReader.of(
            dataset,
            class_names=mixture.class_names if mixture else dataset.class_names,
            decodes=decode and dataset.layout.needs_image,
            resize=Resize.of(image_size, resize_mode, dataset.images),
            channels=channels,
            transform=transform,
            as_supervised=as_supervised,
            multi_hot=multi_hot,
            num_objects=num_objects,
        )
        for dataset in datasets
    ]
    if batch_size is not None:
        _check_batches(reads, batch_size)
    shares = [_share_records(one, split, num_readers=num_readers, reader_index=reader_index) for one in datasets]
    parts = [
        _read_part(read, share, shuffle=shuffle, seed=seed, repeats=mixture is not None)
        for read, share in zip(reads, shares, strict=True)
    ]
    examples = parts[0]
    if mixture:
        examples = _mix(parts, MixOrder([sum(takes) for _, _, takes in shares], mixture.weights, mixture.seed))
    if batch_size:
        batch = examples.ragged_batch if reads[0].is_ragged else examples.batch
        examples = batch(batch_size, drop_remainder=drop_remainder)
    # Autotune's thread sleeps, and the iterator waits for it at the end of every other epoch, for up to a second.
    options = tf.data.Options()
    options.autotune.enabled = False
    # The Python functions that check shards and send requests have no state that a checkpoint would need.
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    return examples.prefetch(tf.data.AUTOTUNE).with_options(options)


def _check_batches(reads: Sequence[ExampleReader], batch_size: int) -> None:
    for read in reads:
        read.check_batches(batch_size)
    sizes = {read.size for read in reads if read.decodes and not read.transform}
    if len(sizes) > 1:
        raise ValueError(f"images of the datasets have different sizes: {sizes}; pass image_size=, such as 224")


# Our Python conditions never depend on a tensor; autograph's search for some took 1.5 s of the first `load`.
@tf.autograph.experimental.do_not_convert
def _read_part(
    read: ExampleReader, share: Share, *, shuffle: bool | int, seed: int | None, repeats: bool
) -> tf.data.Dataset:
    """Returns the examples of a dataset."""
    # Without a seed, the order of a shuffle may also depend on which shard answers first.
    deterministic = not shuffle or seed is not None
    records = read_share(read.dataset, share, interleaved=bool(shuffle), deterministic=deterministic)
    if shuffle:
        # Shuffle before decoding: encoded images need a tenth of the buffer memory of pixels.
        buffer = _buffer_size(read.dataset.shards, share) if shuffle is True else shuffle
        records = records.shuffle(buffer, seed=seed)
    if repeats:
        records = records.repeat()
    return records.map(read, num_parallel_calls=os.cpu_count(), deterministic=deterministic)


def _mix(parts: Sequence[tf.data.Dataset], order: MixOrder) -> tf.data.Dataset:
    """Returns one epoch of the endless examples of several datasets."""
    which = tf.data.Dataset.from_tensor_slices(order.pattern).repeat().take(len(order))
    mixed = tf.data.Dataset.choose_from_datasets(list(parts), which, stop_on_empty_dataset=False)
    return mixed.apply(tf.data.experimental.assert_cardinality(len(order)))


def _buffer_size(shards: Sequence[Shard], share: Share) -> int:
    """Returns the number of records in a shuffle buffer of `_SHUFFLE_BYTES`, at most those of the reader."""
    average = sum(shard.bytes for shard in shards) / max(1, sum(shard.records for shard in shards))
    return max(1, min(sum(share[2]), int(_SHUFFLE_BYTES // max(1, average))))


def _share_records(dataset: Dataset, split: str, *, num_readers: int, reader_index: int) -> Share:
    """Returns the share of a reader."""
    if not 0 <= reader_index < num_readers:
        raise ValueError(f"reader_index={reader_index}: expected 0 or more, and less than num_readers={num_readers}")
    ranges = dataset.find_ranges(split)
    records = sum(one.end - one.begin for one in ranges)
    share = records // num_readers
    if not share and num_readers > 1:
        raise ValueError(f"num_readers={num_readers}: the split has {records} records; expected at least one for each")
    files, skips, takes = [], [], []
    for name, begin, end in cut(ranges, reader_index * share, (reader_index + 1) * share):
        first = 0
        for shard in dataset.split_shards(name):
            skip, stop = max(begin - first, 0), min(end - first, shard.records)
            if skip < stop:
                files.append(shard.file)
                skips.append(skip)
                takes.append(stop - skip)
            first += shard.records
    return files, skips, takes
