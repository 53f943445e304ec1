"""`beam-tfrecords status`: shows the state of a build and the versions, from storage and from the runner."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Iterator, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.output.state import (
    GOING,
    describe_builds,
    describe_status,
    find_running,
    now_at,
)
from beam_tfrecords.beam_pipelines.messages.exit_codes import DONE, FAILED, UNPUBLISHED
from beam_tfrecords.beam_pipelines.messages.progress import Progress, describe_stage
from beam_tfrecords.beam_pipelines.messages.summary import (
    HEADERS,
    describe_reasons,
    format_bytes,
    format_cells,
    format_table,
)
from beam_tfrecords.beam_pipelines.settings.command_line import Parser
from beam_tfrecords.beam_pipelines.terminal import counted, show
from beam_tfrecords.errors import RequestError
from beam_tfrecords.escaping import write_json
from beam_tfrecords.output.files import LATEST
from beam_tfrecords.output.pointers import pin, unpin
from beam_tfrecords.transforms.request.build_spec import read_output
from beam_tfrecords.transforms.workspace.build_folder import Workspace
from beam_tfrecords.transforms.workspace.counts import StageCounts

_FOLLOW_SECONDS = 2.0
# Final state of a followed build -> exit code.
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
        raise RequestError(f"--output={arguments.output}: {error}", code="invalid_value") from error
    if not storage.is_folder(output):
        raise RequestError(f"--output={output}: no such folder; expected the --output of a build", code="not_found")
    if arguments.pin is not None or arguments.unpin:
        _hold(output, arguments.pin)
    found = _follow(output) if arguments.follow else describe_status(output, now=now_at(output))
    show(*(write_json(found, indent=2).splitlines() if arguments.json else _lines(found)))
    ended = _ENDED.get(found["state"], DONE) if arguments.follow else DONE
    return ended or (FAILED if found["latest_damage"] else DONE)


def make_parser() -> Parser:
    """Returns the parser of this command."""
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
    """Pins a version, or unpins it."""
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
    """Shows the progress of running builds until none runs; returns the description of the output then."""
    while build := _find_going(output):
        folder, listed = build["folder"], build["listed"]
        # Without a launcher that follows it, a job does not report its number of samples.
        with Progress(folder, total=listed) if listed else contextlib.nullcontext():
            while build and build["folder"] == folder:
                time.sleep(_FOLLOW_SECONDS)
                build = find_running(describe_builds(output, now=now_at(output)))
    return describe_status(output, now=now_at(output))


def _find_going(output: str) -> dict[str, Any] | None:
    """Returns the running build once its input is listed; None if there is none."""
    while True:
        build = find_running(describe_builds(output, now=now_at(output)))
        if build or describe_status(output, now=now_at(output))["state"] != "listing":
            return build
        time.sleep(_FOLLOW_SECONDS)


def _lines(found: dict[str, Any]) -> Iterator[str]:
    build = found["build"]
    yield f"{found['output']}: {found['state']}"
    if found["holder"]:
        yield f"the input is being listed by {found['holder']}"
    if build is not None:
        yield from _build_lines(build)
    if found["dataset"]:
        yield f"dataset: {_counts(found['dataset'])}, published {found['dataset']['published']}"
    if found["versions"] or found["not_versions"]:
        rows = [["version", *HEADERS.values(), ""]]
        for version in found["versions"]:
            marks = [LATEST] * (version["name"] == found["latest"]) + ["pinned"] * (version["name"] == found["pinned"])
            is_unknown = version["records"] is None
            marks += ["damaged"] if version["damage"] else ["not finished"] * is_unknown
            cells = [""] * len(HEADERS) if is_unknown else format_cells(version)
            rows.append([version["name"], *cells, ", ".join(marks)])
        rows += [[name, *[""] * len(HEADERS), "not a version of this dataset"] for name in found["not_versions"]]
        yield from format_table(rows)
    if found["removed_versions"]:
        yield f"removed: {', '.join(found['removed_versions'])}"
    if found["pinned"]:
        yield f"{LATEST} stays at {found['pinned']} until --unpin; new versions are written beside it"
    yield from (f"note: {note}" for note in found["notes"])
    debris = found["debris"]
    if debris["builds"] or debris["bytes"]:
        count = debris["builds"]
        what = counted(count, "dead build") if count else "temporary files"
        size = format_bytes(debris["bytes"])
        yield f"left over: {what}, {size}; rerun the command to resume; any other build deletes it"


def _build_lines(build: dict[str, Any]) -> Iterator[str]:
    if build["host"]:
        who = f"process {build['process']} on {build['host']}"
        # A launcher that exited on purpose sends no heartbeats.
        is_there = not build["job"] or build["samples_per_second"] is not None
        last = f", last heartbeat {build['last_heartbeat']}" if is_there else ""
        yield f"{'build:' if is_there else 'submitted by'} {who}, since {build['since']}{last}"
    if build["job"]:
        job = build["job"]
        yield f"job: {job['job_id'] or job['name']} on {job['runner']}, {job['url']}"
    if build["listed"]:
        blocks = f"{build['blocks_done']:,} of {build['blocks']:,}"
        last = f", the last one at {build['last_block']}" if build["last_block"] else ""
        yield f"samples: {build['done']:,} of {build['listed']:,}; blocks: {blocks}{last}"
        stages = StageCounts(**build["stages"])
        if build["state"] in GOING and (build["done"] >= build["listed"] or stages.follow_blocks):
            yield f"stage: {describe_stage(stages)}"
    yield from describe_reasons(build["failure_reasons"])
    if build["samples_per_second"]:
        left = f", about {datetime.timedelta(seconds=build['seconds_left'] or 0)} left"
        yield f"speed: {build['samples_per_second']:,} samples/s{left}"
    if build["state"] == "dead" and build["why"]:
        yield f"the job has ended: {build['why'][0]}"
    if build["state"] == "unpublished":
        yield "nothing was published (exit code 3):"
        yield from (f"  {line}" for line in build["why"])


def _counts(dataset: dict[str, Any]) -> str:
    records, failures = counted(dataset["records"], "record"), counted(dataset["failures"], "failure")
    return f"{records}, {failures}, {format_bytes(dataset['bytes'])}"
