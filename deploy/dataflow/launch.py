"""The program of the Flex Template: submits the build and returns.

The template service passes every parameter as `--name=value`; switches of the command line have no value.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from beam_tfrecords.beam_pipelines.commands.cli import run
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS


def read_switches(argv: Sequence[str]) -> list[str]:
    """Returns the arguments with switches `--name=true` and `--name=false` rewritten as `--name` and `--no_name`."""
    arguments = []
    for word in argv:
        name, _, value = word.removeprefix("--").partition("=")
        value = value.lower()
        if name not in SETTINGS or not SETTINGS[name].is_switch or value not in ("true", "false"):
            arguments.append(word)
        elif (value == "true") != SETTINGS[name].default:
            arguments.append(f"--{name}" if value == "true" else f"--no_{name}")
    return arguments


if __name__ == "__main__":
    sys.argv[1:] = read_switches(sys.argv[1:])
    run("convert", "--no_wait")
