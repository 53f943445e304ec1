"""Runs `beam-tfrecords convert` as `python -m beam_tfrecords.beam_pipelines.convert`, for schedulers."""

from __future__ import annotations

from beam_tfrecords.beam_pipelines.commands.cli import run

if __name__ == "__main__":
    run("convert")
