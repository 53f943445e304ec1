"""Outcomes of a build: a dataset, or nothing published."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from beam_tfrecords.dataset.dataset import StoredDataset
from beam_tfrecords.transforms.stats import DUPLICATE_COUNTS, Stats


@dataclasses.dataclass(frozen=True)
class Published:
    """A finished dataset.

    Attributes:
      dataset: the opened dataset.
      is_unchanged: whether it is the previous version, because nothing has changed.
      request_metrics: requests of the workers to object stores.
      report: path of `report.html`, or None if it was not written.
      removed: names of the versions that were removed after publishing.
      pinned: the version that LATEST keeps naming, or None.
    """

    dataset: StoredDataset
    is_unchanged: bool = False
    request_metrics: Mapping[str, int] = dataclasses.field(default_factory=dict)
    report: str | None = None
    removed: tuple[str, ...] = ()
    pinned: str | None = None

    @property
    def path(self) -> str:
        """Folder of the dataset."""
        return self.dataset.path


@dataclasses.dataclass(frozen=True)
class Unpublished:
    """A build that published nothing: too many samples failed, images occur twice, or guards are violated.

    Attributes:
      listed: number of samples listed.
      failed: number of samples rejected.
      reasons: reason -> number of samples.
      duplicates: metric of identical images -> count, if the request forbids them.
      folder: folder with the lists of failures, duplicates and changes.
      causes: violated limits, in words.
      violated: results of violated guards, one line each.
      guards: names of the violated guards.
      remedy: settings with which the same build publishes what it has written; none if no setting helps.
    """

    listed: int
    failed: int
    reasons: Mapping[str, int]
    duplicates: Mapping[str, int]
    folder: str
    causes: tuple[str, ...] = ()
    violated: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    remedy: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Unpublished:
        """Returns the outcome that `read_outcome` has read from a build's folder."""
        stats = Stats.from_json(values["stats"])
        forbidden = DUPLICATE_COUNTS if values["forbids_duplicates"] else ()
        return cls(
            listed=sum(values["listed"].values()),
            failed=stats.total("failed"),
            reasons=stats.failure_reasons(),
            duplicates={what: stats.total("duplicates", what) for what in forbidden},
            folder=values["folder"],
            causes=tuple(values["causes"]),
            violated=tuple(values["tripped"]),
            guards=tuple(values["guards"]),
            remedy=values["remedy"],
        )
