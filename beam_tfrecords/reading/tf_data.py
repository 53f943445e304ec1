"""Reads a dataset with tf.data; its own metadata says which features it has. Only this module imports TensorFlow."""

from __future__ import annotations

import dataclasses
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
    """Reads one split of a dataset: parsed, decoded, shuffled, batched, prefetched.

    The result knows its cardinality, so that Keras knows the steps of an epoch. Features with any number of values,
    such as the labels of a multi-label dataset or the boxes of objects, are ragged in a batch. Autotune is off.

    Args:
      path: the dataset's folder.
      split: name of the split.
      batch_size: examples in a batch; None for single examples.
      shuffle: examples in the shuffle buffer, which several shards fill in turn; True for as many as take 256 MB, False
        or 0 for the order of the dataset, which the build shuffled and `Dataset.records` has.
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
    read = _ReadExample.of(
        dataset,
        decodes=decode and dataset.layout.needs_image,
        image_size=(image_size, image_size) if isinstance(image_size, int) else image_size,
        channels=channels,
        transform=transform,
        as_supervised=as_supervised,
        multi_hot=multi_hot,
        num_objects=num_objects,
    )
    if batch_size is not None:
        read.check_batches(batch_size)
    # The order of a shuffle without a seed may also depend on which shard answers first.
    deterministic = not shuffle or seed is not None
    share = _share_records(dataset.split_shards(split), num_readers=num_readers, reader_index=reader_index)
    records = _read_share(dataset, share, interleaved=bool(shuffle), deterministic=deterministic)
    if shuffle:
        # Before decoding: a buffer of encoded images is a tenth of one of pixels.
        buffer = _buffer_size(dataset.split_shards(split), share) if shuffle is True else shuffle
        records = records.shuffle(buffer, seed=seed)
    examples = records.map(read, num_parallel_calls=os.cpu_count(), deterministic=deterministic)
    if batch_size:
        batch = examples.ragged_batch if read.is_ragged else examples.batch
        examples = batch(batch_size, drop_remainder=drop_remainder)
    # Autotune's thread sleeps: what iterates waits for it at the end of every other epoch, up to a second.
    options = tf.data.Options()
    options.autotune.enabled = False
    return examples.prefetch(tf.data.AUTOTUNE).with_options(options)


@dataclasses.dataclass(frozen=True)
class _ReadExample:
    """Makes of a serialized example what `load` gives.

    Attributes:
      dataset: the dataset.
      decodes: whether images are decoded.
      image_size: as in `load`, a pair of numbers.
      channels: as in `load`.
      transform: as in `load`.
      pair: features of a supervised pair; None for a dict.
      hot: features that become zeros and ones.
      objects: features with a value or a row for each object.
      num_objects: as in `load`.

    Raises:
      ValueError: an argument of `load` does not fit the dataset.
    """

    dataset: Dataset
    decodes: bool
    image_size: tuple[int, int] | None
    channels: int | None
    transform: Callable[[dict[str, Any]], Any] | None
    pair: tuple[str, str] | None
    hot: Sequence[str]
    objects: Sequence[Feature]
    num_objects: int | None

    @classmethod
    def of(cls, dataset: Dataset, *, as_supervised: bool, multi_hot: bool, **given: Any) -> _ReadExample:
        """With the features that the arguments of `load` are about."""
        features = dataset.layout.features
        pair = dataset.layout.supervised if as_supervised else None
        if as_supervised and pair is None:
            has = ", ".join(feature.name for feature in features)
            raise ValueError(f"as_supervised=True: expected an image and a label among the features; found {has}")
        hot = [feature.name for feature in features if feature.field == "labels.index"] if multi_hot else []
        if multi_hot and not (hot and dataset.class_names):
            raise ValueError("multi_hot=True: expected a dataset with the field labels.index and with class names")
        objects = [
            feature for feature in features if feature.field.startswith("objects.") and feature.field not in KEYPOINTS
        ]
        return cls(dataset, pair=pair, hot=hot, objects=objects, **given)

    def __post_init__(self) -> None:
        size, number = self.image_size, self.num_objects
        if size is not None and (len(size) != 2 or min(size) < 1):
            raise ValueError(f"image_size={size}: expected (height, width) of 1 pixel or more, or one number for both")
        if number is not None and (number < 1 or not self.objects):
            raise ValueError(f"num_objects={number}: expected 1 or more, and a dataset with annotated objects")
        lists = [feature.name for feature in self._images if feature.several]
        if self.decodes and lists and None in self._list_size:
            raise ValueError(
                f"{self.dataset.path}: the images of a list ({', '.join(lists)}) have different sizes; pass "
                "image_size=, or decode=False"
            )

    def check_batches(self, batch_size: int) -> None:
        """Checks that examples can be batched.

        Raises:
          ValueError: they cannot.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size}: expected 1 or more, or None for single examples")
        if self.decodes and not (self.image_size or self.transform or self.dataset.images.size):
            raise ValueError(
                f"{self.dataset.path}: its images have different sizes and cannot be batched as they are; pass "
                "image_size=, a transform= that makes them equal, or decode=False"
            )

    @property
    def is_ragged(self) -> bool:
        """Whether a feature may have another number of values in every example."""
        fixed = {*self.hot, *(feature.name for feature in self.objects if self.num_objects)}
        return any(feature.several and feature.name not in fixed for feature in self.dataset.layout.features)

    @property
    def _images(self) -> list[Feature]:
        return [feature for feature in self.dataset.layout.features if feature.holds_image]

    @property
    def _list_size(self) -> tuple[int | None, int | None]:
        return self.image_size or self.dataset.images.size or (None, None)

    def __call__(self, record: tf.Tensor) -> Any:
        parsing = {feature.name: _parsing(feature) for feature in self.dataset.layout.features}
        example = tf.io.parse_single_example(record, parsing)
        if self.decodes:
            self._decode(example)
        for feature in self.objects:
            example[feature.name] = _objects(example[feature.name], feature, self.num_objects)
        for name in self.hot:
            indices = tf.cast(example[name], tf.int64)
            is_label = tf.one_hot(indices, len(self.dataset.class_names), on_value=True, off_value=False)
            example[name] = tf.cast(tf.reduce_any(is_label, axis=0), tf.float32)
        example = self.transform(example) if self.transform else example
        return (example[self.pair[0]], example[self.pair[1]]) if self.pair else example

    def _decode(self, example: dict[str, Any]) -> None:
        """Puts pixels in the place of the bytes of images and masks."""
        for feature in self._images:
            example[feature.name] = self._decode_images(example, feature)
            if feature.image is None:
                like = example[feature.name]
                object_masks = [one.name for one in self.objects if one.field == OBJECT_MASKS]
                example.update({mask: _decode_masks(example[mask], like=like) for mask in object_masks})
        size, stored = self.image_size, self.dataset.images
        for name in [feature.name for feature in self.dataset.layout.features if feature.field == MASK_FIELD]:
            kind = tf.uint16 if stored.mask_bit_depth == 16 else tf.uint8
            mask = tf.io.decode_png(example[name], channels=1, dtype=kind)
            mask.set_shape([*(stored.size or (None, None)), 1])
            example[name] = tf.image.resize(mask, size, method="nearest") if size else mask

    def _decode_images(self, example: dict[str, Any], feature: Feature) -> tf.Tensor:
        encoded, stored = example[feature.name], self.dataset.images
        if not feature.several:
            return self._decode_image(encoded, example)
        kind = tf.uint16 if stored.bit_depth == 16 else tf.uint8
        shape = tf.TensorSpec([*self._list_size, _depth(stored, self.channels)], kind)
        return tf.map_fn(lambda one: self._decode_image(one, example), encoded, fn_output_signature=shape)

    def _decode_image(self, encoded: tf.Tensor, example: dict[str, Any]) -> tf.Tensor:
        shapes = {feature.field: feature.name for feature in self.dataset.layout.features}
        image = _decode(encoded, example, self.dataset.images, shapes, self.channels)
        if not self.image_size:
            return image
        resized = tf.image.resize(image, self.image_size, antialias=True)
        return tf.cast(tf.clip_by_value(tf.round(resized), 0, image.dtype.max), image.dtype)


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


