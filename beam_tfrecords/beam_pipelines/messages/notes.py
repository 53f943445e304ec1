"""Notes: warnings about valid but unusual requests; one line each in the summary and in the manifest."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.publishing.tfds_metadata import features_as_bytes
from beam_tfrecords.transforms.request.build_spec import BuildSpec, OutputSettings
from beam_tfrecords.transforms.settings import settings_of

# Settings that only act together with others.
_RESIZING = ("resample", "upscale")
_QUALITY = (ImageEncoding.JPEG, ImageEncoding.WEBP)


def describe_request(spec: BuildSpec) -> list[str]:
    """Returns the notes that follow from the request alone; they quote settings as `name=value`."""
    layout = spec.layout or Layout(())
    return [*_idle_settings(spec, layout), *_tfds_notes(spec, layout)]


def _idle_settings(spec: BuildSpec, layout: Layout) -> Iterator[str]:
    """Yields notes on settings that differ from their defaults and have no effect."""
    image = _changed(spec, ImageSpec)
    if Content.IMAGE not in layout.required:
        if image:
            yield f"{_quote(image)}: without effect, because the layout has no image"
        return
    resizing = {name: image[name] for name in _RESIZING if name in image}
    if resizing and spec.image_size is None:
        yield f"{_quote(resizing)}: without effect, because there is no `image_size`"
    if "jpeg_quality" in image and spec.image_encoding not in _QUALITY:
        encoding = spec.image_encoding.value
        yield f"{_quote({'jpeg_quality': image['jpeg_quality']})}: without effect with `image_encoding={encoding}`"
    if "codec" in image and (spec.bit_depth == 16 or Content.ARRAY in layout.required):
        why = "on arrays" if Content.ARRAY in layout.required else "with `bit_depth=16`"
        yield f"{_quote({'codec': image['codec']})}: without effect {why}"
    if spec.num_shards is not None and "shard_size" in _changed(spec, OutputSettings):
        yield f"`shard_size={spec.shard_size}`: without effect, because `num_shards={spec.num_shards}` sets the number"


def _tfds_notes(spec: BuildSpec, layout: Layout) -> Iterator[str]:
    if spec.compression == "gzip":
        yield "TensorFlow Datasets cannot read GZIP shards; tf.data and beam_tfrecords.load can"
    names = features_as_bytes(layout, spec.image)
    # The sizes of arrays are known at the end.
    if names and Content.ARRAY not in layout.required:
        yield (
            f"TensorFlow Datasets reads {', '.join(names)} as bytes with `image_encoding={spec.image_encoding.value}`, "
            f"`channels={spec.channels or 'keep'}`; its image features are JPEG or PNG with 1, 3 or 4 channels"
        )


def _changed(spec: BuildSpec, group: type) -> dict[str, object]:
    """Returns the settings of a group that differ from the defaults of its fields, as plain values."""
    defaults = {field.name: field.default for field in dataclasses.fields(group)}
    found = {one: getattr(spec, one.name) for one in settings_of(group) if one.in_spec}
    return {one.name: one.write(value) for one, value in found.items() if value != defaults[one.name]}


def _quote(settings: Mapping[str, object]) -> str:
    return ", ".join(f"`{name}={value}`" if value is not False else f"`no_{name}`" for name, value in settings.items())
