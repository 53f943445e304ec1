"""Beam's flags, and our additions; they select where a build runs, so only the command line has them."""

from __future__ import annotations

import argparse

# Flags that Beam lacks.
OUR_FLAGS = {"max_slots": "task slots of a Flink cluster that a job takes at most; the others stay free"}


def add_beam_flags(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Adds the flags of Beam and its runners, and ours, to a parser; imports Beam."""
    from apache_beam.options.pipeline_options import PipelineOptions

    for options in sorted(PipelineOptions.__subclasses__(), key=lambda kind: kind.__name__):
        options._add_argparse_args(parser)
    for name, help_text in OUR_FLAGS.items():
        parser.add_argument(f"--{name}", help=help_text)
    return parser


def flag_names(parser: argparse.ArgumentParser) -> list[str]:
    """Returns the names of a parser's flags, without dashes."""
    return [flag.lstrip("-") for action in parser._actions for flag in action.option_strings]
