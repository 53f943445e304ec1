"""Renders `report.html` from the files of a dataset."""

from __future__ import annotations

import functools
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import jinja2
import numpy as np
import yaml
from markupsafe import Markup

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.messages.progress import ReadProgress
from beam_tfrecords.beam_pipelines.messages.summary import describe_changes, describe_missing, format_bytes
from beam_tfrecords.beam_pipelines.report.index_scan import (
    EXTREMES,
    MOST_ROWS,
    ChosenRecord,
    IndexScan,
    choose_groups,
    scan_index,
)
from beam_tfrecords.beam_pipelines.report.samples import ShownRecord, read_shown, thumbnail_side
from beam_tfrecords.beam_pipelines.settings.definitions import show_flags
from beam_tfrecords.dataset.dataset import StoredDataset
from beam_tfrecords.dataset.files import CHANGES, DUPLICATES, FAILURES, REPORT, SUCCESS, VERSION_NAME
from beam_tfrecords.dataset.manifest import FAILURE_CHECK, GROUP_CHECK
from beam_tfrecords.dataset.published import read_changes
from beam_tfrecords.dataset.schema import Check, read_json
from beam_tfrecords.escaping import escape
from beam_tfrecords.features.contents import Content
from beam_tfrecords.reading.reading_code import reading_code
from beam_tfrecords.transforms.request.build_spec import publish_settings
from beam_tfrecords.transforms.sources.meaning.ledger import Entry, describe_ledger

_MOST_CLASSES = 60
_SAMPLED = f"sizes and pictures come from a random sample of {MOST_ROWS:,} records"
_MOST_LINES = 100_000
# In bytes; a group of a million copies is one line.
_MOST_LINE = 256 << 20
_MOST_OF_A_REASON = 4
_MOST_GROUPS = 20
_MOST_PICTURED = 4
_MOST_PLOTS = 6
# Columns of a histogram, and bins of an octave that they consist of.
_MOST_COLUMNS, _PER_OCTAVE = 32, 32
# The C version, if available, takes 1 ms instead of 8.
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_MOST_TEXT = 300


def write_report(
    dataset: StoredDataset,
    *,
    staging: str | None = None,
    progress: ReadProgress | None = None,
    check: storage.Check | None = None,
) -> str:
    """Writes `report.html` to the folder of a dataset.

    Args:
      dataset: a finished dataset.
      staging: as in `storage.open_write`.
      progress: receives the number of index records read.
      check: as in `storage.open_new`, and keeps an existing page; None replaces the page.

    Returns:
      The path of the page.

    Raises:
      BuildError: a file of the dataset cannot be read, or the page cannot be written.
      OSError: likewise.
    """
    path = storage.join(dataset.path, REPORT)
    html = render_report(dataset, progress=progress)
    if check is None:
        storage.write_bytes(path, html.encode(), staging=staging)
    else:
        try:
            with storage.open_new(path, staging=staging, check=check) as file:
                file.write(html.encode())
        except FileExistsError:
            check()
    return path


