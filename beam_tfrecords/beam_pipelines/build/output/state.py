"""Describes an output folder from storage: its builds, versions and datasets."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.output.previous import open_newest, read_version
from beam_tfrecords.beam_pipelines.messages.exit_codes import DONE, FAILED, UNPUBLISHED, WRONG_REQUEST
from beam_tfrecords.beam_pipelines.messages.outcomes import Unpublished
from beam_tfrecords.beam_pipelines.messages.summary import HEADERS
from beam_tfrecords.beam_pipelines.messages.values import format_time
from beam_tfrecords.beam_pipelines.runners.find_runner import find_state
from beam_tfrecords.beam_pipelines.runners.jobs import JobRecord, JobState, Phase, Run, is_advancing, read_job
from beam_tfrecords.beam_pipelines.settings.definitions import show_flags
from beam_tfrecords.dataset.dataset import StoredDataset, open_published
from beam_tfrecords.dataset.files import SUCCESS, UNCHANGED
from beam_tfrecords.dataset.pointers import find_latest_damage, find_pin_damage, open_latest, read_pinned
from beam_tfrecords.dataset.published import read_latest
from beam_tfrecords.dataset.schema import fields, moment, read_json, text
from beam_tfrecords.dataset.versions import State, Version, is_being_removed, list_versions, read_listed
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.storage.lease import find_holder, now_at
from beam_tfrecords.transforms.publishing.lists import read_outcome
from beam_tfrecords.transforms.stats import Stats, find_metric
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder, Workspace, is_listing
from beam_tfrecords.transforms.workspace.counts import (
    BlockCounts,
    StageCounts,
    read_block_counts,
    read_last_block_time,
    read_stage_counts,
)
from beam_tfrecords.transforms.workspace.output_folder import is_open
from beam_tfrecords.transforms.workspace.state_files import read_if_there, read_small, read_state

_MOST_LINES = 100_000
# Longer estimates are not shown.
_MOST_SECONDS = 10.0**9
_FAILURE = fields({"reason": text})
_UNCHANGED = fields({"version": text, "began": moment, "ended": moment})
GOING = ("running", "submitted", "unknown")
# How often a description is tried, and seconds between two tries.
_MOST_TRIES, _PAUSE_SECONDS = 20, 0.1

Parameters = ParamSpec("Parameters")
Description = TypeVar("Description")


def _despite_removal(describe: Callable[Parameters, Description]) -> Callable[Parameters, Description]:
    """Tries a description again if files vanish meanwhile: a build that ends removes its temporary files."""

    @functools.wraps(describe)
    def retry(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Description:
        for _ in range(_MOST_TRIES - 1):
            with contextlib.suppress(FileNotFoundError):
                return describe(*args, **kwargs)
            time.sleep(_PAUSE_SECONDS)
        return describe(*args, **kwargs)

    return retry


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildState:
    """What is known of a build; docs/output.md describes the fields.

    Attributes:
      unpublished: why nothing was published; None for other builds. `status --json` does not have it.
    """

    folder: str
    version: str | None
    state: str = "dead"
    host: str | None = None
    process: int | None = None
    job: JobRecord | None
    since: str | None = None
    last_heartbeat: str | None = None
    listed: int | None = None
    blocks: int | None = None
    blocks_done: int
    stages: StageCounts
    last_block: str | None
    done: int
    failed: int
    failure_reasons: Mapping[str, int]
    samples_per_second: float | None = None
    seconds_left: int | None = None
    request_metrics: Mapping[str, int]
    exit_code: int | None = None
    why: Sequence[str] = ()
    notes: Sequence[str] = ()
    unpublished: Unpublished | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputState:
    """What is known of an output folder; docs/output.md describes the fields."""

    output: str
    state: str
    holder: str | None
    build: BuildState | None
    latest: str | None
    latest_damage: str | None
    pinned: str | None
    last_unchanged: Mapping[str, Any] | None
    removed_versions: Sequence[str]
    dataset: Mapping[str, Any] | None
    versions: Sequence[Mapping[str, Any]]
    not_versions: Sequence[str]
    notes: Sequence[str]
    debris: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Returns the document of `status --json`."""
        values = dataclasses.asdict(self)
        if values["build"] is not None:
            del values["build"]["unpublished"]
        return values


