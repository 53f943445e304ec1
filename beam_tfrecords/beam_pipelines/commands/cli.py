"""The command `beam-tfrecords`."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import io
import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence

from beam_tfrecords.beam_pipelines.interrupts import Terminated, catch_termination, keep_interrupts
from beam_tfrecords.beam_pipelines.messages.exit_codes import (
    BROKEN_PIPE,
    DONE,
    FAILED,
    INTERRUPTED,
    LOCKED,
    UNPUBLISHED,
    WRONG_REQUEST,
    exit_code_of,
)
from beam_tfrecords.beam_pipelines.terminal import ignore_write_errors, log_to_terminal, open_closed_streams, show
from beam_tfrecords.errors import BuildError, RequestError

_USAGE = """\
usage: beam-tfrecords COMMAND [--flag=value ...]

  demo      write sample photos, and build a first dataset
  convert   build a dataset from images and labels
  verify    check every CRC, count, feature and image of a dataset
  inspect   show the schema and examples of a dataset, or what an input is
  export    write a dataset as files: images in folders, a table, COCO
  report    write report.html, one page with pictures, classes and failures
  status    show what a build is doing, and the versions of a dataset

beam-tfrecords COMMAND --help tells more; --version shows the version.
Completion: eval "$(beam-tfrecords completion bash)", the same with zsh;
beam-tfrecords completion fish | source
"""
# Command -> (module, function). Imported on demand, so that help does not wait for the imports of other commands.
_COMMANDS = {
    "convert": ("beam_tfrecords.beam_pipelines.commands.convert", "convert"),
    "demo": ("beam_tfrecords.beam_pipelines.commands.demo", "demo"),
    "verify": ("beam_tfrecords.beam_pipelines.commands.verify", "verify"),
    "inspect": ("beam_tfrecords.beam_pipelines.commands.inspect_dataset", "inspect"),
    "export": ("beam_tfrecords.beam_pipelines.commands.export", "export"),
    "report": ("beam_tfrecords.beam_pipelines.commands.report", "report"),
    "status": ("beam_tfrecords.beam_pipelines.commands.status", "status"),
    "completion": ("beam_tfrecords.beam_pipelines.commands.completion", "completion"),
}
# Commands that do more than print, so that a failed print does not decide their exit code.
_WORKING = frozenset({"demo", "convert", "verify", "export", "report"})
# Exit code -> introduces the reason.
_LEADS = {UNPUBLISHED: "nothing was published: ", LOCKED: "nothing was started: ", FAILED: "the run failed: "}
_VERBOSE = "--verbose"
# Libraries that warn about requests that are retried; the program reports errors in its own words.
_QUIET = ("botocore", "google", "urllib3")
_HELP = frozenset({"-h", "--help"})
_SILENT = frozenset({"--quiet", "--json"})
# One process per core does the work. Threads that NumPy and Arrow would start on import would be idle, and a process
# with threads cannot be forked safely.
_NO_IDLE_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}


def main(argv: Sequence[str]) -> int:
    """Runs a command line and returns the exit code (see `exit_codes`)."""
    if argv and argv[0] in ("-V", "--version"):
        import importlib.metadata

        show(f"beam-tfrecords {importlib.metadata.version('beam-tfrecords')}")
        return DONE
    if len(argv) == 2 and argv[0] == "help":
        return run_command(argv[1], ["--help"])
    if not argv or argv[0] in (*_HELP, "help"):
        show(*_USAGE.splitlines())
        return DONE if argv else WRONG_REQUEST
    return run_command(argv[0], argv[1:])


def run_command(name: str, argv: Sequence[str]) -> int:
    """Runs one command; turns an error into one line and an exit code."""
    from beam_tfrecords import storage
    from beam_tfrecords.quiet_beam import beam_logs_from

    for variable, value in _NO_IDLE_THREADS.items():
        os.environ.setdefault(variable, value)
    level = logging.INFO if _VERBOSE in argv else logging.CRITICAL
    options = storage.StorageOptions(beam_arguments=tuple(argv))
    try:
        with beam_logs_from(level), catch_termination(), keep_interrupts(), storage.using(options):
            return _find_command(name)(argv)
    except (Exception, KeyboardInterrupt) as error:
        if (lines := _explain(error, name, argv)) is None:
            raise
        return _fail(*lines, code=exit_code_of(error))


def _explain(error: Exception | KeyboardInterrupt, name: str, argv: Sequence[str]) -> Sequence[str] | None:
    """Returns the lines that say why a command ends; None for an unexpected error."""
    from beam_tfrecords import storage

    if isinstance(error, RequestError):
        from beam_tfrecords.beam_pipelines.settings.suggested_commands import explain

        return [*explain(error, name, argv)]
    if isinstance(error, KeyboardInterrupt):
        how = "terminated" if isinstance(error, Terminated) else "interrupted"
        return [how + ("; the same command resumes from its finished blocks" if name == "convert" else "")]
    from beam_tfrecords.beam_pipelines.limits import describe_shortage

    reason = str(error) if isinstance(error, BuildError | storage.StorageError) else describe_shortage(error)
    return None if reason is None else [_LEADS.get(exit_code_of(error), "") + reason]


def run(*command: str) -> None:
    """The console script: runs the command line, preceded by the given arguments.

    The work decides the exit code. Output that cannot be written does not change it, unless the command only prints.
    A reader that exits early, such as `head`, ends such a command without a message. Characters that the terminal
    cannot show are printed as escapes.
    """
    argv = [*command, *sys.argv[1:]]
    prints_results = not argv or argv[0] not in _WORKING or not _HELP.isdisjoint(argv)
    open_closed_streams()
    sys.stderr = ignore_write_errors(sys.stderr)
    if prints_results:
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    else:
        sys.stdout = ignore_write_errors(sys.stdout)
    log_to_terminal(logging.INFO if _VERBOSE in argv else logging.WARNING)
    for name in () if _VERBOSE in argv else _QUIET:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if not prints_results and sys.stderr.isatty() and not _SILENT.intersection(argv):
        # Imports take half a second. The next line overwrites this one.
        sys.stderr.write("loading libraries\r")
        sys.stderr.flush()
    code = _run(argv, prints_results=prints_results)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = BROKEN_PIPE
    except OSError as error:
        code = _fail(f"the output cannot be printed: {error.strerror}", code=FAILED)
    sys.stderr.flush()
    # Beam's job servers and temporary folders end here; folders that are already gone would print tracebacks.
    with contextlib.redirect_stderr(io.StringIO()):
        atexit._run_exitfuncs()
    # A runner's threads may never end, and unloading Beam's thousand modules would take 0.2 s.
    os._exit(code)


def _run(argv: Sequence[str], *, prints_results: bool) -> int:
    try:
        return main(argv)
    except SystemExit as error:  # the parser has printed its help
        return error.code if isinstance(error.code, int) else DONE
    except KeyboardInterrupt:  # before or after the work of a command
        return _fail("interrupted", code=INTERRUPTED)
    except Exception as error:
        # In a command that works, only the pipe to a worker can break.
        if isinstance(error, BrokenPipeError) and prints_results:
            return BROKEN_PIPE
        # The traceback may quote text from outside.
        show(*traceback.format_exc().splitlines(), file=sys.stderr)
        return FAILED


def _fail(message: str, *more: str, code: int) -> int:
    from beam_tfrecords.beam_pipelines.settings.definitions import show_flags

    show(f"beam-tfrecords: {show_flags(message)}", *more, file=sys.stderr)
    return code


def _find_command(name: str) -> Callable[[Sequence[str]], int]:
    if name not in _COMMANDS:
        from beam_tfrecords import storage
        from beam_tfrecords.habits import find_command

        near = find_command(name, _COMMANDS)
        if near is None and ("/" in name or name.startswith("-") or storage.is_folder(storage.absolute(name))):
            raise RequestError(
                f"unknown command {name!r}; a command comes first: beam-tfrecords convert {name} …",
                code="unknown_command",
            )
        hint = f"did you mean {near!r}?" if near else f"known are {', '.join(_COMMANDS)}"
        raise RequestError(f"unknown command {name!r}; {hint}", code="unknown_command")
    module, function = _COMMANDS[name]
    command: Callable[[Sequence[str]], int] = getattr(importlib.import_module(module), function)
    return command