def render_report(dataset: StoredDataset, *, progress: ReadProgress | None = None) -> str:
    """Renders the page. It names no path, and no time except that of the dataset, so that copies have equal pages.

    Args:
      dataset: a finished dataset.
      progress: receives the number of index records read.
    """
    manifest = dataset.manifest
    duplicates = _duplicates(dataset)
    scan = scan_index(dataset, [name for group in duplicates for name in _pictured(group)], progress=progress)
    extremes = [[one for _, one in found] for found in scan.extremes.values()]
    samples = read_shown(dataset, [*scan.chosen.values(), *extremes, list(scan.named.values())])
    balance = _balance(manifest["class_names"], [entry["classes"] for entry in manifest["splits"].values()])
    sides = _side_plots(scan)
    sections = {"records", "bytes", "failures", "duplicates", "settings"}
    sections |= {name for name, found in (("classes", balance), ("sizes", sides)) if found}
    return _report_template().render(
        manifest=manifest,
        figures=_figures(dataset, sections=sections),
        missing=describe_missing(manifest),
        shards=dataset.num_shards,
        built=_describe_time(dataset),
        notes=[
            *([_SAMPLED] if dataset.num_records > MOST_ROWS else []),
            *map(show_flags, describe_ledger(map(Entry.from_json, manifest.get("ledger", [])))),
            *(show_flags(note) for note in manifest.get("notes", [])),
        ],
        gallery=_gallery(samples[one] for found in scan.chosen.values() for one in found if one in samples),
        extremes={
            name: [(f"{EXTREMES[name][0]} {value:,.1f}", samples[one]) for value, one in found if one in samples]
            for name, found in scan.extremes.items()
        },
        classes_left_out=_classes_left_out(dataset),
        has_images=Content.IMAGE in dataset.layout.required,
        has_boxes=Content.OBJECTS in dataset.layout.required,
        has_masks=Content.MASK in dataset.layout.required,
        thumbnail_side=thumbnail_side(dataset),
        balance=balance,
        heads=[
            (
                name,
                _balance(head.class_names, [one.get("heads", {}).get(name, {}) for one in manifest["splits"].values()]),
            )
            for name, head in dataset.layout.heads.items()
            if head.class_names
        ],
        splits=[_describe_split(split, entry, scan) for split, entry in manifest["splits"].items()],
        lengths=_plots(dict(itertools.islice(scan.lengths.items(), _MOST_PLOTS)), format_bytes),
        sides=sides,
        failures=_failures(dataset),
        near_duplicates=dataset.manifest.get("near_duplicates", {}),
        duplicates=duplicates,
        copies=_copies(samples, scan, duplicates),
        changes=_changes(dataset),
        settings=_settings(dataset),
        reading_code=reading_code(dataset),
    )


def _figures(dataset: StoredDataset, *, sections: Collection[str]) -> list[tuple[str, str, str | None]]:
    """Returns (name, value, section to read on) of the headline figures; the section is None if the page lacks it."""
    manifest, images = dataset.manifest, dataset.images
    size = f" {images.size[0]} x {images.size[1]}" if images.size else ""
    found = [
        ("records", f"{manifest['records']:,}", "records"),
        ("splits", f"{len(dataset.splits):,}", "bytes"),
        ("shards", f"{dataset.num_shards:,}", "bytes"),
        ("size", format_bytes(sum(shard.bytes for shard in dataset.shards)), "bytes"),
        ("failures", f"{manifest['failures']:,}", "failures"),
        ("classes", f"{len(dataset.class_names):,}", "classes"),
        (
            "images, height x width" if size else "images",
            images.encoding.upper() + size if Content.IMAGE in dataset.layout.required else "none",
            "sizes",
        ),
        ("seed", str(manifest["spec"].get("seed", 0)), "settings"),
        ("made by beam-tfrecords", str(manifest["versions"].get("beam-tfrecords", "")), "settings"),
    ]
    if manifest["dropped_duplicates"]:
        found.insert(5, ("duplicates dropped", f"{manifest['dropped_duplicates']:,}", "duplicates"))
    if filtered := manifest.get("filtered"):
        found.insert(5, ("filtered", f"{filtered:,}", "settings"))
    return [(name, value, section if section in sections else None) for name, value, section in found]


def _describe_time(dataset: StoredDataset) -> str:
    """Returns when a version was started, by its name, or on which day the files of a dataset were written."""
    name = storage.basename(dataset.path)
    if VERSION_NAME.fullmatch(name):
        day, time = name[:8], name[9:13]
        return f"built {day[:4]}-{day[4:6]}-{day[6:]} {time[:2]}:{time[2:]} UTC"
    written = storage.stat(storage.join(dataset.path, SUCCESS)).modified
    return f"written on {datetime.fromtimestamp(written, timezone.utc):%Y-%m-%d}"


