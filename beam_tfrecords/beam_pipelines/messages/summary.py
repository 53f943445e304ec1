"""The summary of a build, and lines about its outcome."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.messages.outcomes import Published, Unpublished
from beam_tfrecords.beam_pipelines.settings.definitions import show_flags
from beam_tfrecords.beam_pipelines.terminal import counted, format_rate
from beam_tfrecords.dataset.files import CHANGES, DUPLICATES, FAILURES, LATEST
from beam_tfrecords.errors import FailureReason
from beam_tfrecords.escaping import escape
from beam_tfrecords.storage.request_metrics import KINDS
from beam_tfrecords.transforms.publishing.changes import GuardResult
from beam_tfrecords.transforms.publishing.lists import Example, find_examples
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.meaning.ledger import Entry, describe_ledger
from beam_tfrecords.transforms.stats import Change

# Metric -> header of its column in the tables of splits and versions.
HEADERS = {"records": "records", "failures": "failures", "bytes": "size"}
# Metric -> its line, with `{}` for the number or the counts by name, or `{name}` for one of the counts.
LINES = {
    "filtered": "filtered: {}",
    "replaced_members": "members of archives that a later member of the same name replaced: {}",
    "stored_as_png": "stored as PNG, because only PNG and plain JPEG files are kept: {}",
    "kept_turned": "note: kept files with an EXIF orientation, which no reader of the dataset applies: {}; "
    "`image_encoding=jpeg` stores them upright, `orientation=ignore` keeps them as they are",
    "dim_images": "note: images of 16 bits that become 8: {images:,}, with {maximum} of 255 as the largest value; "
    "`image_encoding=png` `bit_depth=16` stores their values as they are",
    "objects": "objects: {}",
}
_MOST_CLASSES = 10
# Difference between the asked and the actual share of a split that the summary mentions.
_LEAST_DIFFERENCE = 0.01


class MissingClasses(NamedTuple):
    """Classes of the input that a split with labels lacks.

    Attributes:
      split: the split; "" if no split has them.
      head: feature of the layout with these classes; "" for the label.
      classes: the missing classes, sorted.
      of: number of all classes that have samples.
    """

    split: str
    head: str
    classes: Sequence[str]
    of: int


def format_bytes(size: float) -> str:
    """Formats a size in decimal units, like the shard size."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def format_cells(metrics: Mapping[str, Any]) -> list[str]:
    """Formats the cells of `HEADERS`, for a split or a version."""
    return [format_bytes(metrics[name]) if name == "bytes" else f"{metrics[name]:,}" for name in HEADERS]


