"""`beam-tfrecords convert`: images and labels in, a dataset out."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
import time
from collections.abc import Iterator, Sequence

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.building import Published, Unpublished, build_dataset
from beam_tfrecords.beam_pipelines.execution.jobs import JobRecord
from beam_tfrecords.beam_pipelines.execution.runners import Execution, find_runner
from beam_tfrecords.beam_pipelines.exit_codes import DONE, UNPUBLISHED
from beam_tfrecords.beam_pipelines.interrupts import keep_interrupts
from beam_tfrecords.beam_pipelines.reports import Report
from beam_tfrecords.beam_pipelines.settings.command_line import Arguments, find_report_files, parse_arguments
from beam_tfrecords.beam_pipelines.settings.definitions import read_build_spec
from beam_tfrecords.beam_pipelines.summary import describe_duplicates, describe_reasons, find_examples, summarize
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.dataset import Dataset, open_dataset
from beam_tfrecords.files import CHANGES, DUPLICATES, FAILURES, LATEST
from beam_tfrecords.transforms.request.build_spec import BuildSpec, Duplicates


def convert(argv: Sequence[str]) -> int:
    """Runs the command."""
    files = find_report_files(argv)
    report = Report(files["json_summary"], files["metrics_file"])
    with report.written(), keep_interrupts():
        report.exit_code = _convert(parse_arguments(argv), report)
    return report.exit_code


def _convert(arguments: Arguments, report: Report) -> int:
    start = time.monotonic()
    runner = find_runner(arguments.beam)
    # First: a misspelt flag is the likelier mistake than the one that its absence looks like.
    runner.arguments.check_known()
    spec = read_build_spec(arguments.words)
    report.output = spec.output
    if arguments.dry_run:
        from beam_tfrecords.beam_pipelines.dry_run import describe_build

        Execution.prepare(runner, verbose=arguments.verbose)
        found = describe_build(spec)
        show(*found.lines)
        return DONE if found.publishes else UNPUBLISHED
    outcome = build_dataset(
        spec,
        arguments.beam,
        verbose=arguments.verbose,
        quiet=arguments.quiet,
        wait=not arguments.no_wait,
        report=not arguments.no_report,
    )
    seconds = time.monotonic() - start
    if isinstance(outcome, JobRecord):
        report.status, report.facts["job"] = "submitted", dataclasses.asdict(outcome)
        if not arguments.quiet:
            show(f"submitted: job {outcome.job_id}", f"watch it: {outcome.url}")
            show(f"how far it is: beam-tfrecords status --output={shlex.quote(spec.output)}")
        return DONE
    if isinstance(outcome, Published):
        report.status = "unchanged" if outcome.is_unchanged else "published"
        dataset = open_dataset(outcome.path)
        report.dataset, report.manifest = dataset.path, dataset.manifest
        report.add_traffic(outcome.traffic)
        report.facts |= {"removed_versions": outcome.removed, "pinned": outcome.pinned}
        if not arguments.quiet:
            if outcome.is_unchanged:
                show(*_describe_versions(outcome, spec), f"nothing has changed since dataset: {outcome.path}")
            else:
                *lines, last = _summarize(dataset, seconds, report)
                lines += _describe_versions(outcome, spec)
                show(*lines, *([f"report: {outcome.report}"] if outcome.report else []), last)
        return DONE
    lines = list(_explain_refusal(outcome, spec))
    report.status, report.message = "unpublished", lines[0]
    report.facts |= {"guards": outcome.tripped, "folder": outcome.folder}
    report.manifest = {"listed": outcome.listed, "failures": outcome.failed, "failure_reasons": outcome.reasons}
    show(*lines, file=sys.stderr)
    return UNPUBLISHED


def _describe_versions(outcome: Published, spec: BuildSpec) -> Iterator[str]:
    """The lines about the versions that were removed, and about the one that is pinned."""
    for name in outcome.removed:
        yield f"removed: version {name}"
    if outcome.pinned is not None:
        what = "" if outcome.is_unchanged else "published, but "
        yield (
            f"{what}{LATEST} stays at {outcome.pinned}, which is pinned; "
            f"`beam-tfrecords status --output={shlex.quote(spec.output)} --unpin` ends that"
        )


def _summarize(dataset: Dataset, seconds: float, report: Report) -> list[str]:
    path, manifest = dataset.path, dataset.manifest
    examples = find_examples(storage.join(path, FAILURES), manifest["failure_reasons"])
    changes = None
    if CHANGES in manifest["files"]:
        changes = json.loads(storage.read_bytes(storage.join(path, CHANGES)))
    return summarize(
        manifest, output=path, seconds=seconds, examples=examples, changes=changes, traffic=report.add_traffic()
    )


def _explain_refusal(outcome: Unpublished, spec: BuildSpec) -> Iterator[str]:
    """The lines that say why nothing was published."""
    if outcome.tripped:
        yield "Nothing was published: the new version differs too much from the one before it."
        yield from (f"  guard {line}" for line in outcome.tripped)
        yield f"If that is right, say --accept={','.join(outcome.guards)}; the finished work is not done again."
        yield f"changes: {storage.join(outcome.folder, CHANGES)}"
    elif spec.duplicates is Duplicates.FAIL and outcome.duplicates["groups"]:
        yield "Nothing was published: there are identical images, and --duplicates=fail allows none."
        yield from describe_duplicates(outcome.duplicates)
        yield f"list: {storage.join(outcome.folder, DUPLICATES)}"
    else:
        few = outcome.failed <= spec.max_failures * outcome.listed
        why = "no record was written" if few else f"--max_failures={spec.max_failures:g} allows fewer"
        yield f"Nothing was published: {outcome.failed:,} of {outcome.listed:,} samples failed; {why}."
    if outcome.failed:
        failures = storage.join(outcome.folder, FAILURES)
        yield from describe_reasons(outcome.reasons, find_examples(failures, outcome.reasons))
        yield f"list: {failures}"


if __name__ == "__main__":
    from beam_tfrecords.beam_pipelines.cli import run

    run("convert")
