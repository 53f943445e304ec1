"""The dataset that users get: what `open_dataset` and `build` return."""

from __future__ import annotations

import dataclasses
import operator
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from beam_tfrecords import storage
from beam_tfrecords.byte_sizes import number_of_bytes
from beam_tfrecords.dataset.dataset import StoredDataset
from beam_tfrecords.dataset.pointers import open_latest
from beam_tfrecords.errors import RequestError
from beam_tfrecords.escaping import escape
from beam_tfrecords.features.layouts import Feature
from beam_tfrecords.geometry.sizes import ImageSize, ResizeMode
from beam_tfrecords.nearest import did_you_mean

if TYPE_CHECKING:
    from beam_tfrecords.reading.records import Form, Records
    from beam_tfrecords.storage.cache_folder import CacheFolder

# Class names that `repr` shows.
_FEW_NAMES = 8
# Default size of a local cache.
_CACHE_SIZE = "50GB"


@dataclasses.dataclass(frozen=True, repr=False)
class Dataset(StoredDataset):
    """A finished dataset.

        >>> from beam_tfrecords import open_dataset
        >>> dataset = open_dataset("out/")
        >>> dataset.num_records, dataset.class_names
        (12, ('cat', 'dog'))
        >>> dataset["train"][0]["image"].shape
        (16, 16, 3)

    Attributes: see `StoredDataset`.
    """

    @classmethod
    def of(cls, stored: StoredDataset) -> Dataset:
        """Makes a dataset of one that is already opened."""
        return cls(**{field.name: getattr(stored, field.name) for field in dataclasses.fields(stored)})

    def __repr__(self) -> str:
        splits = ", ".join(f"{split} {records:,}" for split, records in self.splits.items())
        features = ", ".join(feature.name for feature in self.layout.features)
        names = [*self.class_names[:_FEW_NAMES], *(["…"] if len(self.class_names) > _FEW_NAMES else [])]
        classes = f"; {len(self.class_names):,} classes: {', '.join(names)}" if names else ""
        lines = [
            f"Dataset({self.path!r})",
            f"  {self.num_records:,} records in {self.num_shards:,} shards: {splits}",
            f"  features: {features}{classes}",
        ]
        return "\n".join(map(escape, lines))

    def __fspath__(self) -> str:
        return self.path

    def __len__(self) -> int:
        return self.num_records

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, split: str) -> Records:
        if not isinstance(split, str):
            raise TypeError(f"dataset[{split!r}]: expected a split, such as dataset['train']; its records have numbers")
        return self.records(split)

    def __iter__(self) -> Iterator[str]:
        return iter(self.splits)

    @property
    def features(self) -> dict[str, Feature]:
        """Features of an example by name, with their content, type and classes."""
        return {
            feature.name: dataclasses.replace(feature, class_names=self.class_names) if feature.class_value else feature
            for feature in self.layout.features
        }

    def int2str(self, index: int) -> str:
        """Returns the class name of an index.

        Raises:
          ValueError: the index is invalid.
        """
        try:
            number = operator.index(index)
        except TypeError as error:
            raise ValueError(f"{index!r} is not a class index; expected one number, such as 0") from error
        if not 0 <= number < len(self.class_names):
            raise ValueError(f"{index} is not a class index; there are {len(self.class_names):,} classes")
        return self.class_names[number]

    def str2int(self, name: str) -> int:
        """Returns the index of a class name.

        Raises:
          ValueError: the class does not exist.
        """
        if not isinstance(name, str):
            raise ValueError(f"{name!r} is not a class; expected one name, such as 'cat'")
        if name not in self.class_names:
            hint = did_you_mean(name, self.class_names, otherwise=f"there are {len(self.class_names):,}")
            raise ValueError(f"{name!r} is not a class; {hint}")
        return self.class_names.index(name)

    @property
    def class_counts(self) -> dict[str, dict[str, int]]:
        """Number of records, or of objects, by split and class name."""
        return {split: dict(entry.get("classes", {})) for split, entry in self.manifest["splits"].items()}

    def records(
        self,
        split: str | None = None,
        *,
        form: Form = "pixels",
        image_size: ImageSize = None,
        resize_mode: ResizeMode | None = None,
        verify: bool = False,
    ) -> Records:
        """Returns the records of a split, with random access; needs no TensorFlow.

        Args:
          split: name of a split, or an expression as in `load`, such as "train[:10%]+validation"; None or "all" for
            all splits, one after the other.
          form: "pixels" returns each example as a dict of its features, with images as [H, W, C] uint8 arrays and text
            as `str`; "features" does the same, but leaves images and text as the stored bytes; "bytes" returns the
            serialized example.
          image_size: (height, width) of decoded images in pixels, or one number for both, as in `load`.
          resize_mode: how images are resized, as in `load`.
          verify: checks the CRCs of each record that is read.

        Raises:
          RequestError: the split does not exist, or the dataset is compressed.
          ValueError: the form or the size is invalid.
        """
        # Imported here, since a dataset is also opened to look at its manifest.
        from beam_tfrecords.reading.records import open_records

        return open_records(self, split, form=form, image_size=image_size, resize_mode=resize_mode, verify=verify)

    def verify(self) -> list[str]:
        """Checks every CRC, count, feature and image, as `beam-tfrecords verify` does.

        Returns:
          The problems found, one line each; empty if the dataset is undamaged.
        """
        from beam_tfrecords.beam_pipelines.verify import verify_dataset

        return verify_dataset(self.path)

    def export(self, to: str | os.PathLike[str], *, split: str | None = None, where: str | None = None) -> None:
        """Writes images in folders, a table of everything else, and boxes as COCO, as `beam-tfrecords export` does.

        Args:
          to: a new or empty folder; local or in a bucket.
          split: name of a split; None for all.
          where: a condition as in `records.filter`; None for all records.

        Raises:
          RequestError: the folder is not empty, or no record satisfies the condition.
          BuildError: the dataset is damaged.
        """
        from beam_tfrecords.beam_pipelines.export.export import export_dataset

        export_dataset(self, to, split=split, where=where)