def _gallery(samples: Iterable[ShownRecord]) -> dict[str | None, dict[str, list[ShownRecord]]]:
    """Groups samples: class -> split -> samples; the class is None if records do not have exactly one."""
    gallery: dict[str | None, dict[str, list[ShownRecord]]] = defaultdict(lambda: defaultdict(list))
    for sample in sorted(samples, key=lambda one: (one.chosen.label or "", one.chosen.split, one.chosen.number)):
        gallery[sample.chosen.label][sample.chosen.split].append(sample)
    return gallery


def _classes_left_out(dataset: StoredDataset) -> int:
    """Returns the number of classes without shown records; 0 if records are not shown by class."""
    shown = {label for _, label in choose_groups(dataset)}
    return 0 if None in shown else len(set(dataset.class_names) - shown)


def _balance(class_names: Sequence[str], counts: Sequence[Mapping[str, int]]) -> dict[str, Any] | None:
    """Returns classes from the most to the least frequent, with their records per split; None without classes."""
    totals: Counter[str] = Counter(dict.fromkeys(class_names, 0))
    for of_split in counts:
        totals.update(of_split)
    if not totals:
        return None
    ordered = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    shown, rest = ordered[:_MOST_CLASSES], ordered[_MOST_CLASSES:]
    return {
        "rows": [(name, total, [of_split.get(name, 0) for of_split in counts]) for name, total in shown],
        "most": max(ordered[0][1], 1),
        "largest": ordered[0],
        "smallest": ordered[-1],
        "rest": (len(rest), sum(count for _, count in rest)),
    }


def _describe_split(split: str, entry: Mapping[str, Any], scan: IndexScan) -> dict[str, Any]:
    numbers = _least_median_most(scan.lengths[split]) if split in scan.lengths else ()
    return {
        "name": split,
        "counts": [f"{entry[name]:,}" for name in ("records", "failures", "shards")],
        "sizes": [format_bytes(number) for number in (entry["bytes"], *numbers)],
    }


def _side_plots(scan: IndexScan) -> list[tuple[str, list[dict[str, Any]]]]:
    titles = {"shorter": "Shorter side", "longer": "Longer side", "aspect": "Aspect ratio (width / height)"}
    plots = []
    for side, title in titles.items():
        found = {f"{kind} images": values for (kind, name), values in scan.sides.items() if name == side}
        if shown := _plots(found, ("{:.2f}" if side == "aspect" else "{:,.0f} px").format):
            plots.append((title, shown))
    return plots


