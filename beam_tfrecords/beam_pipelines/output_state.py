"""What storage tells of an output folder: its builds, versions and datasets, as plain values."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.execution.heartbeat import Run, read_runs
from beam_tfrecords.beam_pipelines.execution.jobs import is_advancing, read_job
from beam_tfrecords.beam_pipelines.execution.runners import runner_of
from beam_tfrecords.beam_pipelines.exit_codes import DONE, FAILED, UNPUBLISHED
from beam_tfrecords.beam_pipelines.settings.definitions import show_flags
from beam_tfrecords.beam_pipelines.summary import HEADERS
from beam_tfrecords.beam_pipelines.versioning import open_newest, read_version
from beam_tfrecords.dataset import Dataset, open_dataset, open_whole, read_changes, read_latest
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.files import REMOVED, SUCCESS
from beam_tfrecords.schema import LAST_MOMENT, fields, read_json, text
from beam_tfrecords.storage.lease import find_holder
from beam_tfrecords.transforms.publishing.lists import read_outcome
from beam_tfrecords.transforms.stats import Stats, find_fact
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder, Workspace
from beam_tfrecords.transforms.workspace.counts import (
    BlockCounts,
    read_block_counts,
    read_last_block_time,
    read_stage_counts,
)
from beam_tfrecords.transforms.workspace.output_folder import is_open
from beam_tfrecords.transforms.workspace.state_files import read_small
from beam_tfrecords.versions import list_versions, read_pinned

_MOST_LINES = 100_000
# Above it, nobody waits.
_MOST_SECONDS = 10.0**9
_FAILURE = fields({"reason": text})
GOING = ("running", "submitted")


def now_at(output: str) -> float:
    """The time by the clock of the store; by that of this machine for who may only read."""
    try:
        return storage.now(Workspace(output).lease) if Workspace(output).list_builds() else time.time()
    except OSError:
        return time.time()


def describe_status(output: str, *, now: float) -> dict[str, Any]:
    """What is known of an output folder, as plain values."""
    builds = describe_builds(output, now=now)
    running = find_running(builds)
    last = running or next((build for build in builds if build["state"] == "unpublished"), None)
    temporary, output_lease = Workspace(output).path, Workspace(output).lease
    registered = Workspace(output).list_versions()
    described = [_describe_version(output, version.name) for version in list_versions(output)]
    # A folder named like a version may be somebody's own.
    versions = [
        version
        for version in described
        if version["records"] is not None or version["damage"] or _is_ours(output, version["name"], registered)
    ]
    _, notes = open_newest(output)
    try:
        pinned = read_pinned(output)
    except BuildError as error:
        pinned, notes = None, (*notes, str(error))
    is_dead = any(build["state"] == "dead" for build in builds)
    # After the input is listed there is a build.
    holder = None if last or any(build["state"] != "dead" for build in builds) else find_holder(output_lease, now=now)
    return {
        "output": output,
        "state": last["state"] if last else "listing" if holder else "dead" if is_dead else "idle",
        "holder": holder,
        "build": last or (builds[0] if builds else None),
        "latest": read_latest(output),
        "pinned": pinned,
        "removed_versions": _find_removed(output, versions),
        "dataset": _describe_dataset(open_dataset(output)) if storage.exists(storage.join(output, SUCCESS)) else None,
        "versions": versions,
        "notes": list(notes),
        "debris": {
            "builds": sum(build["state"] == "dead" for build in builds),
            "unfinished_versions": [
                version["name"] for version in versions if version["records"] is None and not version["damage"]
            ],
            "bytes": sum(entry.size for entry in storage.list_files(temporary, literal=True))
            if builds and not running
            else 0,
        },
    }


def describe_builds(output: str, *, now: float) -> list[dict[str, Any]]:
    """What is known of the builds into an output, the newest first."""
    return [_describe_build(output, folder, run, now=now) for folder, run in read_runs(output)]


def find_running(builds: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """The build that runs, or may do so; None if none does."""
    return next((build for build in builds if build["state"] in GOING), None)


def _describe_build(output: str, folder: str, run: Run | None, *, now: float) -> dict[str, Any]:
    counts = read_block_counts(folder)
    job = read_job(folder)
    last_block = read_last_block_time(folder)
    result = read_outcome(folder)
    if result is None:
        totals, reasons = counts, _count_reasons(folder) if counts.failed else {}
    else:
        # The counts of the workers may lack their last blocks.
        stats = Stats.from_json(result["stats"])
        totals, reasons = BlockCounts.of(stats), stats.failure_reasons()
    values: dict[str, Any] = {
        "folder": folder,
        "state": "dead",
        "host": run.host if run else None,
        "process": run.process if run else None,
        "job": dataclasses.asdict(job) if job else None,
        "since": _time(run.began) if run else None,
        "last_heartbeat": _time(run.written) if run else None,
        "listed": run.listed if run else None,
        "blocks": run.blocks if run else None,
        "blocks_done": counts.blocks,
        "stages": dataclasses.asdict(read_stage_counts(folder)),
        "last_block": _time(last_block) if last_block else None,
        "done": totals.done,
        "failed": totals.failed,
        "failure_reasons": reasons,
        "samples_per_second": None,
        "seconds_left": None,
        "exit_code": None,
        "why": [],
    }
    if result is not None and result["is_unchanged"]:
        return {**values, "state": "unchanged", "exit_code": DONE}
    if result is not None:
        why = [*map(show_flags, result["causes"]), *(f"guard {line}" for line in result["tripped"])]
        return {**values, "state": "unpublished", "exit_code": UNPUBLISHED, "why": why}
    if run is not None and run.is_alive(now):
        rate = (counts.done - run.done_before) / max(1e-3, run.beat - run.began)
        left = (run.listed - counts.done) / rate if rate > 0 else _MOST_SECONDS
        values |= {"state": "running", "samples_per_second": round(rate, 1 if rate >= 1 else 4)}
        values["seconds_left"] = round(left) if 0 <= left < _MOST_SECONDS else None
    elif _is_published(output, folder):
        values["state"] = "published"
    elif job is not None:
        # Its launcher may have left on purpose.
        runner = runner_of(job)
        is_alive = runner.is_alive(job, last_block)
        if is_alive is False:
            end = runner.find_end(job)
            return {**values, "exit_code": FAILED, "why": [end] if end else []}
        values["state"] = "running" if is_advancing(last_block) else "submitted"
    return values


def _is_published(output: str, folder: str) -> bool:
    """Whether a build has published its dataset, and its temporary files are left."""
    version = read_version(folder)
    path = storage.join(output, version) if version else output
    return is_open(output) and storage.exists(storage.join(path, SUCCESS))


def _count_reasons(folder: str) -> dict[str, int]:
    """Reasons of the failures so far; of very many, those of the first files."""
    reasons: Counter[str] = Counter()
    files = storage.list_files(BuildFolder(folder).failures, literal=True)
    lines = (line for entry in files for line in read_small(entry.path).splitlines())
    for line in itertools.islice(lines, _MOST_LINES):
        # The last line of a large file is not whole.
        with contextlib.suppress(ValueError):
            reasons[read_json(line, _FAILURE)["reason"]] += 1
    return dict(reasons)


def _describe_version(output: str, name: str) -> dict[str, Any]:
    try:
        dataset, damage = open_whole(storage.join(output, name))
    except RequestError:  # a later version of beam-tfrecords has made it
        dataset, damage = None, None
    if dataset is not None:
        return {"name": name, **_describe_dataset(dataset), "damage": None}
    return {"name": name, "published": None, **dict.fromkeys(HEADERS), "damage": damage}


def _is_ours(output: str, name: str, registered: Sequence[str]) -> bool:
    return name in registered or storage.exists(storage.join(output, name, REMOVED))


def _find_removed(output: str, versions: Iterable[dict[str, Any]]) -> list[str]:
    """The versions that have been removed since the oldest of today's versions was built."""
    there, known = set(), set()
    for version in versions:
        there.add(version["name"])
        changes = read_changes(storage.join(output, version["name"])) if version["records"] is not None else None
        known.update((changes or {}).get("versions", ()))
    return sorted(known - there)


def _describe_dataset(dataset: Dataset) -> dict[str, Any]:
    return {
        "published": _time(storage.stat(storage.join(dataset.path, SUCCESS)).modified),
        **{name: find_fact(dataset.manifest, name) for name in HEADERS},
    }


def _time(seconds: float) -> str:
    # A file may say any year.
    time = datetime.datetime.fromtimestamp(min(max(seconds, 0), LAST_MOMENT), datetime.timezone.utc)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