def format_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligns the columns of a table: the first one to the left, the others to the right."""
    rows = [[escape(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def summarize(
    manifest: Mapping[str, Any],
    *,
    output: str,
    seconds: float,
    examples: Mapping[str, Example] | None = None,
    changes: Mapping[str, Any] | None = None,
    request_metrics: Mapping[str, int] | None = None,
) -> list[str]:
    """Returns the lines of the summary.

    Args:
      manifest: the dataset's manifest.
      output: the dataset's folder.
      seconds: duration of the build.
      examples: reason -> one of its failures, if there are any.
      changes: the content of `changes.json`, if there is one.
      request_metrics: requests to object stores.
    """
    *counts, size = HEADERS.values()
    rows = [["split", *counts, "shards", size]]
    for split, entry in manifest["splits"].items():
        *counts, size = format_cells(entry)
        rows.append([split, *counts, f"{entry['shards']:,}", size])
    lines = format_table(rows)
    lines += describe_classes({split: entry["classes"] for split, entry in manifest["splits"].items()})
    for head in manifest.get("heads", {}):
        of_head = {split: entry.get("heads", {}).get(head, {}) for split, entry in manifest["splits"].items()}
        lines += describe_classes(of_head, head=head)
    lines += [f"warning: {line}" for line in describe_missing(manifest)]
    lines += describe_shares({split: entry["listed"] for split, entry in manifest["splits"].items()}, manifest["spec"])
    duplicates, near = manifest["duplicates"], manifest.get("near_duplicates", {})
    lines += describe_duplicates(duplicates, dropped=manifest["dropped_duplicates"])
    lines += describe_near_duplicates(near)
    if duplicates["groups"] or near.get("groups"):
        drops = duplicates["groups"] and not manifest["dropped_duplicates"]
        remedy = "; --overwrite --duplicates=drop keeps one of each" if drops else ""
        lines.append(f"  list: {storage.join(output, DUPLICATES)}{remedy}")
    lines += describe_reasons(manifest["failure_reasons"], examples)
    if manifest["failure_reasons"]:
        lines.append(f"  list: {storage.join(output, FAILURES)}")
    lines += [_describe(line, value) for name, line in LINES.items() if (value := manifest.get(name))]
    lines += describe_skipped(
        {kind: (entry["files"], entry["examples"]) for kind, entry in manifest["skipped"].items()}
    )
    lines += map(show_flags, describe_ledger(map(Entry.from_json, manifest.get("ledger", []))))
    lines += [f"note: {show_flags(note)}" for note in manifest.get("notes", [])]
    lines += describe_changes(manifest["reuse"], changes)
    lines += describe_request_metrics(request_metrics or {})
    listed, merged = manifest["listed"], manifest.get("merged_rows")
    what = f"{counted(listed, 'row')} of {counted(listed - merged, 'image')}" if merged else counted(listed, "sample")
    lines.append(f"{what} in {seconds:.1f} s ({format_rate(listed / seconds)}, start-up included)")
    lines.append(f"dataset: {output}")
    return lines


def describe_changes(reuse: Mapping[str, int], changes: Mapping[str, Any] | None) -> list[str]:
    """Returns lines about reused records and changes; none without a previous dataset."""
    lines = [f"note: {note}" for note in (changes or {}).get("notes", [])]
    if changes and changes["compared_with"]:
        counts = [
            f"{kind} {found['samples']:,}"
            for kind, found in changes.get("changes", {}).items()
            # A count of zero newly dropped copies is of no interest.
            if found["samples"] or kind != Change.DROPPED.value
        ]
        lines.append(f"since {changes['compared_with']}: {', '.join(counts) or 'not compared'}")
        if changes["nothing_reused_because"]:
            lines.append(f"nothing was reused: {changes['nothing_reused_because']}")
        lines += [f"note: guard {GuardResult.from_json(guard)}" for guard in changes["guards"] if not guard["holds"]]
    elif reuse["copied"] or reuse["reserialized"]:
        lines.append(f"records: {_counts(reuse)}")
    return lines


def describe_request_metrics(request_metrics: Mapping[str, int]) -> list[str]:
    """Returns the line about requests to object stores; none without requests."""
    requests = {kind: request_metrics[kind] for kind in KINDS if request_metrics.get(kind)}
    if not requests:
        return []
    read, written = (format_bytes(request_metrics.get(f"bytes_{way}", 0)) for way in ("read", "written"))
    return [
        f"object store: {sum(requests.values()):,} requests ({_counts(requests)}), {read} read, {written} written, "
        f"{request_metrics.get('retries', 0):,} retries"
    ]


def describe_classes(splits: Mapping[str, Mapping[str, int]], *, head: str = "") -> list[str]:
    """Returns a line per split with its first classes and their counts; skips splits without classes.

    Args:
      splits: split -> class -> records.
      head: feature of the layout with these classes; "" for the label.
    """
    named = f"classes of {escape(head)}" if head else "classes"
    lines = []
    for split, classes in splits.items():
        shown = [f"{name} {count:,}" for name, count in itertools.islice(classes.items(), _MOST_CLASSES)]
        more = [f"and {len(classes) - _MOST_CLASSES} more"] if len(classes) > _MOST_CLASSES else []
        what = f"{named} {'in' if head else 'of'} {split}" if len(splits) > 1 else named
        lines += [f"{what}: {', '.join([*shown, *more])}"] if classes else []
    return lines


def find_missing(manifest: Mapping[str, Any]) -> list[MissingClasses]:
    """Returns the classes that splits of a manifest, or of a plan, lack; none if the request limits the samples."""
    splits = manifest.get("splits", {})
    if not splits or manifest["spec"].get("limit") is not None:
        return []
    found = []
    for head in ("", *manifest.get("heads", {})):
        counts = {
            split: entry.get("heads", {}).get(head, {}) if head else entry["classes"] for split, entry in splits.items()
        }
        unwritten = [] if head else manifest.get("unwritten_classes", [])
        written = set().union(*counts.values())
        lacking = {"": unwritten} | {split: written - one.keys() for split, one in counts.items() if one}
        of = len(written) + len(unwritten)
        found += [MissingClasses(split, head, sorted(names), of) for split, names in lacking.items() if names]
    return found


def describe_missing(manifest: Mapping[str, Any]) -> list[str]:
    """Returns a line for each group of classes that splits of a manifest, or of a plan, lack."""
    can_stratify = _fractions(manifest["spec"]) and not manifest["spec"].get("stratify")
    lines = []
    for split, head, names, of in find_missing(manifest):
        shown = ", ".join([*names[:_MOST_CLASSES], *(["…"] if len(names) > _MOST_CLASSES else [])])
        where = f"split {split} has no record" if split else "no split has a record"
        remedy = "; `stratify` gives each split its share" if split and can_stratify else ""
        what = f"classes of {head}" if head else "classes"
        lines.append(show_flags(f"{where} of {len(names):,} of {of:,} {what}: {shown}{remedy}"))
    return lines


def describe_shares(samples: Mapping[str, int], spec: Mapping[str, Any]) -> list[str]:
    """Returns a line with the actual shares of the splits if they differ from the fractions of the request.

    Args:
      samples: split -> number of listed samples.
      spec: the request, as in a manifest.
    """
    asked, total = _fractions(spec), sum(samples.values())
    shares = {split: samples.get(split, 0) / max(1, total) for split in asked}
    if not total or all(abs(shares[split] - share) < _LEAST_DIFFERENCE for split, share in asked.items()):
        return []
    actual = ", ".join(f"{split} {share:.1%}" for split, share in shares.items())
    return [f"shares: {actual} of {counted(total, 'sample')}"]


def _fractions(spec: Mapping[str, Any]) -> Mapping[str, float]:
    """Returns the fractions of the splits in a request, as in a manifest; none if it has another rule."""
    splits = spec.get("splits")
    if not isinstance(splits, Mapping) or not all(isinstance(share, (int, float)) for share in splits.values()):
        return {}
    return splits


def describe_skipped(skipped: Mapping[str, tuple[int, Sequence[str]]]) -> list[str]:
    """Returns a line per kind of skipped files: kind -> (files, keys of some)."""
    return [f"skipped: {count:,} {kind} ({', '.join(keys)})" for kind, (count, keys) in skipped.items()]


def describe_reasons(reasons: Mapping[str, int], examples: Mapping[str, Example] | None = None) -> list[str]:
    """Returns lines about failures: the reasons, the most frequent first, with an example of each; none without any."""
    lines = [f"failures: {_counts(reasons)}"] if reasons else []
    for reason in sorted(examples or {}, key=lambda reason: (-reasons[reason], reason)):
        key, detail = (examples or {})[reason]
        lines.append(f"  {reason}{f', for example {key}' if key else ''}: {show_flags(detail)}")
    internal = reasons.get(FailureReason.INTERNAL_ERROR.value, 0)
    if internal:
        lines.append(
            f"INTERNAL ERRORS: {internal:,} samples failed because of a bug in beam-tfrecords; please report the "
            f"traceback in {FAILURES}"
        )
    return lines


def describe_duplicates(counts: Mapping[str, int], *, dropped: int = 0) -> list[str]:
    """Returns lines about identical images, beginning with images in several splits; no lines if there are none.

    Args:
      counts: metric of identical images -> count.
      dropped: number of copies that are not in the dataset.
    """
    groups, across, conflicting = (
        counts[what] for what in ("groups", "groups_across_splits", "groups_with_conflicting_labels")
    )
    if not groups:
        return []
    leaks = [f"leaks: images in more than one split: {across:,}"] if across and not dropped else []
    found = [
        f"images that occur more than once: {groups:,}",
        f"copies: {counts['images']:,}",
        *([f"in more than one split: {across:,}"] if across and dropped else []),
        *([f"with different labels: {conflicting:,}"] if conflicting else []),
        *([f"dropped: {dropped:,}"] if dropped else []),
    ]
    return [*leaks, f"duplicates: {', '.join(found)}"]


def describe_near_duplicates(counts: Mapping[str, int]) -> list[str]:
    """Returns lines about images that look nearly the same; none without any, or without a search."""
    words = {"groups": "groups", "groups_across_splits": "in more than one split"}
    words["groups_with_conflicting_labels"] = "with different labels"
    found = [f"{text}: {counts[what]:,}" for what, text in words.items() if counts.get(what)]
    lines = [f"near-duplicates: {', '.join(found)}"] if found else []
    if unhashed := counts.get("not_hashed"):
        lines.append(
            f"note: images that have no `phash` in the index and were not searched for near-duplicates: {unhashed:,}; "
            "kept files have none, and neither do records reused from a dataset without the column"
        )
    if cut := counts.get("ranges_cut"):
        lines.append(
            f"note: the list of near-duplicates is not complete: {cut:,} ranges of hashes have too many images that "
            "look alike"
        )
    return lines


def _describe(line: str, value: int | Mapping[str, int]) -> str:
    if isinstance(value, int):
        return show_flags(line.format(f"{value:,}"))
    return show_flags(line.format(_counts(value), **value))


def _counts(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{what} {count:,}" for what, count in ordered)


def describe_versions(outcome: Published, spec: BuildSpec) -> Iterator[str]:
    """Yields lines about removed versions, and about the pinned one."""
    for name in outcome.removed:
        yield f"removed: version {name}"
    if outcome.pinned is not None:
        what = "" if outcome.is_unchanged else "published, but "
        yield (
            f"{what}{LATEST} stays at {outcome.pinned}, which is pinned; "
            f"`beam-tfrecords status --output={shlex.quote(spec.output)} --unpin` ends that"
        )


def explain_unpublished(
    outcome: Unpublished, change: Callable[[Mapping[str, Any]], str] | None = None
) -> Iterator[str]:
    """Yields lines that explain why nothing was published.

    Args:
      outcome: the outcome.
      change: returns the command with changed settings, if it is known.
    """
    if outcome.violated:
        yield "Nothing was published: the new version differs too much from the one before it."
        yield from (f"  guard {line}" for line in outcome.violated)
        yield f"changes: {storage.join(outcome.folder, CHANGES)}"
    else:
        yield show_flags(f"Nothing was published: {'; '.join(outcome.causes)}.")
    if outcome.duplicates.get("groups"):
        yield from describe_duplicates(outcome.duplicates)
        yield f"list: {storage.join(outcome.folder, DUPLICATES)}"
    if outcome.failed:
        failures = storage.join(outcome.folder, FAILURES)
        # Somebody may have cleaned up since.
        examples = find_examples(failures, outcome.reasons) if storage.exists(failures) else {}
        yield from describe_reasons(outcome.reasons, examples)
        yield f"list: {failures}"
    if outcome.remedy:
        wanted = "If that is right" if outcome.violated else "To publish the others"
        flags = " ".join(f"`{name}={value}`" for name, value in outcome.remedy.items())
        yield show_flags(f"{wanted}, use {flags}; the finished work is not done again{':' if change else '.'}")
        if change:
            yield f"  {change(outcome.remedy)}"
