"""`beam-tfrecords status`: shows the state of a build and the versions, from storage and from the runner."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Iterator, Sequence

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.output.previous import open_newest
from beam_tfrecords.beam_pipelines.build.output.state import (
    GOING,
    BuildState,
    OutputState,
    describe_builds,
    describe_status,
    find_running,
)
from beam_tfrecords.beam_pipelines.interrupts import keep_interrupts
from beam_tfrecords.beam_pipelines.messages.exit_codes import DONE, FAILED, WRONG_REQUEST, exit_code_of
from beam_tfrecords.beam_pipelines.messages.outcomes import Published
from beam_tfrecords.beam_pipelines.messages.progress import Progress, describe_stage
from beam_tfrecords.beam_pipelines.messages.run_summary import JSON_FORMAT, RunSummary
from beam_tfrecords.beam_pipelines.messages.summary import (
    HEADERS,
    describe_reasons,
    explain_unpublished,
    format_bytes,
    format_cells,
    format_table,
)
from beam_tfrecords.beam_pipelines.runners.jobs import AWAY
from beam_tfrecords.beam_pipelines.settings.command_line import SUMMARY_FILES, Parser
from beam_tfrecords.beam_pipelines.terminal import counted, format_seconds, show
from beam_tfrecords.dataset.dataset import open_published
from beam_tfrecords.dataset.files import LATEST, SUCCESS
from beam_tfrecords.dataset.pointers import pin, read_pinned, unpin
from beam_tfrecords.dataset.versions import list_versions, read_listed
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.escaping import write_json
from beam_tfrecords.storage.beside import does_not_exist
from beam_tfrecords.transforms.request.build_spec import read_output
from beam_tfrecords.transforms.workspace.build_folder import Workspace

# State of a build -> introduces the runner's reason.
_SAID = {
    "dead": "the job has ended",
    "unknown": "it is unknown whether the job runs",
    **dict.fromkeys(("running", "submitted"), "the job cannot succeed"),
}
_FOLLOW_SECONDS = 2.0


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
        raise RequestError(
            f"--output={output} {does_not_exist(output)}; expected the --output of a build", code="not_found"
        )
    for name in SUMMARY_FILES:
        if getattr(arguments, name) is not None and not arguments.follow:
            raise RequestError(
                f"--{name}={getattr(arguments, name)}: is written at the end of a build; add --follow, which waits for "
                "it",
                code="needs_setting",
            )
    if arguments.pin is not None or arguments.unpin:
        _hold(output, arguments.pin)
    if arguments.follow:
        summary = RunSummary(arguments.json_summary, arguments.metrics_file, output=output, status="idle")
        with summary.written(), keep_interrupts():
            found = _follow(output, summary)
    else:
        found = describe_status(output)
    show(*(write_json({**JSON_FORMAT, **found.to_json()}, indent=2).splitlines() if arguments.json else _lines(found)))
    ended = summary.exit_code if arguments.follow else DONE
    return ended or (FAILED if found.latest_damage else DONE)


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
    for name, text in SUMMARY_FILES.items():
        parser.add_argument(f"--{name}", metavar="FILE", help=f"with --follow: {text}")
    held = parser.add_mutually_exclusive_group()
    held.add_argument("--pin", metavar="VERSION", help="let LATEST name this version and stay there; builds go on")
    held.add_argument("--unpin", action="store_true", help="point LATEST to the newest intact version again")
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


def _follow_builds(output: str) -> BuildState | None:
    """Shows the progress of running builds until none runs, or until a runner does not answer for a minute.

    Returns:
      The last description of the last build that ran; None if none did.
    """
    followed: BuildState | None = None
    while build := _find_going(output):
        folder, listed = build.folder, build.listed
        answered = time.monotonic()
        # Without a launcher that follows it, a job does not report its number of samples.
        with Progress(folder, total=listed) if listed else contextlib.nullcontext():
            while build and build.folder == folder:
                followed = build
                if build.state != "unknown":
                    answered = time.monotonic()
                elif time.monotonic() - answered > AWAY:
                    return followed
                time.sleep(_FOLLOW_SECONDS)
                build = find_running(describe_builds(output))
    return followed


def _find_going(output: str) -> BuildState | None:
    """Returns the running build once its input is listed; None if there is none."""
    while True:
        build = find_running(describe_builds(output))
        if build or describe_status(output).state != "listing":
            return build
        time.sleep(_FOLLOW_SECONDS)


def _find_failure(build: BuildState) -> tuple[int, str] | None:
    """Returns exit code and message of a build that failed, was refused or whose end is unknown; None for others."""
    match build.state:
        case "refused":
            return WRONG_REQUEST, build.why[0]
        case "unknown":
            return FAILED, f"{build.why[0]}, so the end of the job is unknown; run this command again"
        case "dead":
            why = build.why[0] if build.why else "it ended without a result"
            return FAILED, f"the build is dead: {why}; the command that started it resumes from its finished blocks"
    return None


def _find_published(output: str, followed: BuildState | None, found: OutputState) -> Published | None:
    """Returns the dataset that the last build has published or found unchanged; None if there is none."""
    # A job that removes its temporary files may have removed the name of its version first.
    version = (followed and followed.version) or found.latest
    request_metrics = followed.request_metrics if followed else {}
    dataset, _ = open_published(storage.join(output, version) if version else output)
    if dataset is None and version:
        # A build that repeats the newest version removes its own.
        dataset, _ = open_newest(output)
        return Published(dataset, is_unchanged=True, request_metrics=request_metrics) if dataset else None
    if dataset is None or not version:
        return Published(dataset, request_metrics=request_metrics) if dataset else None
    there = {one.name for one in list_versions(output)}
    removed = sorted(name for name in read_listed(output, version) if name not in there)
    return Published(dataset, request_metrics=request_metrics, removed=tuple(removed), pinned=read_pinned(output))


def _follow(output: str, summary: RunSummary) -> OutputState:
    """Follows running builds, and fills in how the last one ended; returns the description of the output then."""
    followed = _follow_builds(output)
    if followed and followed.since:
        summary.began = datetime.datetime.fromisoformat(followed.since.replace("Z", "+00:00")).timestamp()
    found, last = describe_status(output), None
    if followed is None:
        last = found.build
    else:
        builds = describe_builds(output)
        last = next((build for build in builds if build.folder == followed.folder), None)
    if last is not None and (failure := _find_failure(last)):
        summary.add_failure(*failure)
        return found
    try:
        published = None if last and last.unpublished else _find_published(output, followed, found)
    except (BuildError, RequestError) as error:
        summary.add_failure(exit_code_of(error), str(error))
        return found
    if last is not None and last.unpublished:
        summary.add_unpublished(last.unpublished, next(explain_unpublished(last.unpublished)))
    elif published is not None:
        summary.add_published(published)
        if followed is None:
            summary.succeeded = storage.stat(storage.join(published.path, SUCCESS)).modified
    elif followed is not None:
        why = f"the build ended without a dataset in {output}; the log of its runner may say why"
        summary.add_failure(FAILED, why)
        return found
    if found.latest_damage and not summary.exit_code:
        summary.add_failure(FAILED, found.latest_damage)
    return found


def _lines(found: OutputState) -> Iterator[str]:
    build = found.build
    yield f"{found.output}: {found.state}"
    if found.holder:
        yield f"the input is being listed by {found.holder}"
    if build is not None:
        yield from _build_lines(build)
    if dataset := found.dataset:
        records, failures = counted(dataset["records"], "record"), counted(dataset["failures"], "failure")
        yield f"dataset: {records}, {failures}, {format_bytes(dataset['bytes'])}, published {dataset['published']}"
    if found.versions or found.not_versions:
        rows = [["version", *HEADERS.values(), ""]]
        for version in found.versions:
            marks = [LATEST] * (version["name"] == found.latest) + ["pinned"] * (version["name"] == found.pinned)
            is_unknown = version["records"] is None
            marks += ["damaged"] if version["damage"] else ["not finished"] * is_unknown
            cells = [""] * len(HEADERS) if is_unknown else format_cells(version)
            rows.append([version["name"], *cells, ", ".join(marks)])
        rows += [[name, *[""] * len(HEADERS), "not a version of this dataset"] for name in found.not_versions]
        yield from format_table(rows)
    if run := found.last_unchanged:
        took = format_seconds(run["seconds"])
        yield f"last run: {run['ended']}, took {took}, and found nothing new since {run['version']}"
    if found.removed_versions:
        yield f"removed: {', '.join(found.removed_versions)}"
    if found.pinned:
        yield f"{LATEST} stays at {found.pinned} until --unpin; new versions are written beside it"
    yield from (f"note: {note}" for note in found.notes)
    debris = found.debris
    if debris["builds"] or debris["bytes"]:
        count = debris["builds"]
        what = counted(count, "dead build") if count else "temporary files"
        size = format_bytes(debris["bytes"])
        yield f"left over: {what}, {size}; rerun the command to resume; any other build deletes it"


def _build_lines(build: BuildState) -> Iterator[str]:
    if build.host:
        who = f"process {build.process} on {build.host}"
        # A launcher may exit on purpose and leave its job.
        is_there = not build.job or build.last_heartbeat
        last = f", last heartbeat {build.last_heartbeat}" if build.last_heartbeat else ""
        yield f"{'build:' if is_there else 'submitted by'} {who}, since {build.since}{last}"
    if job := build.job:
        yield f"job: {job.job_id or job.name} on {job.runner}, {job.url}"
    if build.listed:
        blocks = f"{build.blocks_done:,} of {build.blocks:,}"
        last = f", the last one at {build.last_block}" if build.last_block else ""
        yield f"samples: {build.done:,} of {build.listed:,}; blocks: {blocks}{last}"
        if build.state in GOING and (build.done >= build.listed or build.stages.follow_blocks):
            yield f"stage: {describe_stage(build.stages)}"
    if build.state != "unpublished":
        yield from describe_reasons(build.failure_reasons)
    if build.samples_per_second:
        left = f", about {datetime.timedelta(seconds=build.seconds_left or 0)} left"
        yield f"speed: {build.samples_per_second:,} samples/s{left}"
    yield from build.notes
    if build.state == "refused":
        yield f"exit code {build.exit_code}: {build.why[0]}"
    if build.why and build.state in _SAID:
        yield f"{_SAID[build.state]}: {build.why[0]}"
    if build.unpublished:
        yield "exit code 3:"
        yield from (f"  {line}" for line in explain_unpublished(build.unpublished))
