"""`beam-tfrecords convert`: images and labels in, a dataset out."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence

from beam_pipelines.building import Unpublished, build_dataset
from beam_pipelines.execution.runners import choose_execution
from beam_pipelines.exit_codes import DONE, UNPUBLISHED
from beam_pipelines.settings.command_line import parse_arguments
from beam_pipelines.settings.definitions import read_build_spec
from beam_pipelines.summary import describe_duplicates, describe_reasons, find_examples, summarize
from transforms import storage
from transforms.build_spec import BuildSpec, Duplicates
from transforms.dataset import DUPLICATES, FAILURES, open_dataset


def convert(argv: Sequence[str]) -> int:
    """Runs the command.

    Returns:
      The exit code.

    Raises:
      RequestError: the request is wrong; nothing has been started.
      BuildError: the build failed.
    """
    start = time.monotonic()
    arguments = parse_arguments(argv)
    spec = read_build_spec(arguments.words)
    if arguments.dry_run:
        from beam_pipelines.dry_run import describe_build

        choose_execution(arguments.beam, verbose=arguments.verbose)
        print("\n".join(describe_build(spec)))
        return DONE
    outcome = build_dataset(spec, arguments.beam, verbose=arguments.verbose, quiet=arguments.quiet)
    seconds = time.monotonic() - start
    if outcome is None:
        # What is published is published, whether or not somebody reads the summary.
        with contextlib.suppress(BrokenPipeError):
            if not arguments.quiet:
                print("\n".join(_summarize(spec, seconds)))
        return DONE
    print("\n".join(_explain_refusal(outcome, spec)), file=sys.stderr)
    return UNPUBLISHED


def _summarize(spec: BuildSpec, seconds: float) -> list[str]:
    manifest = open_dataset(spec.output).manifest
    examples = find_examples(storage.join(spec.output, FAILURES), manifest["failure_reasons"])
    return summarize(manifest, output=spec.output, seconds=seconds, examples=examples)


def _explain_refusal(outcome: Unpublished, spec: BuildSpec) -> Iterator[str]:
    """The lines that say why nothing was published."""
    if spec.duplicates is Duplicates.FAIL and outcome.duplicates["groups"]:
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
    from beam_pipelines.cli import run

    run("convert")
