"""Reads a dataset with tf.data; its own metadata says which features it has. Only this module imports TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from transforms import storage
from transforms.dataset import open_dataset
from transforms.examples.layouts import Feature
from transforms.images.image_spec import ImageEncoding, ImageSpec
from transforms.tfds_metadata import has_fixed_shape

_DTYPES = {"int64": tf.int64, "float": tf.float32, "bytes": tf.string}
_IMAGES = ("image.encoded", "image.pixels")


def load(
    path: str,
    split: str,
    *,
    batch_size: int | None = None,
    shuffle: int = 0,
    seed: int | None = None,
    decode: bool = True,
    image_size: tuple[int, int] | None = None,
    channels: int | None = None,
    transform: Callable[[dict[str, Any]], Any] | None = None,
    drop_remainder: bool = False,
) -> tf.data.Dataset:
    """Reads one split of a dataset: interleaved shards, parsed, decoded, shuffled, batched, prefetched.

    Args:
      path: the dataset's folder.
      split: name of the split.
      batch_size: examples in a batch; None for single examples.
      shuffle: examples in the shuffle buffer; 0 for the order of the dataset, which the build shuffled.
      seed: of the shuffle.
      decode: images as [H, W, C] uint8 tensors; False leaves them as the bytes that are stored.
      image_size: (height, width) in pixels that decoded images are resized to.
      channels: of decoded images: 1, 3 or 4, or 0 for those of each file. None: those that the build asked
        for, or 3 if it kept those of each file. Raw pixels have the channels they were stored with.
      transform: applied to every example, a dict of tensors by feature name, before batching.
      drop_remainder: whether to drop a last batch that is not full.

    Raises:
      RequestError: there is no such dataset or split.
      ValueError: images of different sizes would be batched.
    """
    dataset = open_dataset(path)
    files = [storage.join(dataset.path, shard.file) for shard in dataset.split_shards(split)]
    spec = dataset.image
    decodes = decode and dataset.layout.needs_image
    if batch_size and decodes and not (image_size or transform or has_fixed_shape(spec)):
        raise ValueError(
            f"{dataset.path}: its images have different sizes and cannot be batched as they are; pass image_size=, "
            "a transform= that makes them equal, or decode=False"
        )
    compression = "GZIP" if dataset.compression == "gzip" else ""
    records = tf.data.Dataset.from_tensor_slices(files).interleave(
        lambda file: tf.data.TFRecordDataset(file, compression_type=compression),
        cycle_length=min(len(files), 16),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=not shuffle,
    )
    if shuffle:
        # Before decoding: a buffer of encoded images is a tenth of one of pixels.
        records = records.shuffle(shuffle, seed=seed)
    features = {feature.name: _parsing(feature) for feature in dataset.layout.features}
    images = {feature.name: feature for feature in dataset.layout.features if feature.field in _IMAGES}
    shapes = {feature.field: feature.name for feature in dataset.layout.features}

    def read(record: tf.Tensor) -> Any:
        example = tf.io.parse_single_example(record, features)
        if decodes:
            for name in images:
                example[name] = _decode(example, name, spec, shapes, channels)
                if image_size:
                    resized = tf.image.resize(example[name], image_size, antialias=True)
                    example[name] = tf.cast(tf.clip_by_value(tf.round(resized), 0, 255), tf.uint8)
        return transform(example) if transform else example

    examples = records.map(read, num_parallel_calls=tf.data.AUTOTUNE, deterministic=not shuffle)
    if batch_size:
        examples = examples.batch(batch_size, drop_remainder=drop_remainder)
    return examples.prefetch(tf.data.AUTOTUNE)


def _parsing(feature: Feature) -> Any:
    if feature.several:
        return tf.io.RaggedFeature(_DTYPES[feature.type])
    return tf.io.FixedLenFeature([], _DTYPES[feature.type])


def _decode(
    example: dict[str, Any], name: str, spec: ImageSpec, shapes: dict[str, str], channels: int | None
) -> tf.Tensor:
    if spec.image_encoding is not ImageEncoding.RAW:
        channels = channels if channels is not None else spec.channels or 3
        image = tf.io.decode_image(example[name], channels=channels, expand_animations=False)
        image.set_shape([None, None, channels or None])
        return image
    pixels = tf.io.decode_raw(example[name], tf.uint8)
    if has_fixed_shape(spec) and spec.image_size and spec.channels:
        return tf.reshape(pixels, [*spec.image_size, spec.channels])
    missing = [field for field in ("image.height", "image.width") if field not in shapes]
    if missing:
        raise ValueError(f"raw images of different sizes need {' and '.join(missing)} in the layout to be decoded")
    height, width = example[shapes["image.height"]], example[shapes["image.width"]]
    return tf.reshape(pixels, tf.stack([height, width, tf.constant(spec.channels or -1, tf.int64)]))
