"""`index.html` beside LATEST: the versions of a dataset on one page."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Mapping
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.messages.summary import format_bytes
from beam_tfrecords.beam_pipelines.messages.values import format_time
from beam_tfrecords.beam_pipelines.report.templates import get_template
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.errors import RequestError, describe_exception
from beam_tfrecords.output.files import CARD, CHANGES, FAILURES, LATEST, MANIFEST, PINNED, REPORT, VERSIONS_PAGE
from beam_tfrecords.output.published import read_changes, read_latest, read_pointer
from beam_tfrecords.output.schema import count, fields, listed, mapped, moment, read_json, text
from beam_tfrecords.output.versions import State, Version, list_versions
from beam_tfrecords.reading.dataset import Dataset, open_published
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.transforms.stats import find_metric
from beam_tfrecords.transforms.workspace.build_folder import Workspace

# Only pages with this element are overwritten.
_MARK = b'<meta name="generator" content="beam-tfrecords">'
# Facts of each version in the page, so that the next page reads only new versions.
_KNOWN = re.compile(rb'<script type="application/json">(.*?)</script>', re.DOTALL)
_FACTS = mapped(
    fields(
        {
            **dict.fromkeys(("records", "bytes", "failures"), count),
            **dict.fromkeys(("name", "changes"), text),
            **dict.fromkeys(("violated", "files"), listed(text)),
            "published": moment,
            "guards": count,
        }
    )
)
_LINKS = {REPORT: "report", CARD: "card", MANIFEST: "manifest", CHANGES: "changes", FAILURES: "failures"}
# Versions of a store that are read in parallel.
_THREADS = 8


def update_versions_page(root: str, *, creates: bool = False) -> None:
    """Writes the page of a folder of versions, unless another program wrote it. A failure is printed only.

    Args:
      root: the folder of the versions.
      creates: also writes a page if there is none.
    """
    try:
        _update(storage.join(root, VERSIONS_PAGE), root, creates=creates)
    except Exception as error:
        show(
            f"note: {VERSIONS_PAGE} could not be written: {describe_exception(error)}; the versions are whole, and the "
            "next build tries again",
            file=sys.stderr,
        )


def _update(path: str, root: str, *, creates: bool) -> None:
    # A process that changes the list meanwhile writes the page too, so that this one renders it again.
    while (state := storage.read_state(path)) or creates:
        before = state[0] if state else b""
        if state and _MARK not in before:
            return
        page = render_versions(root, before=before).encode()
        if page == before:
            return
        if not storage.has_scheme(root):
            storage.write_bytes(path, page, staging=Workspace(root).path)
        elif storage.replace(path, page, version=state[1]) if state else storage.write_new(path, page):
            return


def render_versions(root: str, *, before: bytes = b"") -> str:
    """Renders the page.

    Args:
      root: the folder of the versions.
      before: the page so far. Versions that it knows are not read again, unless they were published again.
    """
    versions = [one for one in reversed(list_versions(root)) if one.state in (State.FINISHED, State.DAMAGED)]
    read = functools.partial(_read_facts, root, known=_read_known(before))
    found = list(map_in_threads(read, versions, threads=_THREADS) if storage.has_scheme(root) else map(read, versions))
    facts = {version.name: one for version, one in zip(versions, found, strict=True) if one}
    return get_template("versions.html.jinja").render(
        title=next((one["name"] for one in facts.values()), ""),
        versions=[version.name for version in versions],
        facts=facts,
        latest=read_latest(root),
        pinned=read_pointer(root, PINNED),
        latest_file=LATEST,
        links=_LINKS,
        format_bytes=format_bytes,
        format_time=format_time,
    )


def _read_known(page: bytes) -> Mapping[str, Any]:
    """Reads the facts of versions in an earlier page; returns none from an edited page or a page of another release."""
    try:
        found: Mapping[str, Any] = read_json(_KNOWN.findall(page)[0], _FACTS)
    except (ValueError, IndexError):
        return {}
    return found


def _read_facts(root: str, version: Version, *, known: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns what the page shows of a version; None if the version cannot be read."""
    path, facts = storage.join(root, version.name), known.get(version.name)
    if facts is None or facts["published"] != version.published:
        dataset = _open(path) if version.state is State.FINISHED else None
        if dataset is None:
            return None
        changes = read_changes(path) if CHANGES in dataset.manifest["files"] else None
        guards = (changes or {}).get("guards", [])
        facts = {
            "name": dataset.manifest["name"],
            "published": version.published,
            **{name: find_metric(dataset.manifest, name) for name in ("records", "bytes", "failures")},
            "changes": _describe_changes(changes or {}),
            "violated": sorted({guard["guard"] for guard in guards if not guard["holds"]}),
            "guards": len(guards),
            "files": [MANIFEST, *(name for name in _LINKS if name in dataset.manifest["files"])],
        }
    # The manifest does not name it, and somebody may write it later.
    if REPORT not in facts["files"] and storage.exists(storage.join(path, REPORT)):
        facts = {**facts, "files": [*facts["files"], REPORT]}
    return facts


def _open(path: str) -> Dataset | None:
    try:
        return open_published(path)[0]
    except RequestError:  # a later version of beam-tfrecords wrote it
        return None


def _describe_changes(changes: Mapping[str, Any]) -> str:
    if not changes.get("compared_with"):
        return str(changes.get("note", "")).partition(":")[0]
    counts = {kind: found["samples"] for kind, found in changes.get("changes", {}).items()}
    return ", ".join(f"{kind} {number:,}" for kind, number in counts.items() if number) or "not compared"
