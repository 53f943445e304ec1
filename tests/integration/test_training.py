"""A small model that is trained for two epochs on what each reader gives does better than chance."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grain
import keras
import numpy as np
import pytest
import torch
from PIL import Image

from beam_tfrecords import load, open_dataset
from beam_tfrecords.grain import RecordSource
from beam_tfrecords.torch import RecordDataset

pytestmark = pytest.mark.nightly

SIZE, BATCH, EPOCHS = 32, 8, 2
CROPS = 10


def crops_of(photos: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Some crops of each of the sample photos, with the class of the photo."""
    chance = np.random.default_rng(0)
    for path in sorted(photos.glob("*/*.jpg")):
        with Image.open(path) as image:
            for _ in range(CROPS):
                left, top = (int(chance.integers(0, side // 2)) for side in image.size)
                box = (left, top, left + image.width // 2, top + image.height // 2)
                yield path.parent.name, np.asarray(image.convert("RGB").crop(box).resize((SIZE, SIZE)))


def write_classes(folder: Path, photos: Path) -> list[str]:
    for number, (label, pixels) in enumerate(crops_of(photos)):
        (folder / "photos" / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / "photos" / label / f"{number}.png")
    return [f"--input={folder / 'photos'}"]


def painted(photos: Path) -> Iterator[tuple[np.ndarray, tuple[int, int, int, int]]]:
    """Crops with a red rectangle, and where it is: left, top, right and bottom in pixels."""
    chance = np.random.default_rng(1)
    for _, pixels in crops_of(photos):
        left, top = chance.integers(0, SIZE - 12, 2).tolist()
        right, bottom = left + int(chance.integers(8, 12)), top + int(chance.integers(8, 12))
        pixels = pixels // 2
        pixels[top:bottom, left:right] = (255, 0, 0)
        yield pixels, (left, top, right, bottom)


def write_boxes(folder: Path, photos: Path) -> list[str]:
    (folder / "images").mkdir()
    images, annotations = [], []
    for number, (pixels, (left, top, right, bottom)) in enumerate(painted(photos), 1):
        Image.fromarray(pixels).save(folder / "images" / f"{number}.png")
        images.append({"id": number, "file_name": f"{number}.png", "height": SIZE, "width": SIZE})
        box = [left, top, right - left, bottom - top]
        annotations.append({"id": number, "image_id": number, "category_id": 1, "bbox": box, "area": box[2] * box[3]})
        annotations[-1]["iscrowd"] = 0
    coco = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "box"}]}
    (folder / "boxes.json").write_text(json.dumps(coco))
    return [f"--input={folder / 'boxes.json'}", f"--image_root={folder / 'images'}", "--layout=tfds"]


def write_masks(folder: Path, photos: Path) -> list[str]:
    (folder / "images").mkdir()
    for number, (pixels, (left, top, right, bottom)) in enumerate(painted(photos)):
        mask = np.zeros((SIZE, SIZE), np.uint8)
        mask[top:bottom, left:right] = 1
        Image.fromarray(pixels).save(folder / "images" / f"{number}.png")
        Image.fromarray(mask).save(folder / "images" / f"{number}_mask.png")
    return [f"--input={folder / 'images'}/*.png", "--mask_suffix=_mask", "--layout=segmentation"]


def target_of(task: str, example: Any) -> Any:
    """What a model is to say of an example: a class, the sides of the first box, or a class for each pixel."""
    if task == "classification":
        return example["label"]
    return example["objects/bbox"][0] if task == "detection" else example["mask"][..., 0]


WRITE: dict[str, Callable[[Path, Path], list[str]]] = {
    "classification": write_classes,
    "detection": write_boxes,
    "segmentation": write_masks,
}
OUTPUTS = {"classification": 7, "detection": 4, "segmentation": 2}


@pytest.fixture(scope="module", params=list(WRITE))
def task(request, tmp_path_factory, photos, build) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    words = WRITE[request.param](folder, photos)
    return request.param, build(folder / "out", *words, f"--image_size={SIZE}", "--resize_mode=exact")


def keras_model(task: str) -> Any:
    keras.utils.set_random_seed(0)
    layers = keras.layers
    body = [keras.Input((SIZE, SIZE, 3)), layers.Rescaling(1 / 127.5, -1)]
    if task == "segmentation":
        body += [layers.Conv2D(8, 3, padding="same", activation="relu"), layers.Conv2D(2, 1)]
    else:
        body += [layers.Conv2D(16, 5, strides=4, activation="relu"), layers.Flatten(), layers.Dense(OUTPUTS[task])]
    model = keras.Sequential(body)
    loss = "mse" if task == "detection" else keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.003), loss)
    return model


def train_keras(task: str, out: Path) -> Callable[[np.ndarray], np.ndarray]:
    def as_pair(example: Any) -> Any:
        return example["image"], target_of(task, example)

    model = keras_model(task)
    model.fit(load(out, "train", batch_size=BATCH, shuffle=True, seed=0, transform=as_pair), epochs=EPOCHS, verbose=0)
    return lambda images: model.predict(images, verbose=0)


def train_grain(task: str, out: Path) -> Callable[[np.ndarray], np.ndarray]:
    model = keras_model(task)
    examples = grain.MapDataset.source(RecordSource(open_dataset(out).records("train"))).shuffle(seed=0).repeat(EPOCHS)
    for images, targets in examples.map(lambda one: (one["image"], target_of(task, one))).batch(BATCH):
        model.train_on_batch(images, targets)
    return lambda images: model.predict(images, verbose=0)


def train_torch(task: str, out: Path) -> Callable[[np.ndarray], np.ndarray]:
    torch.manual_seed(0)
    nn = torch.nn
    if task == "segmentation":
        model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1))
    else:
        model = nn.Sequential(
            nn.Conv2d(3, 16, 5, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 7 * 7, OUTPUTS[task])
        )
    find_loss = nn.functional.mse_loss if task == "detection" else nn.functional.cross_entropy

    def as_pair(example: Any) -> Any:
        target = torch.as_tensor(target_of(task, example))
        return torch.from_numpy(example["image"]), target if task == "detection" else target.long()

    def predict(images: Any) -> Any:
        return model(torch.as_tensor(images).permute(0, 3, 1, 2) / 127.5 - 1)

    dataset = RecordDataset(open_dataset(out).records("train"), transform=as_pair)
    for _ in range(EPOCHS):
        for images, targets in torch.utils.data.DataLoader(dataset, BATCH, shuffle=True):
            model.zero_grad()
            find_loss(predict(images), targets).backward()
            # `torch.optim` imports a compiler that ends a process in which TensorFlow is imported.
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.05 * parameter.grad

    def predicted(images: np.ndarray) -> np.ndarray:
        found = predict(images).detach().numpy()
        return found.transpose(0, 2, 3, 1) if task == "segmentation" else found

    return predicted


@pytest.mark.parametrize("train", [train_keras, train_torch, train_grain])
def test_two_epochs_do_better_than_chance(task, train):
    name, out = task
    examples = list(open_dataset(out).records("train"))
    assert len(examples) == 42 * CROPS
    images = np.stack([example["image"] for example in examples])
    targets = np.stack([target_of(name, example) for example in examples])
    found = train(name, out)(images)
    if name == "detection":
        assert np.abs(found - targets).mean() < 0.7 * np.abs(targets - targets.mean(axis=0)).mean()
        return
    accuracy = (found.argmax(axis=-1) == targets).mean()
    most_frequent = np.bincount(targets.ravel()).max() / targets.size
    assert accuracy > most_frequent + (1 - most_frequent) * 0.15
