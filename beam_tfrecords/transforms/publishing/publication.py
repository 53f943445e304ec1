"""The settings for publishing a dataset, and its access to the output."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from beam_tfrecords import storage
from beam_tfrecords.dataset.files import CARD, CROISSANT, MANIFEST, REPORT, SHARDS, SUCCESS, ShardNames
from beam_tfrecords.dataset.manifest import MANIFEST_FORMAT, Shard, lists_shards
from beam_tfrecords.dataset.published_paths import PublishedPaths
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.storage.fence import Fence
from beam_tfrecords.transforms.publishing.tfds_metadata import name_metadata
from beam_tfrecords.transforms.request.build_spec import Duplicates
from beam_tfrecords.transforms.stats import BUILD_METRICS, Stats, find_size, share_above

if TYPE_CHECKING:
    from beam_tfrecords.transforms.publishing.changes import History


class WrittenFile(NamedTuple):
    """A file of a dataset.

    Attributes:
      sha256: hex digest.
      bytes: size in bytes.
    """

    sha256: str
    bytes: int


@dataclasses.dataclass(frozen=True)
class Publication:
    """Everything that publishing needs besides the shards and counts.

    Attributes:
      output: the dataset's folder.
      folder: the build's folder for temporary files.
      name: the dataset's name.
      layout: features of an example.
      class_names: classes in index order.
      listed_classes: classes that listed samples have.
      listed: split -> number of listed samples; "" counts samples without a valid split.
      max_failures: share of the samples that may fail.
      duplicates: what to do with images that have the same bytes.
      metadata: other values for the manifest: spec, versions, input fingerprint, skipped files.
      count_shards: returns the number of shards of a split from its bytes and `records`.
      fence: the right to publish.
      is_new: whether the output was empty when the build started.
      paths: published paths of the request.
      history: the preceding versions; None if the output has no versions.
    """

    output: str
    folder: str
    name: str
    layout: Layout
    class_names: tuple[str, ...]
    listed_classes: frozenset[str]
    listed: Mapping[str, int]
    max_failures: float
    duplicates: Duplicates
    metadata: Mapping[str, Any]
    count_shards: Callable[..., int]
    fence: Fence
    is_new: bool
    paths: PublishedPaths
    history: History | None = None

    @property
    def root(self) -> str:
        """The folder that was given to `convert`."""
        return self.history.root if self.history else self.output

    @property
    def shard_names(self) -> ShardNames:
        """The file names of the shards."""
        return ShardNames(self.output, self.name, staging=self.folder)

    def name_shards(self, stats: Stats) -> Iterator[str]:
        """Yields the names of all shards, of their indices, and of the file that lists them, if there is one."""
        names, total = self.shard_names, 0
        sizes, records = stats.by("bytes"), stats.by("written")
        for split in filter(None, self.listed):
            shards = self.count_shards(sizes.get(split, 0), records=records.get(split, 0))
            total += shards
            for number in range(shards):
                key = split, number, shards
                yield from (names.shard(key), names.index(key))
        if not lists_shards(total):
            yield SHARDS

    def name_metadata(self) -> Iterator[str]:
        """Yields the names of the files that describe the dataset, and of its report."""
        yield from name_metadata(self.layout, self.class_names)
        yield from (CARD, CROISSANT, MANIFEST, SUCCESS, REPORT)

    def delete(self, paths: Sequence[str]) -> None:
        """Deletes files of the output, after checking that no other build has taken over.

        Raises:
          BuildError: another build has taken over.
        """
        storage.delete_checked(paths, staging=self.folder, check=self.fence.check)

    def write(self, name: str, content: bytes, *, check: storage.Check | None = None) -> WrittenFile:
        """Writes a file of the dataset.

        Args:
          name: name of the file.
          content: content of the file.
          check: check of the fence that several files share; None checks the fence for this file.

        Raises:
          BuildError: another build has taken over, or has written the file.
        """
        path = storage.join(self.output, name)
        storage.write_once(path, content, staging=self.folder, check=check or self.fence.check)
        return WrittenFile(hashlib.sha256(content).hexdigest(), len(content))

    def find_causes(self, stats: Stats) -> Iterator[str]:
        """Yields what prevents publishing, in words: no records, or more failures or duplicates than allowed."""
        listed = self._count_samples(stats)
        failed, filtered = stats.total("failed"), stats.total("filtered")
        share = f"{failed:,} of {listed:,} samples failed"
        are_few = failed <= self.max_failures * listed
        if self.duplicates is Duplicates.FAIL and stats.total("duplicates", "groups"):
            yield f"there are identical images, and `duplicates={Duplicates.FAIL.value}` allows none"
        if not are_few:
            yield f"{share}; `max_failures={self.max_failures:g}` allows fewer"
        if stats.total("written"):
            return
        if filtered:
            names = " and ".join(
                f"`{name}`" for name in ("where", "map") if self.metadata["spec"].get(name) is not None
            )
            others = f"{share} and {filtered:,}" if failed and are_few else f"{filtered:,} of {listed:,} samples"
            yield f"{others} were filtered; no record was written"
            yield f"{names} left out every sample that did not fail; change it and start again"
        elif are_few:
            yield f"{share}; no record was written"

    def _count_samples(self, stats: Stats) -> int:
        """Returns the number of samples: rows of one image count as one, and replaced members do not count."""
        return sum(self.listed.values()) - stats.total("merged") - stats.total("replaced")

    def find_remedy(self, stats: Stats) -> dict[str, Any]:
        """Returns the settings with which the build publishes what it has written; none if it publishes or cannot."""
        listed, failed = self._count_samples(stats), stats.total("failed")
        remedy: dict[str, Any] = {}
        if self.duplicates is Duplicates.FAIL and stats.total("duplicates", "groups"):
            remedy["duplicates"] = Duplicates.DROP.value
        if failed > self.max_failures * listed:
            remedy["max_failures"] = share_above(failed, listed)
        return remedy if stats.total("written") else {}

    def describe(self, stats: Stats, shards: Sequence[Shard] = ()) -> dict[str, Any]:
        """Returns the manifest. The same data and spec always give the same manifest, so it contains no times.

        Only `reuse` and the digest of `changes.json` depend on previous datasets.

        Args:
          stats: the counts of the build.
          shards: all shards, by split and number; empty before they are composed. See `lists_shards`.
        """
        by_split, counted = stats.by_split(self.listed), Counter(shard.split for shard in shards)
        heads, metrics = self.layout.heads, BUILD_METRICS.items()
        splits = {
            split: {
                "listed": samples,
                "shards": counted[split],
                **{name: metric.read(by_split[split], split) for name, metric in metrics if metric.of_splits},
                **({"heads": {name: stats.by("head", split, name) for name in heads}} if heads else {}),
            }
            for split, samples in sorted(self.listed.items())
            if split
        }
        unwritten = self.listed_classes.difference(*(entry["classes"] for entry in splits.values()))
        # A filter may leave classes out on purpose.
        is_told = unwritten and not stats.total("filtered")
        return {
            **MANIFEST_FORMAT,
            "name": self.name,
            "listed": sum(self.listed.values()),
            **{name: metric.read(stats) for name, metric in metrics if metric.of_build},
            "class_names": list(self.class_names),
            **describe_heads(self.layout),
            **({"unwritten_classes": sorted(unwritten)} if is_told else {}),
            "splits": splits,
            **({"shards": [shard.to_json() for shard in shards]} if lists_shards(len(shards)) else {}),
            "files": {},
            **({"array_size": find_size(stats)} if Content.ARRAY in self.layout.required else {}),
            **self.metadata,
        }


def describe_heads(layout: Layout) -> dict[str, Any]:
    """Returns the manifest entry with the classes of the features that have some of their own; none without them."""
    names = {name: list(head.class_names) for name, head in layout.heads.items()}
    return {"heads": names} if names else {}
