"""Writes the files about a run: a summary, and metrics for Prometheus' textfile collector."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.messages.exit_codes import (
    DONE,
    INTERRUPTED,
    LOCKED,
    OUTCOMES,
    TERMINATED,
    UNPUBLISHED,
    WRONG_REQUEST,
    exit_code_of,
)
from beam_tfrecords.beam_pipelines.messages.outcomes import Published, Unpublished
from beam_tfrecords.beam_pipelines.messages.summary import find_missing
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.errors import BuildError, RequestError, describe_exception
from beam_tfrecords.escaping import json_file
from beam_tfrecords.storage.request_metrics import KINDS
from beam_tfrecords.transforms.stats import find_metric

# Format of what `--json_summary` and `status --json` write; see docs/compatibility.md.
JSON_FORMAT = {"format": 1, "minor": 0}
# Metrics of the manifest that the run summary includes.
SUMMARIZED = (
    *("records", "failures", "filtered", "dropped_duplicates", "merged_rows", "replaced_members"),
    *("failure_reasons", "near_duplicates", "reuse"),
)


class _Gauge(NamedTuple):
    """A gauge for Prometheus.

    Attributes:
      help: what it counts.
      label: the label of its counts; "" for a single number.
      is_kept: whether a run that does not set it keeps its value in the file.
    """

    help: str
    label: str = ""
    is_kept: bool = True


_GAUGES = {
    "exit_code": _Gauge("Exit code of the last run of convert.", is_kept=False),
    "duration_seconds": _Gauge("Duration of the last run.", is_kept=False),
    "end_timestamp_seconds": _Gauge("When the last run ended.", is_kept=False),
    "last_success_timestamp_seconds": _Gauge("When a run last published the dataset or found it unchanged."),
    "listed": _Gauge("Samples listed."),
    "records": _Gauge("Records of the dataset."),
    "dataset_bytes": _Gauge("Size of the shards."),
    "failures": _Gauge("Samples rejected, by reason.", "reason"),
    "records_by_origin": _Gauge("Records copied, reserialized or converted.", "origin"),
    "object_store_requests": _Gauge("Requests to object stores, by kind.", "kind", is_kept=False),
    "object_store_retries": _Gauge("Object stores: retries.", is_kept=False),
    "object_store_bytes_read": _Gauge("Object stores: bytes read.", is_kept=False),
    "object_store_bytes_written": _Gauge("Object stores: bytes written.", is_kept=False),
}
# Metric of the manifest -> gauge.
METRICS = {
    "records": "records",
    "bytes": "dataset_bytes",
    "failure_reasons": "failures",
    "reuse": "records_by_origin",
}
_SUCCEEDED = ("published", "unchanged")
_PREFIX = "beam_tfrecords_"
# Size limit in bytes of an earlier metrics file.
_MOST_BYTES = 1 << 20
# Gauge -> value of its label, or "" -> number.
_Counts: TypeAlias = dict[str, dict[str, float]]


@dataclasses.dataclass
class RunSummary:
    """A run of `convert`, filled in during the run.

    Attributes:
      status: published, unchanged, unpublished, submitted, dry_run, refused, locked, failed or interrupted.
      message: the error, one line.
      dataset: folder of the published or unchanged dataset, or None.
      request_metrics: requests to object stores.
      began: start of the build, in seconds since the epoch; None for the start of this process's part.
      succeeded: when the dataset was published, in seconds since the epoch; None for the end of this run.
    """

    json_summary: str | None = None
    metrics_file: str | None = None
    exit_code: int = DONE
    status: str = "dry_run"
    message: str = ""
    output: str | None = None
    dataset: str | None = None
    manifest: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    more: dict[str, Any] = dataclasses.field(default_factory=dict)
    request_metrics: Counter[str] = dataclasses.field(default_factory=Counter)
    began: float | None = None
    succeeded: float | None = None

    def add_published(self, outcome: Published) -> None:
        """Fills in a published or unchanged dataset."""
        self.status = "unchanged" if outcome.is_unchanged else "published"
        self.dataset, self.manifest = outcome.path, outcome.dataset.manifest
        self.add_request_metrics(outcome.request_metrics)
        self.more |= {"removed_versions": outcome.removed, "pinned": outcome.pinned}

    def add_unpublished(self, outcome: Unpublished, message: str) -> None:
        """Fills in a build that published nothing; `message` says why in one line."""
        self.exit_code, self.status, self.message = UNPUBLISHED, "unpublished", message
        self.more |= {"guards": outcome.violated, "folder": outcome.folder}
        self.manifest = {"listed": outcome.listed, "failures": outcome.failed, "failure_reasons": outcome.reasons}

    def add_failure(self, exit_code: int, message: str) -> None:
        """Fills in a run that failed, was refused or was interrupted."""
        from beam_tfrecords.beam_pipelines.settings.definitions import show_flags

        self.exit_code, self.status, self.message = exit_code, OUTCOMES[exit_code], show_flags(message)

    def add_request_metrics(self, request_metrics: Mapping[str, int] | None = None) -> Mapping[str, int]:
        """Adds the requests of workers and of this process to object stores; returns the totals."""
        self.request_metrics.update(request_metrics or {})
        self.request_metrics.update(storage.take_request_metrics())
        return self.request_metrics

    @contextlib.contextmanager
    def written(self) -> Iterator[None]:
        """Writes the files at the end of the block, even if it raises."""
        begin = time.time()
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:
            code = exit_code_of(error)
            ended = {INTERRUPTED: "interrupted", TERMINATED: "terminated"}
            is_shown = code in (WRONG_REQUEST, UNPUBLISHED, LOCKED) or isinstance(error, BuildError)
            self.add_failure(code, ended.get(code) or (str(error) if is_shown else describe_exception(error)))
            raise
        finally:
            begin, end = self.began or begin, time.time()
            self.add_request_metrics()
            if self.json_summary:
                _write(self.json_summary, json_file(self._summary(begin, end)))
            if self.metrics_file:
                _write(self.metrics_file, self._metrics(begin, end, _read_metrics(self.metrics_file)))

    def _summary(self, begin: float, end: float) -> dict[str, Any]:
        return {
            **JSON_FORMAT,
            "exit_code": self.exit_code,
            "status": self.status,
            "message": self.message,
            "output": self.output,
            "dataset": self.dataset,
            "began": begin,
            "ended": end,
            "seconds": round(end - begin, 3),
            "listed": self.manifest.get("listed"),
            "damaged_containers": self.manifest.get("damaged_containers"),
            **{name: find_metric(self.manifest, name) for name in SUMMARIZED},
            "splits": self.manifest.get("splits"),
            "missing_classes": [found._asdict() for found in find_missing(self.manifest)],
            "ledger": self.manifest.get("ledger"),
            "object_store": dict(sorted(self.request_metrics.items())),
            **self.more,
        }

    def _metrics(self, begin: float, end: float, before: Mapping[str, _Counts]) -> bytes:
        # The file of a request that was refused before its output was known belongs to the same output.
        output = self.output or next(iter(before), "")
        kept = before.get(output, {})
        counts: _Counts = {name: kept[name] for name, gauge in _GAUGES.items() if gauge.is_kept and name in kept}
        counts["exit_code"] = {"": self.exit_code}
        counts["duration_seconds"] = {"": end - begin}
        counts["end_timestamp_seconds"] = {"": end}
        if self.status in _SUCCEEDED:
            counts["last_success_timestamp_seconds"] = {"": self.succeeded or end}
        if "listed" in self.manifest:
            counts["listed"] = {"": self.manifest["listed"]}
        for metric, name in METRICS.items():
            value = find_metric(self.manifest, metric)
            if value is not None:
                counts[name] = value if _GAUGES[name].label else {"": value}
        if self.request_metrics:
            counts["object_store_requests"] = {kind: self.request_metrics[kind] for kind in KINDS}
            for kind in ("retries", "bytes_read", "bytes_written"):
                counts[f"object_store_{kind}"] = {"": self.request_metrics[kind]}
        return _format_metrics(output, counts)


def _format_metrics(output: str, counts: _Counts) -> bytes:
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry()
    for name, (help_text, label, _) in _GAUGES.items():
        if name in counts:
            labels = ["output", label] if label else ["output"]
            gauge = Gauge(f"{_PREFIX}{name}", help_text, labels, registry=registry)
            for value, count in counts[name].items():
                gauge.labels(*([output, value] if label else [output])).set(count)
    return bytes(generate_latest(registry))


def _read_metrics(path: str) -> dict[str, _Counts]:
    """Reads the metrics of the previous run: output -> counts; returns none from a missing or damaged file."""
    from prometheus_client.parser import text_string_to_metric_families

    found: dict[str, _Counts] = {}
    try:
        if storage.exists(storage.absolute(path)):
            text = storage.read_range(storage.absolute(path), 0, _MOST_BYTES).decode()
            for sample in (sample for family in text_string_to_metric_families(text) for sample in family.samples):
                name = sample.name.removeprefix(_PREFIX)
                if name in _GAUGES:
                    counts = found.setdefault(sample.labels["output"], {}).setdefault(name, {})
                    counts[sample.labels[_GAUGES[name].label] if _GAUGES[name].label else ""] = sample.value
    except Exception:  # anybody may have written the file, and the parser raises any error for a damaged one
        return {}
    return found


def _write(path: str, content: bytes) -> None:
    try:
        storage.write_bytes(storage.absolute(path), content)
    except (OSError, BuildError, RequestError) as error:  # does not affect the run's result
        show(f"note: {path} could not be written: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
