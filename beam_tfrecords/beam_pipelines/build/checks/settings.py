"""Refuses or notes settings that cannot act; each setting declares here what it needs besides its source."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.features.contents import CLASSES, Content
from beam_tfrecords.features.fields import Stored
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.publishing.tfds_metadata import features_as_bytes
from beam_tfrecords.transforms.request.build_spec import BuildSpec, OutputSettings
from beam_tfrecords.transforms.settings import settings_of, slice_of, write_settings
from beam_tfrecords.transforms.sources.inputs import name_inputs, split_of_word
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.source_spec import SourceSpec
from beam_tfrecords.transforms.sources.tables.table_settings import LabelType

if TYPE_CHECKING:
    from beam_tfrecords.transforms.listing.listing import Listing

_BINARY = (".parquet",)
_JSON = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
# Sources whose samples are image files; the listing has the paths of all of them.
_FOLDERS = ("image_folder", "filename_pattern")
_TABLES = ("csv", "jsonl", "parquet")
# Arrays whose labels are numbers.
_NUMBERED = ("idx", "cifar")
_WEB = ("http://", "https://")
# Settings that only act together with others.
_RESIZING = ("resample", "upscale")
_QUALITY = (ImageEncoding.JPEG, ImageEncoding.WEBP)


# Returns what a setting lacks; "" if it can act.
Need = Callable[[BuildSpec, Source], str]


def _images(spec: BuildSpec, source: Source) -> str:
    return "" if Content.IMAGE in spec.stored.required or spec.map else "the layout has no image"


def _bytes(spec: BuildSpec, source: Source) -> str:
    return "" if spec.stored.reads_bytes else _images(spec, source)


def _labels(spec: BuildSpec, source: Source) -> str:
    layout = spec.stored
    is_read = CLASSES & layout.required or spec.map or spec.stratify or spec.classes
    are_values = spec.label_type is not LabelType.CLASS
    return "" if is_read or are_values else "the layout has no label"


def _mask_numbers(spec: BuildSpec, source: Source) -> str:
    if source.description.records:
        return "the masks of a dataset have their numbers already"
    if spec.stored.draws_mask:
        return "the masks are drawn from objects"
    return "" if Content.MASK in spec.stored.required else "the layout has no mask, unlike `layout=segmentation`"


def _class_names(spec: BuildSpec, source: Source) -> str:
    names = "mask_colors" if spec.mask_colors else "mask_classes"
    if spec.mask_class_names and not CLASSES & spec.stored.required:
        return f"`{names}` names the classes"
    return _classes(spec, source)


def _classes(spec: BuildSpec, source: Source) -> str:
    label_type = spec.label_type
    if label_type is not LabelType.CLASS:
        return f"labels are not classes with `label_type={label_type.value}`"
    # Names of classes also say which folders are classes, and what the values of masks are.
    name_others = source.description.is_inferred_later or Content.MASK in spec.stored.required
    return "" if name_others else _labels(spec, source)


def _class_order(spec: BuildSpec, source: Source) -> str:
    return "" if spec.stored.heads else _classes(spec, source)


def _label_texts(spec: BuildSpec, source: Source) -> str:
    if spec.label_columns:
        return "`label_columns` has zeros and ones, which nothing separates"
    if source.name in _NUMBERED:
        return "the labels are numbers"
    has_column = source.description.label_column or spec.map
    return _labels(spec, source) if has_column else "the input has no column of labels"


def _zeros_and_ones(spec: BuildSpec, source: Source) -> str:
    seen = source.description
    are_flags = seen.has_several_labels or seen.labels.length or spec.label_columns
    return _labels(spec, source) if are_flags or spec.map else "the labels are not zeros and ones"


def _masks(spec: BuildSpec, source: Source) -> str:
    # A dataset that is the input hands its settings on.
    return "" if Stored.MASK in spec.stored.stored or source.description.records else "the layout has no mask"


def _arrays(spec: BuildSpec, source: Source) -> str:
    return "" if Content.ARRAY in spec.stored.required else "the layout has no image.array, unlike `layout=array`"


def _colors_of_scans(spec: BuildSpec, source: Source) -> str:
    return "arrays have the numbers of the file" if Content.ARRAY in spec.stored.required else ""


def _colors(spec: BuildSpec, source: Source) -> str:
    return "arrays have no perceptual hash" if Content.ARRAY in spec.stored.required else _images(spec, source)


def _versions(spec: BuildSpec, source: Source) -> str:
    return "" if spec.versioned else "it needs `versioned`; set both"


def _containers(spec: BuildSpec, source: Source) -> str:
    are_files = source.name in _FOLDERS and source.is_whole
    return "the input has no archives and tables" if are_files else ""


def _objects(spec: BuildSpec, source: Source) -> str:
    return "" if Content.OBJECTS in spec.stored.required else "the layout has no objects"


def _boxes(spec: BuildSpec, source: Source) -> str:
    if spec.map:
        return ""
    return _objects(spec, source) if Content.OBJECTS in source.description.provides else "the input has no boxes"


def _text(spec: BuildSpec, source: Source) -> str:
    table = source.description.table
    return "the table is not a text file" if table and table.path.lower().endswith(_BINARY) else ""


def _cells(spec: BuildSpec, source: Source) -> str:
    table = source.description.table
    return "JSON lines have no cells" if table and table.path.lower().endswith(_JSON) else _text(spec, source)


def _rows_say_splits(spec: BuildSpec, source: Source) -> str:
    inputs, column = name_inputs(spec.input), spec.split_column
    return "`input` says the split of each input" if inputs.splits and column else ""


def _join(spec: BuildSpec, source: Source) -> str:
    return "" if spec.join else "there is no `join`"


# `guard` is not among them: a list of flags may say `guard=off` with and without versions.
_VERSIONED = (
    "grace", "accept", "min_count_ratio", "max_count_ratio", "max_failure_rise", "max_share_change", "min_size_ratio",
    "max_size_ratio",
)  # fmt: skip


# Setting -> what it needs. The others need nothing, or another place checks or notes them: the registry, `BuildSpec`,
# the listing, a source.
NEEDS: Mapping[str, Need] = {
    **dict.fromkeys(("image_column", "image_path", "pixels"), _images),
    **dict.fromkeys(("label_column", "label_columns"), _labels),
    "label_separator": _label_texts,
    "unknown_labels": _zeros_and_ones,
    "split_column": _rows_say_splits,
    **dict.fromkeys(("box_columns", "box_format", "box_unit"), _boxes),
    "delimiter": _cells,
    "encoding": _text,
    "join_key": _join,
    "allow_damaged_containers": _containers,
    **dict.fromkeys(("mask_bit_depth", "mask_padding"), _masks),
    **dict.fromkeys(("mask_colors", "mask_values"), _mask_numbers),
    **dict.fromkeys(("array_type", "array_axes", "pages"), _arrays),
    **dict.fromkeys(_VERSIONED, _versions),
    "class_names": _class_names,
    "class_order": _class_order,
    "near_duplicates": _colors,
    "window": _colors_of_scans,
    "max_file_size": _bytes,
    "invalid_boxes": _objects,
}


def refuse_idle_settings(given: BuildSpec, spec: BuildSpec, source: Source) -> None:
    """Checks that each setting that is not a default can act.

    Args:
      given: the request as the user made it.
      spec: the request, with its layout.
      source: the opened source.

    Raises:
      RequestError: names a setting and what it lacks.
    """
    for one in settings_of(BuildSpec):
        value = getattr(given, one.name)
        if one.name in NEEDS and value != one.default and (lacks := NEEDS[one.name](spec, source)):
            raise _refusal(one.name, one.write(value) if one.in_spec else None, lacks)


def refuse_idle_roots(spec: BuildSpec, listing: Listing) -> None:
    """Checks that paths of images are relative to `image_root`, which only the samples show.

    Raises:
      RequestError: no image lies in a folder of `image_root`.
    """
    folders = [split_of_word(word)[1].rstrip("/") for word in spec.image_root]
    # The names of images are shown, also those of members of archives.
    roots = [storage.shown(f"{folder}/.")[:-1] for folder in folders]
    if roots and (found := _first_outside(listing, roots)):
        raise _refusal(
            "image_root",
            ",".join(spec.image_root),
            f"no path of an image is relative to it; the first image is {found}",
        )


def refuse_idle_remote_settings(spec: BuildSpec, source: Source, listing: Listing) -> None:
    """Checks that settings for buckets and web images find one, if all files are known.

    Raises:
      RequestError: no path of the request or of an image is in a bucket, or on the web.
    """
    has_others = spec.map or {Content.MASK, Content.OBJECTS} & spec.required
    if has_others or source.name not in (*_FOLDERS, *_TABLES):
        return
    given = [str(value) for value in (*write_settings(slice_of(SourceSpec, spec)).values(), spec.output, spec.reuse)]
    if spec.requester_pays is not None and not _any_file(listing, given, _is_in_bucket):
        raise _refusal("requester_pays", spec.requester_pays, "no path is in a bucket (gs:// or s3://)")
    if spec.allow_private_addresses and not _any_file(listing, given, _is_on_web):
        raise _refusal("allow_private_addresses", True, "no image is a web URL")


def _is_in_bucket(text: str) -> bool:
    return "://" in text and not text.startswith(_WEB)


def _is_on_web(text: str) -> bool:
    return any(scheme in text for scheme in _WEB)


def _any_file(listing: Listing, given: Sequence[str], is_meant: Callable[[str], bool]) -> bool:
    """Whether the request or a sample, even one that failed, names such a file."""
    from beam_tfrecords.transforms.listing.listing import read_light

    if any(map(is_meant, given)):
        return True
    return any(
        failure is not None or (uri is not None and is_meant(uri))
        for refs in read_light(listing)
        for uri, failure in zip(refs.uris(), refs.each("failure"), strict=True)
    )


def _first_outside(listing: Listing, roots: list[str]) -> str | None:
    """Returns the first image if no image is in one of the folders. Usually the first one is, which ends the search."""
    from beam_tfrecords.transforms.listing.listing import read_light

    first: str | None = None
    for refs in read_light(listing):
        for uri, failure in zip(refs.uris(), refs.each("failure"), strict=True):
            if uri and failure is None:
                if any(uri.startswith(root) for root in roots):
                    return None
                first = first or uri
    return first


def _refusal(name: str, value: object, lacks: str) -> RequestError:
    shown = ",".join(map(str, value)) if isinstance(value, list | tuple) else value
    quoted = f"`{name}`" if value is True or value is None else f"`{name}={shown}`"
    return RequestError(f"{quoted}: {lacks}; leave `{name}` out", code="setting_not_applicable")


def describe_request(spec: BuildSpec) -> list[str]:
    """Returns the notes that follow from the request alone; they quote settings as `name=value`."""
    layout = spec.stored
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