@_despite_removal
def describe_status(output: str) -> OutputState:
    """Describes an output folder."""
    builds = describe_builds(output)
    running = find_running(builds)
    last = running or next((build for build in builds if build.state in ("unpublished", "refused")), None)
    temporary, output_lease = Workspace(output).path, Workspace(output).lease
    registered = Workspace(output).list_versions()
    folders = list_versions(output)
    ours = [version.name for version in folders if _is_ours(output, version, registered)]
    versions = [_describe_version(output, name) for name in ours]
    latest_damage = find_latest_damage(output)
    notes = dict.fromkeys([*open_newest(output)[1], *([latest_damage] if latest_damage else [])])
    pinned = None
    try:
        pinned = read_pinned(output)
        if pinned and (pin_damage := find_pin_damage(output, pinned)):
            notes[pin_damage] = None
    except BuildError as error:
        notes[str(error)] = None
    is_dead = any(build.state == "dead" for build in builds)
    # Once the input is listed, there is a build.
    holder = None if last or any(build.state != "dead" for build in builds) else find_holder(output_lease)
    debris = sum(entry.size for entry in storage.list_files(temporary, literal=True)) if builds and not running else 0
    return OutputState(
        output=output,
        state=last.state if last else "listing" if holder else "dead" if is_dead else "idle",
        holder=holder,
        build=last or (builds[0] if builds else None),
        latest=read_latest(output),
        latest_damage=latest_damage,
        pinned=pinned,
        last_unchanged=_read_unchanged(output),
        removed_versions=_find_removed(output, versions, there=[version.name for version in folders]),
        dataset=_describe_dataset(open_latest(output)) if storage.exists(storage.join(output, SUCCESS)) else None,
        versions=versions,
        # Folders that only have the name of a version: copies, renamed versions, a user's own.
        not_versions=[version.name for version in folders if version.name not in ours],
        notes=list(notes),
        debris={
            "builds": sum(build.state == "dead" for build in builds),
            "unfinished_versions": [
                version["name"] for version in versions if version["records"] is None and not version["damage"]
            ],
            "bytes": debris,
        },
    )


def _read_unchanged(output: str) -> dict[str, Any] | None:
    """Describes the last run, if it found nothing new since the newest version; otherwise returns None."""
    content = read_if_there(storage.join(output, UNCHANGED))
    try:
        run = None if content is None else read_json(content, _UNCHANGED)
    except ValueError:
        return None
    if run is None or run["version"] != max((version.name for version in list_versions(output)), default=""):
        return None
    return {
        "version": run["version"],
        "ended": format_time(run["ended"]),
        "seconds": round(max(0.0, run["ended"] - run["began"]), 1),
    }


@_despite_removal
def describe_builds(output: str) -> list[BuildState]:
    """Describes the builds into an output, the newest first; one whose job lists the input has the listing's folder."""
    workspace = Workspace(output)
    folders = workspace.list_folders()
    holder = find_holder(workspace.lease) if folders else None
    runs = [(folder, read_state(Run, BuildFolder(folder).run)) for folder in folders]
    return [_describe_build(output, folder, run, holder) for folder, run in runs if run or not is_listing(folder)]


def find_running(builds: Iterable[BuildState]) -> BuildState | None:
    """Returns the build that runs, or may run; None if there is none."""
    return next((build for build in builds if build.state in GOING), None)


