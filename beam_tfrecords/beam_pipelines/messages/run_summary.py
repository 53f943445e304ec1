"""The run summary that `--json_summary` writes, and metrics for Prometheus' textfile collector."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.interrupts import Terminated
from beam_tfrecords.beam_pipelines.messages.exit_codes import (
    DONE,
    FAILED,
    INTERRUPTED,
    TERMINATED,
    UNPUBLISHED,
    WRONG_REQUEST,
)
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.errors import BuildError, LimitError, RequestError
from beam_tfrecords.escaping import json_file
from beam_tfrecords.storage.request_metrics import KINDS
from beam_tfrecords.transforms.stats import find_metric

# Metrics of the manifest that the run summary includes.
SUMMARIZED = (
    *("records", "failures", "filtered", "dropped_duplicates", "merged_rows", "replaced_members"),
    *("failure_reasons", "near_duplicates", "reuse"),
)


class _Metric(NamedTuple):
    """A metric for Prometheus: its name, its help, and the label of its counts, or "" for a single number."""

    name: str
    help: str
    label: str = ""


# Metric of the manifest -> metric for Prometheus.
METRICS = {
    "records": _Metric("records", "Records of the dataset."),
    "bytes": _Metric("dataset_bytes", "Size of the shards."),
    "failure_reasons": _Metric("failures", "Samples rejected, by reason.", "reason"),
    "reuse": _Metric("records_by_origin", "Records copied, reserialized or converted.", "origin"),
}


@dataclasses.dataclass
class RunSummary:
    """A run of `convert`, filled in during the run.

    Attributes:
      status: published, unchanged, unpublished, submitted, dry_run, refused, failed or interrupted.
      message: the error, one line.
      dataset: folder of the published or unchanged dataset, or None.
      request_metrics: requests to object stores.
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

    def add_request_metrics(self, request_metrics: Mapping[str, int] | None = None) -> Mapping[str, int]:
        """Adds the requests of workers and of this process to object stores; returns the totals."""
        self.request_metrics.update(request_metrics or {})
        self.request_metrics.update(storage.take_request_metrics())
        return self.request_metrics

    @contextlib.contextmanager
    def written(self) -> Iterator[None]:
        """Writes the run summary and the metrics at the end of the block, even if it raises."""
        begin = time.time()
        try:
            yield
        except RequestError as error:
            self._fail(WRONG_REQUEST, "refused", str(error))
            raise
        except LimitError as error:
            self._fail(UNPUBLISHED, "unpublished", str(error))
            raise
        except BuildError as error:
            self._fail(FAILED, "failed", str(error))
            raise
        except Terminated:
            self._fail(TERMINATED, "interrupted", "terminated")
            raise
        except KeyboardInterrupt:
            self._fail(INTERRUPTED, "interrupted", "interrupted")
            raise
        except Exception as error:
            self._fail(FAILED, "failed", f"{type(error).__name__}: {error}")
            raise
        finally:
            end = time.time()
            self.add_request_metrics()
            if self.json_summary:
                _write(self.json_summary, json_file(self._summary(begin, end)))
            if self.metrics_file:
                _write(self.metrics_file, self._metrics(begin, end))

    def _fail(self, exit_code: int, status: str, message: str) -> None:
        from beam_tfrecords.beam_pipelines.settings.definitions import show_flags

        self.exit_code, self.status, self.message = exit_code, status, show_flags(message)

    def _summary(self, begin: float, end: float) -> dict[str, Any]:
        return {
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
            "object_store": dict(sorted(self.request_metrics.items())),
            **self.more,
        }

    def _metrics(self, begin: float, end: float) -> bytes:
        from prometheus_client import CollectorRegistry, Gauge, generate_latest

        registry = CollectorRegistry()

        def add(name: str, help_text: str, value: float, **labels: str) -> None:
            labels = {"output": self.output or "", **labels}
            gauge = gauges.get(name) or Gauge(f"beam_tfrecords_{name}", help_text, list(labels), registry=registry)
            gauges[name] = gauge
            gauge.labels(**labels).set(value)

        gauges: dict[str, Gauge] = {}
        add("exit_code", "Exit code of the last run of convert.", self.exit_code)
        add("duration_seconds", "Duration of the last run.", end - begin)
        add("end_timestamp_seconds", "When the last run ended.", end)
        if "listed" in self.manifest:
            add("listed", "Samples listed.", self.manifest["listed"])
        for name, metric in METRICS.items():
            value = find_metric(self.manifest, name)
            if metric.label:
                for value_name, count in (value or {}).items():
                    add(metric.name, metric.help, count, **{metric.label: value_name})
            elif value is not None:
                add(metric.name, metric.help, value)
        for kind in KINDS if self.request_metrics else ():
            add("object_store_requests", "Requests to object stores, by kind.", self.request_metrics[kind], kind=kind)
        for kind in ("retries", "bytes_read", "bytes_written") if self.request_metrics else ():
            add(f"object_store_{kind}", f"Object stores: {kind.replace('_', ' ')}.", self.request_metrics[kind])
        return bytes(generate_latest(registry))


def _write(path: str, content: bytes) -> None:
    try:
        storage.write_bytes(storage.absolute(path), content)
    except (OSError, BuildError, RequestError) as error:  # does not affect the run's result
        show(f"note: {path} could not be written: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
