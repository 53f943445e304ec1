"""Code that reads a dataset, to copy from its report and its card."""

from __future__ import annotations

import dataclasses

from beam_tfrecords.dataset import Dataset
from beam_tfrecords.examples.layouts import MASK_FIELD


@dataclasses.dataclass(frozen=True)
class Snippet:
    """Code for one framework."""

    title: str
    code: str


def reading_code(dataset: Dataset) -> list[Snippet]:
    """How to read the first split, or the one called train; `FOLDER` is the dataset's folder."""
    split = "train" if "train" in dataset.splits else min(dataset.splits)
    folder = f"FOLDER = {dataset.manifest['name']!r}  # the folder of this page; gs:// and s3:// too\n\n"
    features = {feature.field: feature.name for feature in dataset.layout.features}
    images = [feature.name for feature in dataset.layout.features if feature.holds_image]
    # Images of different sizes make no batch.
    size = "" if not images or dataset.images.size else ", image_size=224, resize_mode='crop'"
    label = features.get("label.index") or features.get("labels.index")
    shown: dict[str, str | None] = {"image": images[0]} if len(images) == 1 else {}
    shown |= {f"image_{number}": name for number, name in enumerate(images, 1) if len(images) > 1}
    shown |= {"mask": features.get(MASK_FIELD), "label": label}
    known = {word: name for word, name in shown.items() if name is not None} or {"value": min(features.values())}

    def take(example: str) -> str:
        return f"{', '.join(known)} = {', '.join(f'{example}[{name!r}]' for name in known.values())}"

    snippets = [
        Snippet(
            "TensorFlow: tf.data",
            "from beam_tfrecords import load\n\n"
            f"{folder}for batch in load(FOLDER, {split!r}, batch_size=32, shuffle=True{size}):\n"
            f"    {take('batch')}\n",
        )
    ]
    if dataset.compression == "none":
        snippets += [
            Snippet(
                "TensorFlow Datasets",
                "import tensorflow_datasets as tfds\n\n"
                f"{folder}for example in tfds.builder_from_directory(FOLDER).as_dataset(split={split!r}):\n"
                f"    {take('example')}\n",
            ),
            Snippet(
                "PyTorch",
                "from beam_tfrecords import open_dataset\nfrom torch.utils.data import DataLoader\n\n"
                f"{folder}records = open_dataset(FOLDER).records({split!r})  # random access, no TensorFlow\n"
                "loader = DataLoader(records, batch_size=32, shuffle=True, num_workers=2, collate_fn=list)\n"
                "for examples in loader:  # a list of dicts; images are [H, W, C] uint8 arrays\n"
                f"    {take('examples[0]')}\n",
            ),
            Snippet(
                "JAX: Grain",
                "import grain\nfrom beam_tfrecords import open_dataset\n\n"
                f"{folder}records = open_dataset(FOLDER).records({split!r})\n"
                "for example in grain.MapDataset.source(records).shuffle(seed=0):\n"
                f"    {take('example')}\n",
            ),
        ]
    return snippets
