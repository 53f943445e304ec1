"""The flags that Beam knows. They are given on the command line only: they say where a build runs, not what it is."""

from __future__ import annotations

import argparse


def add_beam_flags(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Adds the flags of Beam and of its runners to a parser; imports Beam."""
    from apache_beam.options.pipeline_options import PipelineOptions

    for options in sorted(PipelineOptions.__subclasses__(), key=lambda kind: kind.__name__):
        options._add_argparse_args(parser)
    return parser


def flag_names(parser: argparse.ArgumentParser) -> list[str]:
    """The names of a parser's flags, without dashes."""
    return [flag.lstrip("-") for action in parser._actions for flag in action.option_strings]