def _describe_build(output: str, folder: str, run: Run | None, holder: str | None) -> BuildState:
    counts = read_block_counts(folder)
    job = read_job(folder)
    last_block = read_last_block_time(folder)
    result = read_outcome(folder)
    if result is None:
        totals, reasons = counts, _count_reasons(folder) if counts.failed else {}
    else:
        # The workers' counts may lack their last blocks.
        stats = Stats.from_json(result["stats"])
        totals, reasons = BlockCounts.of(stats), stats.failure_reasons()
    found = BuildState(
        folder=folder,
        version=read_version(folder),
        job=job,
        # A runner may have converted a block twice.
        blocks_done=min(counts.blocks, run.blocks) if run else counts.blocks,
        stages=read_stage_counts(folder),
        last_block=format_time(last_block) if last_block else None,
        done=min(totals.done, run.listed) if run else totals.done,
        failed=totals.failed,
        failure_reasons=reasons,
        request_metrics=counts.request_metrics,
    )
    change = functools.partial(dataclasses.replace, found)
    if run is not None:
        change = functools.partial(
            change,
            host=run.host,
            process=run.process,
            since=format_time(run.began),
            listed=run.listed,
            blocks=run.blocks,
        )
    if result is not None and result["is_unchanged"]:
        return change(state="unchanged", exit_code=DONE)
    if result is not None:
        why = [*map(show_flags, result["causes"]), *(f"guard {line}" for line in result["tripped"])]
        return change(state="unpublished", exit_code=UNPUBLISHED, why=why, unpublished=Unpublished.of(result))
    if run is not None and run.launcher == holder:
        started = storage.stat(BuildFolder(folder).run).modified
        rate = (counts.done - run.done_before) / max(1e-3, now_at(Workspace(output).lease) - started)
        left = (run.listed - counts.done) / rate if rate > 0 else _MOST_SECONDS
        return change(
            state="running",
            last_heartbeat=format_time(storage.stat(Workspace(output).lease).modified),
            samples_per_second=round(rate, 1 if rate >= 1 else 4),
            seconds_left=round(left) if 0 <= left < _MOST_SECONDS else None,
        )
    if job is not None:
        # Its launcher may have exited on purpose.
        state = find_state(job, last_block)
    else:
        # A pipeline with `WriteDataset` has neither a launcher nor a job of ours.
        state = JobState(Phase.RUNNING if run is None and is_advancing(last_block) else Phase.STOPPED)
    if is_listing(folder) and run is not None and run.refusal:
        return change(state="refused", exit_code=WRONG_REQUEST, why=[show_flags(run.refusal)])
    notes = ["the job lists the input before it converts"] if is_listing(folder) else []
    change = functools.partial(change, why=[state.why] if state.why else [], notes=[*state.notes, *notes])
    published = storage.join(output, found.version) if found.version else output
    if not state.is_running and is_open(output) and storage.exists(storage.join(published, SUCCESS)):
        return change(state="published", why=[])
    if not state.may_run:
        return change(exit_code=FAILED if job is not None else None)
    if state.phase is Phase.UNKNOWN and state.why:
        return change(state="unknown")
    return change(state="running" if is_advancing(last_block) else "submitted")


def _count_reasons(folder: str) -> dict[str, int]:
    """Counts the failures so far by reason; reads at most 100,000 lines."""
    reasons: Counter[str] = Counter()
    files = storage.list_files(BuildFolder(folder).failures, literal=True)
    lines = (line for entry in files for line in read_small(entry.path).splitlines())
    for line in itertools.islice(lines, _MOST_LINES):
        # The last line of a large file may be incomplete.
        with contextlib.suppress(ValueError):
            reasons[read_json(line, _FAILURE)["reason"]] += 1
    return dict(reasons)


def _describe_version(output: str, name: str) -> dict[str, Any]:
    try:
        dataset, damage = open_published(storage.join(output, name))
    except RequestError:  # a later version of beam-tfrecords wrote it
        dataset, damage = None, None
    if dataset is not None:
        missing = dataset.find_missing()
        return {"name": name, **_describe_dataset(dataset), "damage": missing[0] if missing else None}
    return {"name": name, "published": None, **dict.fromkeys(HEADERS), "damage": damage}


def _is_ours(output: str, version: Version, registered: Sequence[str]) -> bool:
    if version.state is State.UNFINISHED:
        return version.name in registered or is_being_removed(output, version.name)
    return version.state is not State.FOREIGN


def _find_removed(output: str, versions: Iterable[dict[str, Any]], *, there: Iterable[str]) -> list[str]:
    """Returns the versions removed since the oldest existing version was built."""
    readable = (version["name"] for version in versions if version["records"] is not None)
    known = set[str]().union(*(read_listed(output, name) for name in readable))
    return sorted(known.difference(there))


def _describe_dataset(dataset: StoredDataset) -> dict[str, Any]:
    return {
        "published": format_time(storage.stat(storage.join(dataset.path, SUCCESS)).modified),
        **{name: find_metric(dataset.manifest, name) for name in HEADERS},
    }
