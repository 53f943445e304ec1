"""Reads a dataset with tf.data, with the features that its metadata describes.

TensorFlow can checkpoint the iterators of serialized examples exactly.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from beam_tfrecords.extras import install_hint
from beam_tfrecords.features.contents import Content

try:
    import tensorflow as tf
except ImportError as error:
    raise ImportError(f"reading with tf.data needs TensorFlow: {install_hint('tensorflow')}") from error

from beam_tfrecords import storage
from beam_tfrecords.dataset.dataset import StoredDataset
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.dataset.pointers import open_latest
from beam_tfrecords.dataset.published import replaced
from beam_tfrecords.dataset.split_ranges import cut
from beam_tfrecords.errors import RequestError
from beam_tfrecords.geometry.sizes import ImageSize, ResizeMode
from beam_tfrecords.reading.records import Records, open_records
from beam_tfrecords.reading.resizing import Resize
from beam_tfrecords.reading.tf_examples import ExampleReader

# Size of the shuffle buffer in bytes of records, with `shuffle=True`.
_SHUFFLE_BYTES = 256_000_000
# Records that are read together through the index, while the next group is read ahead: limits in bytes and in records.
_GROUP_BYTES = 8 << 20
_GROUP_RECORDS = 64

# The records that a reader reads, in order: path of a shard, its number, records to skip, records to take.
Share: TypeAlias = "list[tuple[str, int, int, int]]"
# A row of `Share` -> serialized examples
_ShardReader: TypeAlias = "Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], tf.data.Dataset]"


def load(
    path: str | os.PathLike[str] | StoredDataset | Records,
    split: str | None = None,
    *,
    batch_size: int | None = None,
    shuffle: bool | int = False,
    seed: int | None = None,
    decode: bool = True,
    image_size: ImageSize = None,
    resize_mode: ResizeMode | None = None,
    transform: Callable[[dict[str, Any]], Any] | None = None,
    drop_remainder: bool = False,
    as_supervised: bool = False,
    multi_hot: bool = False,
    num_objects: int | None = None,
    num_readers: int = 1,
    reader_index: int = 0,
) -> tf.data.Dataset:
    """Reads one split of a dataset: parsed, decoded, shuffled, batched, prefetched.

        >>> train = load("out/", "train", batch_size=4, image_size=8, resize_mode="crop", as_supervised=True)
        >>> images, labels = next(iter(train))
        >>> images.shape
        TensorShape([4, 8, 8, 3])

    The result knows its cardinality, so Keras knows the steps per epoch. Features with any number of values, such as
    the labels of a multi-label dataset or the boxes of objects, are ragged in a batch. Autotune is off.

    `tf.train.Checkpoint(iterator=iter(...))` saves and restores the state of an iterator, also within an epoch: without
    a shuffle, or with a `seed`, the restored iterator yields the same batches.

    Args:
      path: folder of the dataset, or the dataset itself; or records, which may be filtered or mixed. Records are read
        through the index.
      split: name of the split, or an expression: "train[:80%]", "train[100:]", "train[:10%]+validation", "all". None
        for records.
      batch_size: examples per batch; None for single examples.
      shuffle: size of the shuffle buffer in examples, which several shards fill in turn; True for 256 MB of records;
        False or 0 for the order of the dataset, which the build shuffled and `Dataset.records` uses.
      seed: seed of the shuffle; with a seed, every run has the same order.
      decode: decodes images to [H, W, C] uint8 tensors, or uint16 if they are stored with 16 bits, with the channels of
        the build, or 3 if it kept those of each file; masks to [H, W, 1]; masks of objects to [n, H, W] uint8 of zeros
        and ones; and a list of images to [n, H, W, C]. False leaves the stored bytes.
      image_size: (height, width) of decoded images in pixels, or one number for both; text as for a build, such as
        "224x160", too. Masks, boxes and keypoints follow; objects outside the image are dropped.
      resize_mode: how images are resized, as in a build: "crop" (fits the shorter side and crops the center), "pad"
        (fits the whole image on a black canvas), "exact" (ignores the aspect ratio), "shorter" or "longer" (fits that
        side; such images cannot be batched if their sizes differ). There is no default: None is only for stored images
        of one size with the aspect ratio of `image_size`.
      transform: applied to every example, a dict of tensors by feature name, before batching.
      drop_remainder: drops a last batch that is not full.
      as_supervised: returns (image, label), or (image, mask), instead of a dict.
      multi_hot: returns the labels of a multi-label dataset as a [number of classes] float32 tensor of zeros and ones.
      num_objects: returns this number of annotated objects per image, so that they are not ragged. Pads numbers with
        -1, text with "" and masks with 0, and drops further objects; keypoints and polygons stay unchanged. None keeps
        all objects.
      num_readers: number of readers that share the split. Each reads a contiguous range of the same size; no reader
        reads the last `records % num_readers` records.
      reader_index: number of this reader, from 0.

    With `tf.distribute`, each worker of an input pipeline takes its share of the examples; with `num_readers`, every
    reader keeps its own.

    Raises:
      RequestError: the dataset or the split does not exist.
      TypeError: an argument has another type.
      ValueError: an argument does not fit the dataset, or images of different sizes would be batched.
    """
    _check_numbers(batch_size=batch_size, seed=seed, num_objects=num_objects)
    _check_numbers(num_readers=num_readers, reader_index=reader_index, may_be_none=False)
    _check_switches(decode=decode, drop_remainder=drop_remainder, as_supervised=as_supervised, multi_hot=multi_hot)
    if not isinstance(shuffle, bool):
        _check_numbers(shuffle=shuffle, may_be_none=False)
    if not (transform is None or callable(transform)):
        raise TypeError(f"transform={transform!r}: found {type(transform).__name__}; expected a function of an example")
    if shuffle < 0:
        raise ValueError(f"shuffle={shuffle}: expected the size of a buffer in examples, True or False")
    if drop_remainder and batch_size is None:
        raise ValueError("drop_remainder=True: there are no batches; expected a batch_size with it")
    given = _open(path, split)
    stored: Sequence[Records | StoredDataset] = given.sources if isinstance(given, Records) else [given]
    reads = [
        ExampleReader.of(
            one,
            class_names=given.class_names,
            decodes=decode and Content.IMAGE in one.layout.required and getattr(one, "has_pixels", True),
            resize=Resize.of(image_size, resize_mode, one.images) or (one.resize if isinstance(one, Records) else None),
            transform=transform,
            as_supervised=as_supervised,
            multi_hot=multi_hot,
            num_objects=num_objects,
        )
        for one in stored
    ]
    if image_size is not None and not any(read.decodes for read in reads):
        raise ValueError(f"image_size={image_size!r}: no image is decoded, so it has no effect; leave it out")
    if batch_size is not None:
        _check_batches(reads, batch_size)
    if isinstance(given, Records):
        begin, end = _share_of(len(given), num_readers=num_readers, reader_index=reader_index)
        examples = _read_records(given, reads, begin, end, shuffle=shuffle, seed=seed)
    else:
        assert split is not None
        share = _share_records(given, split, num_readers=num_readers, reader_index=reader_index)
        examples = _read_shards(given, reads[0], share, shuffle=shuffle, seed=seed)
    if batch_size:
        batch = examples.ragged_batch if reads[0].is_ragged else examples.batch
        examples = batch(batch_size, drop_remainder=drop_remainder)
    # Autotune's thread sleeps, and the iterator waits for it at the end of every other epoch, for up to a second.
    options = tf.data.Options()
    options.autotune.enabled = False
    # The Python functions that check shards and send requests have no state that a checkpoint would need.
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    # By files, workers of `tf.distribute` would lose records. Readers have their shares already.
    policy = tf.data.experimental.AutoShardPolicy
    options.experimental_distribute.auto_shard_policy = policy.OFF if num_readers > 1 else policy.DATA
    return examples.prefetch(tf.data.AUTOTUNE).with_options(options)


def _open(path: str | os.PathLike[str] | StoredDataset | Records, split: str | None) -> StoredDataset | Records:
    """Opens what `load` reads."""
    if not isinstance(path, str | os.PathLike | StoredDataset | Records):
        raise TypeError(f"load: found {path!r}; expected a dataset or its folder, and a split: load('out/', 'train')")
    if isinstance(path, Records):
        if split is not None:
            raise ValueError(f"load: {path!r} are records of a split already; leave the split {split!r} out")
        return path
    opened = path if isinstance(path, StoredDataset) else open_latest(path)
    if split is None:
        sizes = opened.splits
        raise RequestError(
            f"load: found no split; expected one of {', '.join(sizes)}, 'all', or an expression such as "
            f"'{max(sizes, key=lambda name: sizes[name])}[:80%]'",
            code="missing_split",
        )
    return opened


def _check_numbers(*, may_be_none: bool = True, **arguments: object) -> None:
    for name, value in arguments.items():
        is_number = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not is_number and not (value is None and may_be_none):
            raise TypeError(f"{name}={value!r}: found {type(value).__name__}; expected a whole number")


def _check_switches(**arguments: object) -> None:
    for name, value in arguments.items():
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"{name}={value!r}: found {type(value).__name__}; expected True or False")


def _check_batches(reads: Sequence[ExampleReader], batch_size: int) -> None:
    for read in reads:
        read.check_batches(batch_size)
    sizes = {read.size for read in reads if read.decodes and not read.transform}
    if len(sizes) > 1:
        raise ValueError(
            f"images of the datasets have different sizes: {sizes}; pass image_size= and "
            "resize_mode=, such as image_size=224, resize_mode='crop'"
        )


# Our Python conditions never depend on a tensor; autograph's search for some took 1.5 s of the first `load`.
@tf.autograph.experimental.do_not_convert
def _read_shards(
    dataset: StoredDataset, read: ExampleReader, share: Share, *, shuffle: bool | int, seed: int | None
) -> tf.data.Dataset:
    """Returns the examples of a share of a dataset."""
    # Without a seed, the order of a shuffle may also depend on which shard answers first.
    deterministic = not shuffle or seed is not None
    records = read_share(dataset, share, interleaved=bool(shuffle), deterministic=deterministic)
    records = _shuffle(records, [dataset.shards], _count(share), shuffle=shuffle, seed=seed)
    return records.map(read, num_parallel_calls=os.cpu_count(), deterministic=deterministic)


@tf.autograph.experimental.do_not_convert
def _read_records(
    records: Records, reads: Sequence[ExampleReader], begin: int, end: int, *, shuffle: bool | int, seed: int | None
) -> tf.data.Dataset:
    """Returns a range of records, each read by the reader of its source."""
    shards = [source.shards for source in records.sources]
    examples = _shuffle(read_numbers(records, begin, end), shards, end - begin, shuffle=shuffle, seed=seed)
    different = [read for number, read in enumerate(reads) if read not in reads[:number]]
    reader_of = tf.constant([different.index(read) for read in reads], tf.int32)

    def read_example(source: tf.Tensor, record: tf.Tensor) -> Any:
        if len(different) == 1:
            return different[0](record)
        return tf.switch_case(reader_of[source], [functools.partial(read, record) for read in different])

    deterministic = not shuffle or seed is not None
    return examples.map(read_example, num_parallel_calls=os.cpu_count(), deterministic=deterministic)


def _shuffle(
    examples: tf.data.Dataset, shards: Sequence[Sequence[Shard]], records: int, *, shuffle: bool | int, seed: int | None
) -> tf.data.Dataset:
    """Shuffles serialized examples, because a buffer of decoded ones needs ten times the memory.

    Args:
      examples: the examples of a reader.
      shards: the shards of each dataset that they come from.
      records: number of the examples.
      shuffle: as in `load`.
      seed: as in `load`.
    """
    if not shuffle:
        return examples
    if isinstance(shuffle, bool):
        shuffle = max(1, min(records, int(_SHUFFLE_BYTES // max(1, mean_record(shards)))))
    return examples.shuffle(shuffle, seed=seed)


def _share_of(records: int, *, num_readers: int, reader_index: int) -> tuple[int, int]:
    """Returns the first record of a reader, and the one after its last."""
    if not 0 <= reader_index < num_readers:
        raise ValueError(f"reader_index={reader_index}: expected 0 or more, and less than num_readers={num_readers}")
    share = records // num_readers
    if not share and num_readers > 1:
        raise ValueError(f"num_readers={num_readers}: there are {records} records; expected at least one for each")
    return reader_index * share, (reader_index + 1) * share


def _share_records(dataset: StoredDataset, split: str, *, num_readers: int, reader_index: int) -> Share:
    """Returns the share of a reader."""
    ranges = dataset.find_ranges(split)
    starts = dataset.split_starts
    records = sum(one.end - one.begin for one in ranges)
    share = _share_of(records, num_readers=num_readers, reader_index=reader_index)
    found: Share = []
    for name, begin, end in cut(ranges, *share):
        first = 0
        for number, shard in enumerate(dataset.split_shards(name), starts[name]):
            skip, stop = max(begin - first, 0), min(end - first, shard.records)
            if skip < stop:
                found.append((storage.join(dataset.path, shard.file), number, skip, stop - skip))
            first += shard.records
    return found


def _count(share: Share) -> int:
    return sum(take for *_, take in share)


def read_share(dataset: StoredDataset, share: Share, *, interleaved: bool, deterministic: bool) -> tf.data.Dataset:
    """Returns the serialized examples of a reader; reads several shards at once if they are interleaved."""
    # A split of a published dataset may be empty.
    paths, *numbers = zip(*share, strict=True) if share else [()] * 4
    columns = tf.constant(paths, tf.string), *(tf.constant(column, tf.int64) for column in numbers)
    shards = tf.data.Dataset.from_tensor_slices(columns)
    records = shards.interleave(
        _index_reader(dataset) if storage.has_scheme(dataset.path) else _file_reader(dataset),
        cycle_length=max(1, min(len(paths), 16)) if interleaved else 1,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=deterministic,
    )
    return records.apply(tf.data.experimental.assert_cardinality(_count(share)))


def read_numbers(records: Records, begin: int | tf.Tensor, end: int | tf.Tensor) -> tf.data.Dataset:
    """Returns a range of records through the index: pairs of the number of its source and the serialized example.

    The number of the next record is the only state. The index detects records of another dataset.

    Args:
      begin: number of the first record, or a tensor.
      end: number after the last record, or a tensor.
    """
    checked = records.checked()
    group = _group_size([source.shards for source in records.sources])

    def fetch(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        sources, examples = zip(*checked.fetch(range(first, last)), strict=True)
        return np.array(sources, np.int64), np.array(examples, object)

    def read_group(first: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        last = tf.minimum(first + group, end)
        sources, examples = tf.numpy_function(fetch, [first, last], [tf.int64, tf.string])
        return tf.ensure_shape(sources, [None]), tf.ensure_shape(examples, [None])

    groups = tf.data.Dataset.range(begin, end, group).map(read_group, num_parallel_calls=2, deterministic=True)
    return groups.unbatch().apply(tf.data.experimental.assert_cardinality(end - begin))


def mean_record(several: Iterable[Sequence[Shard]]) -> float:
    """Returns the mean size in bytes of a record of several datasets, from the shards of each."""
    shards = [shard for each in several for shard in each]
    return sum(shard.bytes for shard in shards) / max(1, sum(shard.records for shard in shards))


def _group_size(shards: Sequence[Sequence[Shard]]) -> int:
    """Returns the number of records that are read together; takes the shards of each source."""
    return max(1, min(_GROUP_RECORDS, int(_GROUP_BYTES // max(1, mean_record(shards)))))


def _file_reader(dataset: StoredDataset) -> _ShardReader:
    """Returns a reader of local files, which fails if a shard differs from the manifest, as after an `overwrite`.

    Checks the shard's size and the published manifest before the shard is opened. No byte is then read twice, and an
    open file does not change.
    """
    shards, kind = dataset.shards, "GZIP" if dataset.compression == "gzip" else ""

    def find_problem(number: int) -> str:
        shard = shards[number]
        if dataset.is_there() and storage.have_sizes({storage.join(dataset.path, shard.file): shard.bytes}):
            return ""
        return str(replaced(dataset.path, shard.file))

    def read(file: tf.Tensor, number: tf.Tensor, skip: tf.Tensor, take: tf.Tensor) -> tf.data.Dataset:
        problem = tf.ensure_shape(tf.numpy_function(find_problem, [number], tf.string), [])
        with tf.control_dependencies([tf.debugging.Assert(tf.equal(problem, ""), [problem])]):
            return tf.data.TFRecordDataset(tf.identity(file), compression_type=kind).skip(skip).take(take)

    return read


def _index_reader(dataset: StoredDataset) -> _ShardReader:
    """Returns a reader of a bucket. TensorFlow has no client for s3://, and its gs:// client has its own settings.

    Raises:
      RequestError: the shards are compressed.
    """
    if dataset.compression != "none":
        raise RequestError(
            f"{dataset.path}: compressed shards cannot be read from a bucket; copy the folder to a disk, or build it "
            "with --compression=none",
            code="compressed_shards",
        )
    records = open_records(dataset, None, form="bytes")
    firsts = tf.constant([*itertools.accumulate((shard.records for shard in dataset.shards), initial=0)], tf.int64)

    def read(_: tf.Tensor, number: tf.Tensor, skip: tf.Tensor, take: tf.Tensor) -> tf.data.Dataset:
        begin = firsts[number] + skip
        return read_numbers(records, begin, begin + take).map(lambda _, example: example)

    return read
