"""Refuses or notes settings that cannot act; each setting declares here what it needs besides its source."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.dataset.manifest import StoredImages
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
_OF_BOXES, _OF_NUMBERS = ("box_columns", "box_format", "box_unit"), ("mask_colors", "mask_values")
# Settings that only act together with others.
_RESIZING = ("resample", "upscale")
_QUALITY = (ImageEncoding.JPEG, ImageEncoding.WEBP)
# `guard` is not among them: a list of flags may say `guard=off` with and without versions.
_OF_VERSIONS = (
    "grace", "accept", "min_count_ratio", "max_count_ratio", "max_failure_rise", "max_share_change", "min_size_ratio",
    "max_size_ratio",
)  # fmt: skip


def refuse_idle_settings(given: BuildSpec, spec: BuildSpec, source: Source) -> None:
    """Checks that each setting that is not a default can act.

    Args:
      given: the request as the user made it.
      spec: the request, with its layout.
      source: the opened source.

    Raises:
      RequestError: names a setting and what it lacks.
    """
    lacks: dict[str, str] = {}
    for is_unmet, what, *names in _needs(spec, source):
        if is_unmet:
            lacks = {**dict.fromkeys(names, what), **lacks}
    for one in settings_of(BuildSpec):
        value = getattr(given, one.name)
        if one.name in lacks and value != one.default:
            raise _refusal(one.name, one.write(value) if one.in_spec else None, lacks[one.name])


def _needs(spec: BuildSpec, source: Source) -> Sequence[tuple[Any, ...]]:
    """Returns needs of settings: whether a need is unmet, what is lacking then, and the settings.

    The first unmet need of a setting counts. The other settings need nothing, or another place checks or notes them:
    the registry, `BuildSpec`, the listing, a source.
    """
    layout, seen, kind = spec.stored, source.description, spec.label_type
    has, table = layout.required, seen.table.path.lower() if seen.table else ""
    names_masks, is_array = spec.mask_class_names and not CLASSES & has, Content.ARRAY in has
    has_flags = seen.has_several_labels or seen.labels.length or spec.label_columns
    are_values = kind is not LabelType.CLASS
    no_image, no_mask = not (Content.IMAGE in has or spec.map), Content.MASK not in has
    no_label = not (CLASSES & has or spec.map or spec.stratify or spec.classes or are_values)
    # Names of classes also say which folders are classes, and what the values of masks are.
    no_class = no_label and no_mask and not seen.is_inferred_later
    mask_names = "mask_colors" if spec.mask_colors else "mask_classes"
    classes_are_values = f"labels are not classes with `label_type={kind.value}`"
    return (
        (is_array, "arrays have no perceptual hash", "near_duplicates"),
        (no_image, "the layout has no image", "image_column", "image_path", "pixels", "near_duplicates"),
        (no_image and not layout.reads_bytes, "the layout has no image", "max_file_size"),
        (spec.label_columns, "`label_columns` has zeros and ones, which nothing separates", "label_separator"),
        (source.name in _NUMBERED, "the labels are numbers", "label_separator"),
        (not (seen.label_column or spec.map), "the input has no column of labels", "label_separator"),
        (not (has_flags or spec.map), "the labels are not zeros and ones", "unknown_labels"),
        (no_label, "the layout has no label", "label_column", "label_columns", "label_separator", "unknown_labels"),
        (names_masks, f"`{mask_names}` names the classes", "class_names"),
        (are_values, classes_are_values, "class_names"),
        (no_class, "the layout has no label", "class_names"),
        (are_values and not layout.heads, classes_are_values, "class_order"),
        (no_class and not layout.heads, "the layout has no label", "class_order"),
        (name_inputs(spec.input).splits and spec.split_column, "`input` says the split of each input", "split_column"),
        (not spec.map and Content.OBJECTS not in seen.provides, "the input has no boxes", *_OF_BOXES),
        (not spec.map and Content.OBJECTS not in has, "the layout has no objects", *_OF_BOXES),
        (Content.OBJECTS not in has, "the layout has no objects", "invalid_boxes"),
        (not {Content.OBJECTS, Content.MASK} & has, "the layout has no objects and no mask", "run_order"),
        (table.endswith(_JSON), "JSON lines have no cells", "delimiter"),
        (table.endswith(_BINARY), "the table is not a text file", "delimiter", "encoding"),
        (not spec.join, "there is no `join`", "join_key"),
        (
            source.name in _FOLDERS and source.is_whole,
            "the input has no archives and tables",
            "allow_damaged_containers",
        ),
        # A dataset that is the input hands its settings on.
        (
            not (Stored.MASK in layout.stored or seen.records),
            "the layout has no mask",
            "mask_bit_depth",
            "mask_padding",
        ),
        (seen.records, "the masks of a dataset have their numbers already", *_OF_NUMBERS),
        (layout.draws_mask, "the masks are drawn from objects", *_OF_NUMBERS),
        (no_mask, "the layout has no mask, unlike `layout=segmentation`", *_OF_NUMBERS),
        (not is_array, "the layout has no image.array, unlike `layout=array`", "array_type", "array_axes", "pages"),
        (is_array, "arrays have the numbers of the file", "window"),
        (not spec.versioned, "it needs `versioned`; set both", *_OF_VERSIONS),
    )


def refuse_idle_places(spec: BuildSpec, source: Source, listing: Listing) -> None:
    """Checks that settings for folders, buckets and web images find one, which only the samples show.

    Raises:
      RequestError: no image lies in a folder of `image_root`; or no path of the request or of an image, of a source
        that knows all files, is in a bucket or on the web.
    """
    folders = [split_of_word(word)[1].rstrip("/") for word in spec.image_root]
    # The names of images are shown, also those of members of archives.
    roots = tuple(storage.shown(f"{folder}/.")[:-1] for folder in folders)
    uris = filter(None, _uris(listing) if roots else ())
    first = next(uris, None)
    # Usually the first image is in one of the folders, which ends the search.
    if first is not None and not any(uri.startswith(roots) for uri in itertools.chain([first], uris)):
        lacks = f"no path of an image is relative to it; the first image is {first}"
        raise _refusal("image_root", ",".join(spec.image_root), lacks)
    has_others = spec.map or {Content.MASK, Content.OBJECTS} & spec.required
    if has_others or source.name not in (*_FOLDERS, *_TABLES):
        return
    given = [str(value) for value in (*write_settings(slice_of(SourceSpec, spec)).values(), spec.output, spec.reuse)]

    def is_anywhere(is_meant: Callable[[str], bool]) -> bool:
        # A sample that failed may name such a file.
        return any(map(is_meant, given)) or any(uri is None or is_meant(uri) for uri in _uris(listing))

    if spec.requester_pays is not None and not is_anywhere(lambda text: "://" in text and not text.startswith(_WEB)):
        raise _refusal("requester_pays", spec.requester_pays, "no path is in a bucket (gs:// or s3://)")
    if spec.allow_private_addresses and not is_anywhere(lambda text: any(scheme in text for scheme in _WEB)):
        raise _refusal("allow_private_addresses", True, "no image is a web URL")


def _uris(listing: Listing) -> Iterator[str | None]:
    """Yields the first image of each sample, "" without one; None for a sample that failed."""
    from beam_tfrecords.transforms.listing.listing import read_light

    for refs in read_light(listing):
        for uri, failure in zip(refs.uris(), refs.each("failure"), strict=True):
            yield None if failure is not None else uri or ""


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
    names = features_as_bytes(layout, StoredImages.of(write_settings(spec.image)))
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
