"""`beam-tfrecords convert`: images and labels in, a dataset out."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence

from beam_pipelines.building import Unpublished, build_dataset
from beam_pipelines.exit_codes import DONE, UNPUBLISHED
from beam_pipelines.settings.command_line import parse_arguments
from beam_pipelines.settings.definitions import read_build_spec
from beam_pipelines.summary import describe_duplicates, describe_reasons, summarize
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
    outcome = build_dataset(spec, arguments.beam, verbose=arguments.verbose)
    seconds = time.monotonic() - start
    if outcome is None:
        print("\n".join(summarize(open_dataset(spec.output).manifest, output=spec.output, seconds=seconds)))
        return DONE
    print("\n".join(_explain_refusal(outcome, spec)), file=sys.stderr)
    return UNPUBLISHED


def _explain_refusal(outcome: Unpublished, spec: BuildSpec) -> Iterator[str]:
    """The lines that say why nothing was published."""
    if spec.duplicates is Duplicates.FAIL and outcome.duplicates["groups"]:
        yield "Nothing was published: there are identical images, and --duplicates=fail allows none."
        yield from describe_duplicates(outcome.duplicates)
        yield f"list: {storage.join(outcome.folder, DUPLICATES)}"
    else:
        yield (
            f"Nothing was published: {outcome.failed:,} of {outcome.listed:,} samples failed; "
            f"--max_failures={spec.max_failures:g} allows fewer."
        )
    if outcome.failed:
        yield from describe_reasons(outcome.reasons)
        yield f"list: {storage.join(outcome.folder, FAILURES)}"


if __name__ == "__main__":
    from beam_pipelines.cli import run_command

    sys.exit(run_command("convert", sys.argv[1:]))
