"""Reads a dataset with tf.data; its own metadata says which features it has. Only this module imports TensorFlow."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

try:
    import tensorflow as tf
except ImportError as error:
    raise ImportError(
        "reading with tf.data needs TensorFlow: pip install '.[tensorflow]' in a clone of beam-tfrecords"
    ) from error

from beam_tfrecords import storage
from beam_tfrecords.dataset import Dataset, open_dataset
from beam_tfrecords.examples.layouts import BOXES, KEYPOINTS, MASK_FIELD, OBJECT_MASKS, Feature
from beam_tfrecords.manifest import Shard, StoredImages
from beam_tfrecords.reading.index_files import replaced
from beam_tfrecords.tfrecord import Compression, open_stream, read_records

_DTYPES = {"int64": tf.int64, "float": tf.float32, "bytes": tf.string}
# `shuffle=True`: a buffer of so many bytes of records.
_SHUFFLE_BYTES = 256_000_000


def load(
    path: str | os.PathLike[str],
    split: str,
    *,
    batch_size: int | None = None,
    shuffle: bool | int = False,
    seed: int | None = None,
    decode: bool = True,
    image_size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    transform: Callable[[dict[str, Any]], Any] | None = None,
    drop_remainder: bool = False,
    as_supervised: bool = False,
    multi_hot: bool = False,
    num_objects: int | None = None,
    num_readers: int = 1,
    reader_index: int = 0,
) -> tf.data.Dataset:
    """Reads one split of a dataset: interleaved shards, parsed, decoded, shuffled, batched, prefetched.

    The result knows its cardinality, so that Keras knows the steps of an epoch. Features with any number of values,
    such as the labels of a multi-label dataset or the boxes of objects, are ragged in a batch. Autotune is off.

    Args:
      path: the dataset's folder.
      split: name of the split.
      batch_size: examples in a batch; None for single examples.
      shuffle: examples in the shuffle buffer; True for as many as take 256 MB, False or 0 for the order of the
        dataset, which the build shuffled.
      seed: of the shuffle; with one, every run gives the same order.
      decode: images as [H, W, C] uint8 tensors, or uint16 if they are stored with 16 bits, masks as [H, W, 1], and
        those of objects as [n, H, W] uint8 of zeros and ones, and a list of images as [n, H, W, C]; False leaves
        them as the bytes that are stored.
      image_size: (height, width) in pixels that decoded images are resized to, or one number for both; masks too, each
        pixel to the number of the nearest one.
      channels: of decoded images: 1, 3 or 4, or 0 for those of each file. None: those that the build asked
        for, or 3 if it kept those of each file. Raw pixels have the channels they were stored with.
      transform: applied to every example, a dict of tensors by feature name, before batching.
      drop_remainder: whether to drop a last batch that is not full.
      as_supervised: gives (image, label), or (image, mask), instead of a dict.
      multi_hot: gives the labels of a multi-label dataset as a [number of classes] float32 tensor of zeros and ones.
      num_objects: gives so many annotated objects for every image, so that they are not ragged: numbers are padded with
        -1, texts with "" and masks with 0, and objects beyond them are left out; keypoints stay as they are.
        None: those that there are.
      num_readers: number of readers that share the split; each reads a contiguous part of the same size, and the
        last `records % num_readers` records are read by none.
      reader_index: number of this reader, from 0.

    Raises:
      RequestError: there is no such dataset or split.
      ValueError: an argument does not fit the dataset, or images of different sizes would be batched.
    """
    dataset = open_dataset(path)
    shards = dataset.split_shards(split)
    files, skips, takes = _share_records(shards, num_readers=num_readers, reader_index=reader_index)
    files = [storage.join(dataset.path, file) for file in files]
    stored = dataset.images
    if isinstance(image_size, int):
        image_size = (image_size, image_size)
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size={batch_size}: expected 1 or more, or None for single examples")
    if image_size is not None and (len(image_size) != 2 or min(image_size) < 1):
        raise ValueError(
            f"image_size={image_size}: expected (height, width) of 1 pixel or more, or one number for both"
        )
    hot = [feature.name for feature in dataset.layout.features if feature.field == "labels.index"] if multi_hot else []
    if multi_hot and not (hot and dataset.class_names):
        raise ValueError("multi_hot=True: expected a dataset with the field labels.index and with class names")
    # One value or row for each object.
    objects = [
        feature
        for feature in dataset.layout.features
        if feature.field.startswith("objects.") and feature.field not in KEYPOINTS
    ]
    if num_objects is not None and (num_objects < 1 or not objects):
        raise ValueError(f"num_objects={num_objects}: expected 1 or more, and a dataset with annotated objects")
    if shuffle is True:
        average = sum(shard.bytes for shard in shards) / max(1, sum(shard.records for shard in shards))
        shuffle = max(1, min(sum(takes), int(_SHUFFLE_BYTES // max(1, average))))
    decodes = decode and dataset.layout.needs_image
    if batch_size and decodes and not (image_size or transform or stored.size):
        raise ValueError(
            f"{dataset.path}: its images have different sizes and cannot be batched as they are; pass image_size=, "
            "a transform= that makes them equal, or decode=False"
        )
    pair = dataset.layout.supervised if as_supervised else None
    if as_supervised and pair is None:
        has = ", ".join(feature.name for feature in dataset.layout.features)
        raise ValueError(f"as_supervised=True: expected an image and a label among the features; found {has}")
    # The order of a shuffle without a seed may also depend on which shard answers first.
    deterministic = not shuffle or seed is not None
    records = tf.data.Dataset.from_tensor_slices(
        (files, tf.constant(skips, tf.int64), tf.constant(takes, tf.int64))
    ).interleave(
        _checked(_shard_reader(dataset.path, dataset.compression), dataset),
        cycle_length=min(len(files), 16),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=deterministic,
    )
    records = records.apply(tf.data.experimental.assert_cardinality(sum(takes)))
    if shuffle:
        # Before decoding: a buffer of encoded images is a tenth of one of pixels.
        records = records.shuffle(shuffle, seed=seed)
    features = {feature.name: _parsing(feature) for feature in dataset.layout.features}
    images = [feature for feature in dataset.layout.features if feature.holds_image]
    lists = [feature.name for feature in images if feature.several]
    list_size = image_size or stored.size or (None, None)
    if decodes and lists and None in list_size:
        raise ValueError(
            f"{dataset.path}: the images of a list ({', '.join(lists)}) have different sizes; pass image_size=, or "
            "decode=False"
        )
    shapes = {feature.field: feature.name for feature in dataset.layout.features}
    masks = [feature.name for feature in dataset.layout.features if feature.field == MASK_FIELD]

    def decode_image(encoded: tf.Tensor, example: dict[str, Any]) -> tf.Tensor:
        image = _decode(encoded, example, stored, shapes, channels)
        if not image_size:
            return image
        resized = tf.image.resize(image, image_size, antialias=True)
        return tf.cast(tf.clip_by_value(tf.round(resized), 0, image.dtype.max), image.dtype)

    def decode_images(example: dict[str, Any], feature: Feature) -> tf.Tensor:
        encoded = example[feature.name]
        if not feature.several:
            return decode_image(encoded, example)
        kind = tf.uint16 if stored.bit_depth == 16 else tf.uint8
        shape = tf.TensorSpec([*list_size, _depth(stored, channels)], kind)
        return tf.map_fn(lambda one: decode_image(one, example), encoded, fn_output_signature=shape)

    def read(record: tf.Tensor) -> Any:
        example = tf.io.parse_single_example(record, features)
        if decodes:
            for feature in images:
                example[feature.name] = decode_images(example, feature)
                if feature.image is None:
                    object_masks = [one.name for one in objects if one.field == OBJECT_MASKS]
                    like = example[feature.name]
                    example.update({mask: _decode_masks(example[mask], like=like) for mask in object_masks})
            for name in masks:
                kind = tf.uint16 if stored.mask_bit_depth == 16 else tf.uint8
                mask = tf.io.decode_png(example[name], channels=1, dtype=kind)
                mask.set_shape([*(stored.size or (None, None)), 1])
                example[name] = tf.image.resize(mask, image_size, method="nearest") if image_size else mask
        for feature in objects:
            example[feature.name] = _objects(example[feature.name], feature, num_objects)
        for name in hot:
            indices = tf.cast(example[name], tf.int64)
            is_label = tf.one_hot(indices, len(dataset.class_names), on_value=True, off_value=False)
            example[name] = tf.cast(tf.reduce_any(is_label, axis=0), tf.float32)
        example = transform(example) if transform else example
        return (example[pair[0]], example[pair[1]]) if pair else example

    examples = records.map(read, num_parallel_calls=os.cpu_count(), deterministic=deterministic)
    fixed = {*hot, *(feature.name for feature in objects if num_objects)}
    if batch_size and any(feature.several and feature.name not in fixed for feature in dataset.layout.features):
        examples = examples.ragged_batch(batch_size, drop_remainder=drop_remainder)
    elif batch_size:
        examples = examples.batch(batch_size, drop_remainder=drop_remainder)
    # Autotune's thread sleeps: what iterates waits for it at the end of every other epoch, up to a second.
    options = tf.data.Options()
    options.autotune.enabled = False
    return examples.prefetch(tf.data.AUTOTUNE).with_options(options)


# (file, records to skip, records to take) -> serialized examples
_ShardReader: TypeAlias = "Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.data.Dataset]"


def _checked(read: _ShardReader, dataset: Dataset) -> _ShardReader:
    """A reader that fails if the shard is not that of the manifest, as after a build with `overwrite`.

    Looks at its size and at what was published before the shard is opened; so no byte of it is read twice, and what is
    open stays the same file.
    """
    sizes = {storage.join(dataset.path, shard.file): shard.bytes for shard in dataset.shards}

    def find_problem(file: bytes) -> str:
        path = file.decode()
        if dataset.is_there() and storage.have_sizes({path: sizes[path]}):
            return ""
        return str(replaced(dataset.path, storage.basename(path)))

    def read_checked(file: tf.Tensor, skip: tf.Tensor, take: tf.Tensor) -> tf.data.Dataset:
        problem = tf.ensure_shape(tf.numpy_function(find_problem, [file], tf.string), [])
        with tf.control_dependencies([tf.debugging.Assert(tf.equal(problem, ""), [problem])]):
            return read(tf.identity(file), skip, take)

    return read_checked


def _shard_reader(path: str, compression: Compression) -> _ShardReader:
    """What reads records of a shard."""
    if not storage.has_scheme(path):
        kind = "GZIP" if compression == "gzip" else ""
        return lambda file, skip, take: tf.data.TFRecordDataset(file, compression_type=kind).skip(skip).take(take)

    # TensorFlow has no client for s3://, and one for gs:// with settings of its own.
    def stream(file: bytes, skip: int, take: int) -> Iterator[bytes]:
        with storage.open_read(file.decode()) as opened:
            records = read_records(open_stream(opened, compression))
            yield from (record.data for record in itertools.islice(records, skip, skip + take))

    signature = tf.TensorSpec([], tf.string)
    return lambda *share: tf.data.Dataset.from_generator(stream, args=share, output_signature=signature)


def _share_records(
    shards: Sequence[Shard], *, num_readers: int, reader_index: int
) -> tuple[list[str], list[int], list[int]]:
    """The share of one reader: files, and for each the records to skip and then to take."""
    if not 0 <= reader_index < num_readers:
        raise ValueError(f"reader_index={reader_index}: expected 0 or more, and less than num_readers={num_readers}")
    records = sum(shard.records for shard in shards)
    share = records // num_readers
    if not share and num_readers > 1:
        raise ValueError(f"num_readers={num_readers}: the split has {records} records; expected at least one for each")
    start, end = reader_index * share, (reader_index + 1) * share
    first = 0
    files, skips, takes = [], [], []
    for shard in shards:
        skip, stop = max(start - first, 0), min(end - first, shard.records)
        if skip < stop or num_readers == 1:
            files.append(shard.file)
            skips.append(skip)
            takes.append(stop - skip)
        first += shard.records
    return files, skips, takes


def _parsing(feature: Feature) -> Any:
    if feature.several:
        return tf.io.RaggedFeature(_DTYPES[feature.type])
    return tf.io.FixedLenFeature([], _DTYPES[feature.type])


def _objects(values: tf.Tensor, feature: Feature, number: int | None) -> tf.Tensor:
    """An attribute of objects: [n], or [n, 4] for boxes in one feature, padded or cut to a number if one is given."""
    if feature.field == BOXES:
        values = tf.reshape(values, [-1, 4])
    if number is None:
        return values
    padding = [[0, tf.maximum(0, number - tf.shape(values)[0])], *[[0, 0]] * (values.shape.rank - 1)]
    # Masks are bytes, or pixels.
    filler = {tf.string: "", tf.uint8: tf.constant(0, tf.uint8)}.get(values.dtype, tf.cast(-1, values.dtype))
    padded = tf.pad(values, padding, constant_values=filler)[:number]
    return tf.ensure_shape(padded, [number, *values.shape[1:]])


def _decode_masks(encoded: tf.Tensor, *, like: tf.Tensor) -> tf.Tensor:
    """[n, H, W] uint8 masks of the size of an image, which may have been resized."""
    size = tf.shape(like)[:2]

    def decode(data: tf.Tensor) -> tf.Tensor:
        return tf.image.resize(tf.io.decode_png(data, channels=1), size, method="nearest")[:, :, 0]

    found = tf.cond(
        tf.size(encoded) > 0,
        lambda: tf.map_fn(decode, encoded, fn_output_signature=tf.TensorSpec([None, None], tf.uint8)),
        lambda: tf.zeros([0, size[0], size[1]], tf.uint8),
    )
    return tf.ensure_shape(found, [None, *like.shape[:2]])


def _depth(stored: StoredImages, channels: int | None) -> int | None:
    """Channels of decoded images; None for those of each file."""
    if stored.encoding == "raw":
        return stored.channels or None
    if channels is None:
        return stored.channels or 3
    return channels or None


def _decode(
    encoded: tf.Tensor, example: dict[str, Any], stored: StoredImages, shapes: dict[str, str], channels: int | None
) -> tf.Tensor:
    if stored.encoding != "raw":
        depth = _depth(stored, channels)
        kind = tf.uint16 if stored.bit_depth == 16 else tf.uint8
        image = tf.io.decode_image(encoded, channels=depth or 0, dtype=kind, expand_animations=False)
        image.set_shape([*(stored.size or (None, None)), depth])
        return image
    pixels = tf.io.decode_raw(encoded, tf.uint8)
    if stored.size and stored.channels:
        return tf.reshape(pixels, [*stored.size, stored.channels])
    missing = [field for field in ("image.height", "image.width") if field not in shapes]
    if missing:
        raise ValueError(f"raw images of different sizes need {' and '.join(missing)} in the layout to be decoded")
    height, width = example[shapes["image.height"]], example[shapes["image.width"]]
    return tf.reshape(pixels, tf.stack([height, width, tf.constant(stored.channels or -1, tf.int64)]))
