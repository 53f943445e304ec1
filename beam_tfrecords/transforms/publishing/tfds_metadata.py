"""Makes the metadata files that TensorFlow Datasets reads besides the shards.

Contract: tensorflow_datasets `read_only_builder.builder_from_directory`, which reads `dataset_info.json`
(dataset_info.proto as JSON), `features.json` (feature.proto as JSON) and `<feature>.labels.txt`.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from beam_tfrecords.dataset.dataset import StoredDataset
from beam_tfrecords.dataset.files import DATASET_INFO, FEATURES
from beam_tfrecords.dataset.label_files import label_files, label_map
from beam_tfrecords.dataset.manifest import Shard, StoredImages
from beam_tfrecords.escaping import json_file
from beam_tfrecords.features.fields import BOXES, ClassValue, Per, Stored
from beam_tfrecords.features.layouts import Feature, Layout

VERSION = "1.0.0"
_PACKAGE = "tensorflow_datasets.core.features"
_SCALARS = {"int64": "int64", "float": "float32", "bytes": "string"}


def _json(kind: str, **values: Any) -> dict[str, Any]:
    """Returns a feature of a class of TFDS."""
    return {"pythonClassName": f"{_PACKAGE}.{kind}", **values}


# A row of ymin, xmin, ymax and xmax, as shares of the image's size.
_BOX = _json(
    "bounding_boxes.BBoxFeature",
    boundingBox={"shape": {"dimensions": ["4"]}, "dtype": "float32", "bboxFormat": "REL_YXYX"},
)


def name_metadata(layout: Layout, class_names: Sequence[str]) -> list[str]:
    """Returns the names of the metadata files of a dataset."""
    return [DATASET_INFO, FEATURES, *label_map(layout, class_names), *label_files(layout, class_names)]


def write_metadata(dataset: StoredDataset) -> dict[str, bytes]:
    """Returns the metadata files of a dataset, from its manifest and shards: file name -> content."""
    layout, class_names, settings = dataset.layout, dataset.class_names, dataset.manifest["spec"]
    info = {
        "name": dataset.name,
        "version": VERSION,
        "fileFormat": "tfrecord",
        "moduleName": "",
        "releaseNotes": {},
        **{name: settings[name] for name in ("description", "citation") if settings.get(name)},
        "splits": _splits(dataset.shards),
    }
    if settings.get("license"):
        info["redistributionInfo"] = {"license": settings["license"]}
    if settings.get("homepage"):
        info["location"] = {"urls": [settings["homepage"]]}
    # For `as_supervised=True`. TFDS finds top-level features only.
    if (pair := layout.supervised()) and not (layout.nests and "/" in "".join(pair)):
        info["supervisedKeys"] = {"tuple": {"items": [{"featureKey": name} for name in pair]}}
    features = features_json(layout, dataset.images, class_names)
    files = {DATASET_INFO: json_file(info), FEATURES: json_file(features), **label_map(layout, class_names)}
    named = label_files(layout, class_names)
    files.update({file: ("\n".join(names) + "\n").encode() for file, names in named.items()})
    return files


def features_json(layout: Layout, images: StoredImages, class_names: tuple[str, ...]) -> dict[str, Any]:
    """Returns the layout as TFDS's FeaturesDict; each `/` in a feature's name is a level of nesting."""
    nested = {tuple(one.name.split("/")) if layout.nests else (one.name,): one for one in layout.features}
    return _level_json(nested, images, class_names)


def _level_json(
    level: Mapping[tuple[str, ...], Feature], images: StoredImages, class_names: tuple[str, ...]
) -> dict[str, Any]:
    """Returns a level of nesting: names of the levels below it, and of a feature there -> feature."""
    below: dict[str, dict[tuple[str, ...], Feature]] = {}
    for (name, *rest), feature in level.items():
        below.setdefault(name, {})[tuple(rest)] = feature
    features = {
        name: _feature_json(found[()], images, class_names) if () in found else _level_json(found, images, class_names)
        for name, found in below.items()
    }
    # TFDS stores objects as one sequence of boxes with labels, not as separate sequences of boxes and labels.
    sequences = [feature["sequence"]["feature"] for feature in features.values() if "sequence" in feature]
    has_points = any(one.kind.per in (Per.KEYPOINT, Per.CORNER) for path, one in level.items() if len(path) == 1)
    if _BOX in sequences and len(sequences) == len(features) and not has_points:
        return _sequence(_dict_json(dict(zip(features, sequences, strict=True))))
    return _dict_json(features)


def _dict_json(features: Mapping[str, Any]) -> dict[str, Any]:
    return _json("features_dict.FeaturesDict", featuresDict={"features": features})


def _feature_json(feature: Feature, images: StoredImages, class_names: tuple[str, ...]) -> dict[str, Any]:
    if feature.holds_image:
        return _sequence(_image_json(images)) if feature.several else _image_json(images)
    if feature.kind.stored is Stored.MASK:
        return _file_json(_dimensions(images, 1), images.mask_bit_depth, "png")
    if feature.is_class:
        return _label_json(feature.class_names)
    if feature.length:
        return _tensor_json([str(feature.length)], _SCALARS[feature.type], "none")
    kind = feature.kind
    # TFDS stores classes as integers only.
    if kind.class_value is ClassValue.INDEX and class_names and feature.type == "int64":
        return _sequence(_label_json(class_names)) if kind.several else _label_json(class_names)
    if kind.row > 1:
        row = _BOX if feature.field == BOXES else _tensor_json([str(kind.row)], _SCALARS[feature.type], "none")
        return _sequence(row)
    if kind.stored is Stored.OBJECT_MASKS:
        return _sequence(_file_json(_dimensions(images, 1), 8, "png"))
    scalar = _scalar_json(_SCALARS[feature.type])
    return _sequence(scalar) if feature.several else scalar


def _dimensions(images: StoredImages, channels: int | None) -> list[str]:
    height, width = images.size or (-1, -1)
    return [str(height), str(width), str(channels or -1)]


def _file_json(dimensions: list[str], bit_depth: int, encoding: str) -> dict[str, Any]:
    described = {"shape": {"dimensions": dimensions}, "dtype": f"uint{bit_depth}", "encodingFormat": encoding}
    return _json("image_feature.Image", image=described)


def _image_json(images: StoredImages) -> dict[str, Any]:
    dimensions = _dimensions(images, images.channels)
    if images.encoding == "raw":
        if "-1" not in dimensions:
            return _tensor_json(dimensions, images.array_type or "uint8", "bytes")
    elif images.encoding in ("jpeg", "png") and images.channels:
        return _file_json(dimensions, images.bit_depth, images.encoding)
    # TFDS has no image feature for WebP or varying shapes and formats, so these images are plain bytes.
    return _scalar_json("string")


def _scalar_json(dtype: str) -> dict[str, Any]:
    return _json("scalar.Scalar", tensor={"shape": {}, "dtype": dtype, "encoding": "none"})


def _tensor_json(dimensions: list[str], dtype: str, encoding: str) -> dict[str, Any]:
    tensor = {"shape": {"dimensions": dimensions}, "dtype": dtype, "encoding": encoding}
    return _json("tensor_feature.Tensor", tensor=tensor)


def features_as_bytes(layout: Layout, images: StoredImages) -> list[str]:
    """Returns names of image features that TFDS reads as bytes, because it has no feature that decodes them."""
    is_scalar = _image_json(images)["pythonClassName"].endswith(".Scalar")
    return [feature.name for feature in layout.features if feature.holds_image and is_scalar]


def _label_json(class_names: tuple[str, ...]) -> dict[str, Any]:
    return _json("class_label_feature.ClassLabel", classLabel={"numClasses": str(len(class_names))})


def _sequence(inner: dict[str, Any]) -> dict[str, Any]:
    return _json("sequence_feature.Sequence", sequence={"feature": inner, "length": "-1"})


def _splits(shards: Sequence[Shard]) -> list[dict[str, Any]]:
    of_split = {split: list(found) for split, found in itertools.groupby(shards, key=operator.attrgetter("split"))}
    return [
        {
            "name": split,
            "shardLengths": [str(shard.records) for shard in found],
            "numBytes": str(sum(shard.bytes for shard in found)),
            "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
        }
        for split, found in of_split.items()
    ]