# Files, and for each the records to skip and then to take.
_Share: TypeAlias = "tuple[list[str], list[int], list[int]]"


def _read_share(dataset: Dataset, share: _Share, *, interleaved: bool, deterministic: bool) -> tf.data.Dataset:
    """The serialized examples of a reader, from several shards at once if they are interleaved."""
    files, skips, takes = share
    paths = [storage.join(dataset.path, file) for file in files]
    shards = tf.data.Dataset.from_tensor_slices((paths, tf.constant(skips, tf.int64), tf.constant(takes, tf.int64)))
    read = _checked(_shard_reader(dataset.path, dataset.compression), dataset)
    if interleaved:
        records = shards.interleave(
            read,
            cycle_length=min(len(paths), 16),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=deterministic,
        )
    else:
        records = shards.flat_map(read)
    return records.apply(tf.data.experimental.assert_cardinality(sum(takes)))


def _buffer_size(shards: Sequence[Shard], share: _Share) -> int:
    """Records of a shuffle buffer of `_SHUFFLE_BYTES`, and no more than a reader has."""
    average = sum(shard.bytes for shard in shards) / max(1, sum(shard.records for shard in shards))
    return max(1, min(sum(share[2]), int(_SHUFFLE_BYTES // max(1, average))))


def _share_records(shards: Sequence[Shard], *, num_readers: int, reader_index: int) -> _Share:
    """The share of a reader."""
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
