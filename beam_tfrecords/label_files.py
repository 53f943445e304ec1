"""The files that hold the class names, as TensorFlow Datasets reads them."""

from __future__ import annotations

import io
from collections.abc import Sequence

from beam_tfrecords.examples.layouts import Layout


def label_files(layout: Layout, class_names: Sequence[str]) -> list[str]:
    """Names of the files that hold the class names."""
    features = (feature for feature in layout.features if feature.field in ("label.index", "labels.index"))
    return [f"{feature.name.replace('/', '-')}.labels.txt" for feature in features] if class_names else []


def fits_label_file(name: str) -> bool:
    """Whether TFDS reads a class name back: it strips every line of the file and leaves out empty ones."""
    return bool(name) and name == name.strip() and not {"\n", "\r"} & set(name)


def read_label_file(data: bytes) -> list[str]:
    """The class names as TFDS reads them (`class_label_feature._load_names_from_file`)."""
    return [name.strip() for name in io.StringIO(data.decode(errors="replace"), newline=None) if name.strip()]
