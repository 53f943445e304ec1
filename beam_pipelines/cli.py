"""The command `beam-tfrecords`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence

from beam_pipelines.exit_codes import DONE, FAILED, INTERRUPTED, WRONG_REQUEST
from transforms.errors import BuildError, RequestError

USAGE = """\
usage: beam-tfrecords COMMAND [--flag=value ...]

  convert   images and labels in, a shuffled, sharded, verified TFRecord dataset out
  verify    check every CRC, count, feature and image of a dataset
  inspect   show schema and examples of a dataset

beam-tfrecords COMMAND --help tells more.
"""

# The work is done in a process per core. Threads that NumPy and Arrow would start when they are imported have
# nothing to do there; without them, the processes can be forked.
_NO_IDLE_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}


def main(argv: Sequence[str]) -> int:
    """Runs a command line.

    Returns:
      The exit code: 0 done, 1 the run failed, 2 the request was wrong, 3 nothing was published: more
      failures than allowed, or duplicates where there may be none, 130 interrupted by Ctrl-C.
    """
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(USAGE, end="")
        return DONE if argv else WRONG_REQUEST
    return run_command(argv[0], argv[1:])


def run_command(name: str, argv: Sequence[str]) -> int:
    """Runs one command, and turns what can go wrong into a line and an exit code."""
    for variable, value in _NO_IDLE_THREADS.items():
        os.environ.setdefault(variable, value)
    # Beam warns while it is imported, of extras that are not installed; `read_options` has the last word.
    logging.getLogger().setLevel(logging.CRITICAL)
    try:
        return _find_command(name)(argv)
    except RequestError as error:
        print(f"beam-tfrecords: {error}", file=sys.stderr)
        return WRONG_REQUEST
    except BuildError as error:
        print(f"beam-tfrecords: the run failed: {error}", file=sys.stderr)
        return FAILED
    except (KeyboardInterrupt, RuntimeError) as error:
        # Beam makes a RuntimeError of the KeyboardInterrupt that Ctrl-C raises within its local runner.
        if not isinstance(error, KeyboardInterrupt) and not isinstance(error.__context__, KeyboardInterrupt):
            raise
        goes_on = "; the same command goes on from its finished blocks" if name == "convert" else ""
        print(f"beam-tfrecords: interrupted{goes_on}", file=sys.stderr)
        return INTERRUPTED


def run() -> None:
    """The console script."""
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # All is done and closed; taking Beam's thousand modules down one by one would take another half second.
    os._exit(code)


def _find_command(name: str) -> Callable[[Sequence[str]], int]:
    # Imported one by one: the help of a command should not wait for what another needs.
    if name == "convert":
        from beam_pipelines.convert import convert

        return convert
    if name == "verify":
        from beam_pipelines.verify import verify

        return verify
    if name == "inspect":
        from beam_pipelines.inspect import inspect

        return inspect
    raise RequestError(f"{name!r} is no command; expected convert, verify or inspect")
