"""Finds the settings with which `convert` reads an export: the same layout, classes, keys, splits and image bytes."""

from __future__ import annotations

from typing import Any

from beam_tfrecords.beam_pipelines.export.rows import KEY, LABEL, LABELS, MASK, SPLIT, RowPlan
from beam_tfrecords.examples.layouts import COLUMN, MOVES, NAMED_IMAGE, OBJECT_MASKS, POLYGON
from beam_tfrecords.reading.dataset import Dataset

# The value 255 marks pixels to ignore.
_MOST_COLORS = 255
# Limits that the images of the dataset satisfy.
_LIMITS = ("max_pixels", "max_image_memory", "max_file_size", "allow_truncated")


def find_settings(dataset: Dataset, plan: RowPlan) -> tuple[dict[str, Any], list[str]]:
    """Returns the settings that read an export again, except input and output, and notes on what changes."""
    spec, layout, columns = dataset.manifest["spec"], plan.layout.to_json(), plan.columns
    for feature, column in columns.items():
        words: dict[str, Any] = layout[feature.name] | {"field": COLUMN + column}
        words.pop("columns", None)
        if feature.moves:
            words["moves"] = MOVES[1]
        if feature.is_class:
            words["class_names"] = list(feature.class_names)
        layout[feature.name] = words
    for one in plan.files:
        if one.feature.image is not None:
            layout[one.feature.name]["field"] = NAMED_IMAGE + one.column
    names, notes = {cell.name for cell in plan.cells}, []
    settings: dict[str, Any] = {
        "name": dataset.name,
        "seed": spec["seed"],
        "source": "parquet",
        "layout": layout,
        "key_column": KEY,
        "split_column": SPLIT,
        "missing_values": [],
    }
    if spec["compression"] != "none":
        settings["compression"] = spec["compression"]
    images = [one.column for one in plan.files if one.column != MASK]
    if images:
        settings |= {"image_column": ",".join(images), **_image_settings(dataset)}
    label = next((name for name in (LABEL, LABELS) if name in names), None)
    if label:
        settings["label_column"] = label
    if dataset.class_names and (plan.layout.needs_label or plan.layout.needs_objects):
        settings["class_names"] = list(dataset.class_names)
    if plan.layout.needs_objects:
        settings |= {"box_format": "xyxy", "box_unit": "shares", "trust_annotations": True}
    if plan.layout.has_mask:
        settings["mask_column"] = MASK
        if dataset.images.mask_bit_depth == 16:
            settings["mask_bit_depth"] = 16
        if dataset.class_names and "class_names" not in settings:
            colors = [{"name": name, "color": [number] * 3} for number, name in enumerate(dataset.class_names)]
            if dataset.images.mask_bit_depth == 16 or len(colors) > _MOST_COLORS:
                notes.append("a conversion does not know the class names of these masks")
            else:
                settings["mask_colors"] = [*colors, {"name": "ignore", "color": [255] * 3}]
    if {POLYGON, OBJECT_MASKS} <= plan.layout.fields:
        notes.append("a conversion draws the masks of objects from their polygons, not from the stored masks")
    if dataset.images.encoding == "webp" and dataset.images.channels == 4:
        notes.append("a conversion keeps the bytes of WebP images, and readers return 3 of their 4 channels")
    return settings, notes


def _image_settings(dataset: Dataset) -> dict[str, Any]:
    """Returns the settings that store the bytes of the exported files, or the same pixels."""
    spec, images = dataset.manifest["spec"], dataset.images
    found: dict[str, Any] = {"channels": spec["channels"], **{name: spec[name] for name in _LIMITS if name in spec}}
    if images.size is not None:
        found |= {name: spec[name] for name in ("image_size", "resize_mode")}
    if images.array_type:
        return found | {"array_axes": "HWC", "array_type": images.array_type}
    if images.encoding == "raw" or images.bit_depth == 16:
        return found | {"image_encoding": images.encoding, "bit_depth": images.bit_depth}
    if images.encoding == "webp":
        # A file without transparency has three channels, also in a dataset of four.
        found["channels"] = "keep"
    keeps = {"keep_any_format": True} if images.encoding == "webp" or spec.get("keep_any_format") else {}
    return found | {"image_encoding": "keep", "orientation": "ignore", **keeps}
