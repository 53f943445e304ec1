"""`beam-tfrecords status`: what a build is doing and which versions there are, from storage alone."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.execution.heartbeat import Run, read_runs
from beam_tfrecords.beam_pipelines.execution.jobs import is_advancing, read_job
from beam_tfrecords.beam_pipelines.execution.progress import Progress
from beam_tfrecords.beam_pipelines.exit_codes import DONE, FAILED, UNPUBLISHED
from beam_tfrecords.beam_pipelines.settings.command_line import Parser
from beam_tfrecords.beam_pipelines.summary import HEADERS, describe_reasons, format_bytes, format_cells, format_table
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.beam_pipelines.versioning import open_newest, read_version
from beam_tfrecords.dataset import Dataset, open_dataset, open_whole, read_latest
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.files import CHANGES, LATEST, REMOVED, SUCCESS
from beam_tfrecords.transforms.request.build_spec import read_output
from beam_tfrecords.transforms.stats import find_fact
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder, Workspace
from beam_tfrecords.transforms.workspace.counts import read_block_counts, read_last_block_time
from beam_tfrecords.transforms.workspace.output_folder import is_open
from beam_tfrecords.versions import list_versions, pin, read_pinned, unpin

_MOST_LINES = 100_000
_FOLLOW_SECONDS = 2.0
_GOING = ("running", "submitted")
# How a build ended that was followed -> exit code.
_ENDED = {"dead": FAILED, "unpublished": UNPUBLISHED}


def status(argv: Sequence[str]) -> int:
    """Runs the command.

    Returns:
      The exit code.

    Raises:
      RequestError: the request is wrong.
    """
    arguments = make_parser().read_all(argv)
    try:
        output = read_output(arguments.output)
    except ValueError as error:
        raise RequestError(f"--output={arguments.output}: {error}") from error
    if not storage.is_folder(output):
        raise RequestError(f"--output={output}: no such folder; expected the --output of a build")
    if arguments.pin is not None or arguments.unpin:
        _hold(output, arguments.pin)
    found = _follow(output) if arguments.follow else describe_status(output, now=_now(output))
    show(*(json.dumps(found, indent=2).splitlines() if arguments.json else _lines(found)))
    return _ENDED.get(found["state"], DONE) if arguments.follow else DONE


def make_parser() -> Parser:
    """The parser of this command."""
    parser = Parser(
        prog="beam-tfrecords status",
        description="Shows what a build is doing, and the versions of a dataset.",
        allow_abbrev=False,
    )
    parser.add_folder("output", "the folder that was given to convert")
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument(
        "--follow", action="store_true", help="show the progress of a build until it ends, and end as it did"
    )
    held = parser.add_mutually_exclusive_group()
    held.add_argument("--pin", metavar="VERSION", help="let LATEST name this version and stay there; builds go on")
    held.add_argument("--unpin", action="store_true", help="let LATEST name the newest whole version again")
    return parser


def _hold(output: str, version: str | None) -> None:
    """Pins a version, or ends that."""
    staging = Workspace(output).path
    was_there = storage.is_folder(staging)
    try:
        if version is None:
            unpin(output, staging=staging)
        else:
            pin(output, version, staging=staging)
    finally:
        if not was_there:
            storage.delete_if_empty(staging)


def _follow(output: str) -> dict[str, Any]:
    """Shows the progress of the build that runs, if one does, until none does; what is known then."""
    while build := _find_running(_describe_builds(output, now=_now(output))):
        folder, listed = build["folder"], build["listed"]
        # A job that no launcher follows does not say how many samples it has.
        with Progress(folder, total=listed) if listed else contextlib.nullcontext():
            while build and build["folder"] == folder:
                time.sleep(_FOLLOW_SECONDS)
                build = _find_running(_describe_builds(output, now=_now(output)))
    return describe_status(output, now=_now(output))


def _now(output: str) -> float:
    """The time by the clock of the store; by that of this machine for who may only read."""
    try:
        return storage.now(Workspace(output).lease) if Workspace(output).list_builds() else time.time()
    except OSError:
        return time.time()


def describe_status(output: str, *, now: float) -> dict[str, Any]:
    """What is known of an output folder, as plain values."""
    builds = _describe_builds(output, now=now)
    running = _find_running(builds)
    last = running or next((build for build in builds if build["state"] == "unpublished"), None)
    temporary = Workspace(output).path
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
    return {
        "output": output,
        "state": last["state"] if last else "dead" if any(build["state"] == "dead" for build in builds) else "idle",
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


def _describe_builds(output: str, *, now: float) -> list[dict[str, Any]]:
    return [_describe_build(output, folder, run, now=now) for folder, run in read_runs(output)]


def _find_running(builds: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    return next((build for build in builds if build["state"] in _GOING), None)


def _describe_build(output: str, folder: str, run: Run | None, *, now: float) -> dict[str, Any]:
    counts = read_block_counts(folder)
    job = read_job(folder)
    last_block = read_last_block_time(folder)
    result = _read_result(folder)
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
        "last_block": _time(last_block) if last_block else None,
        "done": counts.done,
        "failed": counts.failed,
        "failure_reasons": _count_reasons(folder) if counts.failed else {},
        "samples_per_second": None,
        "seconds_left": None,
        "exit_code": None,
        "why": [],
    }
    if result is not None and result["is_unchanged"]:
        return {**values, "state": "unchanged", "exit_code": DONE}
    if result is not None:
        return {**values, "state": "unpublished", "exit_code": UNPUBLISHED, "why": result["tripped"]}
    if run is not None and run.is_alive(now):
        rate = (counts.done - run.done_before) / max(1e-3, run.beat - run.began)
        left = (run.listed - counts.done) / rate if rate > 0 else None
        values |= {"state": "running", "samples_per_second": round(rate, 1), "seconds_left": left and round(left)}
    elif _is_published(output, folder):
        values["state"] = "published"
    elif job is not None:
        # Its launcher may have left on purpose; the runner's own page knows more.
        values["state"] = "running" if is_advancing(last_block) else "submitted"
    return values


def _is_published(output: str, folder: str) -> bool:
    """Whether a build has published its dataset, and its temporary files are left."""
    version = read_version(folder)
    path = storage.join(output, version) if version else output
    return is_open(output) and storage.exists(storage.join(path, SUCCESS))


def _read_result(folder: str) -> dict[str, Any] | None:
    path = BuildFolder(folder).outcome
    if not storage.exists(path):
        return None
    values: dict[str, Any] = json.loads(storage.read_bytes(path))
    return values


def _count_reasons(folder: str) -> dict[str, int]:
    """Reasons of the failures so far; of very many, those of the first files."""
    reasons: Counter[str] = Counter()
    lines = (
        line
        for entry in storage.list_files(BuildFolder(folder).failures, literal=True)
        for line in storage.read_bytes(entry.path).splitlines()
    )
    for line in itertools.islice(lines, _MOST_LINES):
        reasons[json.loads(line)["reason"]] += 1
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
    """The versions that were there when one of those that are there now was built, and are not any more."""
    there, known = set(), set()
    for version in versions:
        there.add(version["name"])
        path = storage.join(output, version["name"], CHANGES)
        if version["records"] is not None and storage.exists(path):
            known.update(json.loads(storage.read_bytes(path)).get("versions", ()))
    return sorted(known - there)


def _describe_dataset(dataset: Dataset) -> dict[str, Any]:
    return {
        "published": _time(storage.stat(storage.join(dataset.path, SUCCESS)).modified),
        **{name: find_fact(dataset.manifest, name) for name in HEADERS},
    }


def _time(seconds: float) -> str:
    time = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _lines(found: dict[str, Any]) -> Iterator[str]:
    build = found["build"]
    yield f"{found['output']}: {found['state']}"
    if build is not None:
        yield from _build_lines(build)
    if found["dataset"]:
        yield f"dataset: {_counts(found['dataset'])}, published {found['dataset']['published']}"
    if found["versions"]:
        rows = [["version", *HEADERS.values(), ""]]
        for version in found["versions"]:
            marks = [LATEST] * (version["name"] == found["latest"]) + ["pinned"] * (version["name"] == found["pinned"])
            mark = ", ".join(marks)
            if version["records"] is None:
                rows.append([version["name"], *[""] * len(HEADERS), "damaged" if version["damage"] else "not finished"])
            else:
                rows.append([version["name"], *format_cells(version), mark])
        yield from format_table(rows)
    if found["removed_versions"]:
        yield f"removed: {', '.join(found['removed_versions'])}"
    if found["pinned"]:
        yield f"{LATEST} stays at {found['pinned']} until --unpin; new versions are written beside it"
    yield from (f"note: {note}" for note in found["notes"])
    debris = found["debris"]
    if debris["builds"] or debris["bytes"]:
        count = debris["builds"]
        what = f"{count} dead build{'s' if count > 1 else ''}" if count else "temporary files"
        size = format_bytes(debris["bytes"])
        yield f"left over: {what}, {size}; rerun the command to resume; any other build deletes it"


def _build_lines(build: dict[str, Any]) -> Iterator[str]:
    if build["host"]:
        who = f"process {build['process']} on {build['host']}"
        yield f"build: {who}, since {build['since']}, last heartbeat {build['last_heartbeat']}"
    if build["job"]:
        yield f"job: {build['job']['job_id']} on {build['job']['runner']}, {build['job']['url']}"
    if build["listed"]:
        blocks = f"{build['blocks_done']:,} of {build['blocks']:,}"
        last = f", the last one at {build['last_block']}" if build["last_block"] else ""
        yield f"samples: {build['done']:,} of {build['listed']:,}; blocks: {blocks}{last}"
    yield from describe_reasons(build["failure_reasons"])
    if build["samples_per_second"]:
        left = f", about {datetime.timedelta(seconds=build['seconds_left'] or 0)} left"
        yield f"speed: {build['samples_per_second']:,} samples/s{left}"
    if build["state"] == "unpublished":
        yield "nothing was published (exit code 3):"
        yield from (f"  guard {line}" for line in build["why"])


def _counts(dataset: dict[str, Any]) -> str:
    return f"{dataset['records']:,} records, {dataset['failures']:,} failures, {format_bytes(dataset['bytes'])}"
