"""`beam-tfrecords completion`: prints a script for shell completion of commands and flags."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import shtab

from beam_tfrecords.beam_pipelines.commands import inspect_dataset, report, status, verify
from beam_tfrecords.beam_pipelines.messages.exit_codes import DONE
from beam_tfrecords.beam_pipelines.settings import command_line
from beam_tfrecords.beam_pipelines.terminal import show

_PARSERS = {
    "convert": command_line.make_parser,
    "verify": verify.make_parser,
    "inspect": inspect_dataset.make_parser,
    "report": report.make_parser,
    "status": status.make_parser,
}


def completion(argv: Sequence[str]) -> int:
    """Runs the command.

    Raises:
      RequestError: the shell is unknown.
    """
    parser = command_line.Parser(
        prog="beam-tfrecords completion",
        description="Prints a script by which a shell completes commands and flags.",
        epilog='eval "$(beam-tfrecords completion bash)"',
    )
    parser.add_argument("shell", choices=shtab.SUPPORTED_SHELLS)
    shell = parser.parse_args(argv).shell
    program = argparse.ArgumentParser(prog="beam-tfrecords")
    commands = program.add_subparsers()
    for name, make_parser in _PARSERS.items():
        commands.add_parser(name, parents=[make_parser()], conflict_handler="resolve", help=f"see {name} --help")
    show(*shtab.complete(program, shell).splitlines())
    return DONE