def _plots(arrays: Mapping[str, np.ndarray], form: Callable[[float], str]) -> list[dict[str, Any]]:
    """Returns a histogram of each array of positive numbers, all with the same range; skips empty arrays."""
    known = {title: values for title, values in arrays.items() if len(values)}
    bins = {title: np.floor(np.log2(values) * _PER_OCTAVE).astype(int) for title, values in known.items()}
    first, last = (int(edge([edge(some) for some in bins.values()])) if bins else 0 for edge in (np.min, np.max))
    width = -(-(last + 1 - first) // _MOST_COLUMNS)
    columns = -(-(last + 1 - first) // width)
    edges = [form(2.0 ** ((first + column * width) / _PER_OCTAVE)) for column in range(columns + 1)]
    plots = []
    for title, values in known.items():
        counts = np.bincount((bins[title] - first) // width, minlength=columns).tolist()
        numbers = [*map(form, _least_median_most(values))]
        plots.append(
            {
                "title": title,
                "numbers": numbers,
                "only": numbers[0] if values.min() == values.max() else None,
                "columns": [
                    (f"{low} to {high}", count) for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
                ],
                "first": edges[0],
                "last": edges[-1],
                "tallest": max(counts),
            }
        )
    return plots


def _least_median_most(values: np.ndarray) -> tuple[float, float, float]:
    return float(values.min()), float(np.median(values)), float(values.max())


def _failures(dataset: StoredDataset) -> list[tuple[str, int, list[dict[str, Any]]]]:
    """Returns (reason, count, first failures); reads at most 100,000 lines of the list."""
    examples: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for failure in _first_lines(dataset, FAILURES, FAILURE_CHECK) if dataset.manifest["failures"] else ():
        if len(examples[failure["reason"]]) < _MOST_OF_A_REASON:
            examples[failure["reason"]].append({**failure, "detail": show_flags(failure["detail"])})
    reasons = dataset.manifest.get("failure_reasons") or {reason: len(some) for reason, some in examples.items()}
    return [(reason, reasons[reason], examples[reason]) for reason in sorted(reasons, key=lambda one: -reasons[one])]


def _duplicates(dataset: StoredDataset) -> list[Mapping[str, Any]]:
    """Returns the first groups of copies and of near-duplicates; reads at most 100,000 lines of the list."""
    kinds: dict[str, list[Mapping[str, Any]]] = {"exact": [], "near": []}
    if not any(dataset.manifest[name].get("groups") for name in ("duplicates", "near_duplicates")):
        return []
    for group in _first_lines(dataset, DUPLICATES, GROUP_CHECK):
        found = kinds[group.get("kind", "exact")]
        if len(found) < _MOST_GROUPS:
            found.append(group)
    return [group for found in kinds.values() for group in found]


def _pictured(group: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns split and key of the images to show of a group; copies need only one."""
    most = _MOST_PICTURED if group.get("kind") == "near" else 1
    return [(image["split"], image["key"]) for image in group["images"][:most]]


def _copies(
    samples: Mapping[ChosenRecord, ShownRecord], scan: IndexScan, duplicates: Sequence[Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any], list[ShownRecord]]]:
    """Returns the groups with images that can be shown, and these images."""
    found = []
    for group in duplicates:
        records = (scan.named.get(name) for name in _pictured(group))
        found.append((group, [samples[record] for record in records if record is not None and record in samples]))
    return [(group, shown) for group, shown in found if shown]


def _first_lines(dataset: StoredDataset, name: str, check: Check) -> Iterator[dict[str, Any]]:
    if name in dataset.manifest["files"]:
        with storage.open_read(storage.join(dataset.path, name)) as file:
            for number in range(1, _MOST_LINES + 1):
                if not (line := file.readline(_MOST_LINE)):
                    return
                try:
                    yield read_json(line, check)
                except ValueError as error:
                    raise ValueError(f"{name}, line {number}: {error}") from error


def _changes(dataset: StoredDataset) -> dict[str, Any] | None:
    changes = read_changes(dataset.path) if CHANGES in dataset.manifest["files"] else None
    return changes and {
        "lines": describe_changes(dataset.manifest["reuse"], changes) or [changes.get("note", "")],
        "kinds": changes.get("changes", {}),
        "guards": changes.get("guards", []),
    }


def _settings(dataset: StoredDataset) -> str:
    """Returns the settings as a spec file, without unset ones and without `output`, which the reader has to choose."""
    spec = {name: one for name, one in publish_settings(dataset.manifest["spec"]).items() if one is not None}
    return str(yaml.dump(spec, Dumper=_DUMPER, sort_keys=False, width=100, allow_unicode=True))


# Compiling it takes a third of the time of a small build.
@functools.cache
def _report_template() -> jinja2.Template:
    """Returns the template. Every string that it shows is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("beam_tfrecords.beam_pipelines.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Characters that are unsafe for a terminal can also reorder text on a page.
        finalize=lambda value: escape(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    )
    environment.filters |= {"short": _shorten, "number": "{:,}".format, "listed": _as_list}
    return environment.get_template("report.html.jinja")


def _shorten(text: str, most: int = _MOST_TEXT) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _as_list(value: Any) -> str:
    return (", ".join(map(str, value)) or "none") if isinstance(value, list) else str(value)
