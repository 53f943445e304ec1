"""Generates code that reads a dataset, for its report and its dataset card."""

from __future__ import annotations

import dataclasses

from beam_tfrecords.examples.layouts import MASK_FIELD
from beam_tfrecords.reading.dataset import Dataset


@dataclasses.dataclass(frozen=True)
class Snippet:
    """Code for one framework."""

    title: str
    code: str


def reading_code(dataset: Dataset) -> list[Snippet]:
    """Returns code that reads the split called train, or else the first; `FOLDER` is the dataset's folder."""
    split = "train" if "train" in dataset.splits else min(dataset.splits)
    folder = f"FOLDER = {dataset.manifest['name']!r}  # the folder of this page; gs:// and s3:// too\n\n"
    features = {feature.field: feature.name for feature in dataset.layout.features}
    images = [feature.name for feature in dataset.layout.features if feature.holds_image]
    # Images of different sizes cannot be batched.
    size = "" if not images or dataset.images.size else ', image_size=224, resize_mode="crop"'
    label = features.get("label.index") or features.get("labels.index")
    shown: dict[str, str | None] = {"image": images[0]} if len(images) == 1 else {}
    shown |= {f"image_{number}": name for number, name in enumerate(images, 1) if len(images) > 1}
    shown |= {"mask": features.get(MASK_FIELD), "label": label}
    known = {word: name for word, name in shown.items() if name is not None} or {"value": min(features.values())}

    def take(example: str, *, nested: bool = False) -> str:
        paths = [name.split("/") if nested else [name] for name in known.values()]
        values = [example + "".join(f"[{part!r}]" for part in path) for path in paths]
        return f"{', '.join(known)} = {', '.join(values)}"

    if dataset.class_names and dataset.layout.supervised == (known.get("image"), features.get("label.index")):
        shown_by = _training_code(dataset, folder, f"{split!r}", size)
    else:
        shown_by = _batch_code(folder, f"{split!r}", size, take("batch"), take("example"))
    tfds = Snippet(
        "TensorFlow Datasets",
        "import tensorflow_datasets as tfds\n\n"
        f"{folder}for example in tfds.builder_from_directory(FOLDER).as_dataset(split={split!r}):\n"
        f"    {take('example', nested=dataset.layout.nests)}\n",
    )
    return [shown_by[0], tfds, *shown_by[1:]] if dataset.compression == "none" else shown_by[:1]


def _batch_code(folder: str, split: str, size: str, batch: str, example: str) -> list[Snippet]:
    """Returns code that unpacks batches or examples."""
    return [
        Snippet(
            "TensorFlow: tf.data",
            "from beam_tfrecords import load\n\n"
            f"{folder}for batch in load(FOLDER, {split}, batch_size=32, shuffle=True{size}):\n"
            f"    {batch}\n",
        ),
        Snippet(
            "PyTorch",
            "from torch.utils.data import DataLoader\n\nfrom beam_tfrecords import open_dataset\n\n"
            f"{folder}records = open_dataset(FOLDER).records({split}{size})  # random access, no TensorFlow\n"
            "for batch in DataLoader(records, batch_size=32, shuffle=True, num_workers=2):\n"
            f"    {batch}\n",
        ),
        Snippet(
            "JAX: Grain",
            "import grain\n\nfrom beam_tfrecords import open_dataset\n\n"
            f"{folder}records = open_dataset(FOLDER).records({split}{size})\n"
            "for example in grain.MapDataset.source(records).shuffle(seed=0):\n"
            f"    {example}\n",
        ),
    ]


def _training_code(dataset: Dataset, folder: str, split: str, size: str) -> list[Snippet]:
    """Returns code that trains a small classifier."""
    classes, images = len(dataset.class_names), dataset.images
    scale = 65535 if images.bit_depth == 16 else 255
    model = (
        f'layers = [keras.layers.Rescaling(1 / {scale}), keras.layers.Conv2D(32, 5, strides=4, activation="relu")]\n'
        f'layers += [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense({classes}, activation="softmax")]\n'
        "model = keras.Sequential(layers)\n"
        'model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])\n'
    )
    return [
        Snippet(
            "TensorFlow: Keras",
            "import keras\n\nfrom beam_tfrecords import load\n\n"
            f"{folder}train = load(FOLDER, {split}, batch_size=32, shuffle=True, as_supervised=True{size})\n"
            f"{model}model.fit(train, epochs=2)\n",
        ),
        Snippet(
            "PyTorch",
            "import torch\n\nfrom beam_tfrecords import open_dataset\n"
            "from beam_tfrecords.torch import RecordDataset\n\n"
            f"{folder}records = open_dataset(FOLDER).records({split})  # random access, no TensorFlow\n"
            f"train = RecordDataset(records, as_supervised=True{size})\n"
            f"layers = [torch.nn.Conv2d({images.channels or 3}, 32, 5, stride=4), torch.nn.ReLU()]\n"
            f"layers += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, {classes})]\n"
            "model = torch.nn.Sequential(*layers)\n"
            "optimizer = torch.optim.Adam(model.parameters())\n"
            "for images, labels in torch.utils.data.DataLoader(train, batch_size=32, shuffle=True, num_workers=2):\n"
            "    optimizer.zero_grad()\n"
            f"    torch.nn.functional.cross_entropy(model(images / {scale}), labels).backward()\n"
            "    optimizer.step()\n",
        ),
        Snippet(
            "JAX: Grain",
            "import grain\nimport keras  # on JAX with KERAS_BACKEND=jax\n\nfrom beam_tfrecords import open_dataset\n"
            "from beam_tfrecords.grain import RecordSource\n\n"
            f"{folder}source = RecordSource(open_dataset(FOLDER).records({split}), as_supervised=True{size})\n"
            "train = grain.MapDataset.source(source).shuffle(seed=0).repeat(2).batch(32)\n"
            f"{model}for images, labels in train:  # [32, H, W, C] and [32]\n"
            "    model.train_on_batch(images, labels)\n",
        ),
    ]
