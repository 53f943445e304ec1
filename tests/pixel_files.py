"""Writes files of pixels by the definitions of their formats."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np


def npy_of(data: np.ndarray) -> bytes:
    """A .npy file."""
    content = io.BytesIO()
    np.save(content, data)
    return content.getvalue()


def idx_of(data: np.ndarray) -> bytes:
    """An IDX file of bytes (yann.lecun.com/exdb/mnist)."""
    return bytes([0, 0, 8, data.ndim]) + np.array(data.shape, ">i4").tobytes() + data.astype(np.uint8).tobytes()


def save_idx(path: Path, data: np.ndarray) -> None:
    """An IDX file, compressed if its name ends in .gz."""
    opened: Callable[..., io.IOBase] = gzip.open if path.name.endswith(".gz") else open
    path.parent.mkdir(parents=True, exist_ok=True)
    with opened(path, "wb") as file:
        file.write(idx_of(data))


def save_mnist(folder: Path, images: Mapping[str, np.ndarray], labels: Mapping[str, np.ndarray]) -> None:
    """The four files of MNIST, those of `train` compressed; by split, `train` and `test`."""
    for split, name, end in (("train", "train", ".gz"), ("test", "t10k", "")):
        save_idx(folder / f"{name}-images-idx3-ubyte{end}", images[split])
        save_idx(folder / f"{name}-labels-idx1-ubyte{end}", labels[split])


def cifar_of(images: np.ndarray, *labels: Sequence[int]) -> bytes:
    """A file of CIFAR's binary version (cs.toronto.edu/~kriz/cifar.html).

    Args:
      images: [N, 32, 32, 3] uint8.
      labels: of CIFAR-100, first the coarse ones.
    """
    planes = images.transpose(0, 3, 1, 2)
    return b"".join(bytes([*row, *plane.tobytes()]) for plane, *row in zip(planes, *labels, strict=True))


def save_cifar(path: Path, images: np.ndarray, *labels: Sequence[int]) -> None:
    """Writes such a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(cifar_of(images, *labels))