def open_dataset(
    path: str | os.PathLike[str], *, cache: str | os.PathLike[str] | None = None, cache_size: int | str = _CACHE_SIZE
) -> Dataset:
    """Opens a finished dataset; in a folder with versions, the one that `LATEST` names now.

        >>> dataset = open_dataset("out/")
        >>> dataset.splits
        {'train': 12}

    Args:
      path: folder of the dataset.
      cache: a local folder that keeps records and indices read from a bucket; processes and datasets may share it. None
        for no cache.
      cache_size: size limit of the folder in bytes, or text such as "50GB"; evicts the least recently used data first.

    Raises:
      RequestError: the dataset does not exist, or a later version of beam-tfrecords wrote it; or the cache is in a
        bucket.
      BuildError: the manifest cannot be read, or LATEST is damaged.
      ValueError: the cache size cannot be parsed.
    """
    folder = _open_cache(cache, cache_size)
    return dataclasses.replace(Dataset.of(open_latest(path)), cache=folder)


def _open_cache(cache: str | os.PathLike[str] | None, size: int | str) -> CacheFolder | None:
    if cache is None:
        if size != _CACHE_SIZE:
            raise ValueError(f"cache_size={size!r}: there is no cache; give its folder too, such as cache='/tmp/c'")
        return None
    from beam_tfrecords.storage.cache_folder import CacheFolder

    path = os.fspath(cache)
    if storage.has_scheme(path):
        raise RequestError(f"`cache={path}`: expected a folder of this machine", code="invalid_value")
    try:
        return CacheFolder(storage.absolute(path), number_of_bytes(size))
    except ValueError as error:
        raise ValueError(f"cache_size={size!r}: {error}") from error
