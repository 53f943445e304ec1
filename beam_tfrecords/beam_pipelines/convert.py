"""`python -m beam_tfrecords.beam_pipelines.convert`, the name by which schedulers start `beam-tfrecords convert`."""

from __future__ import annotations

from beam_tfrecords.beam_pipelines.commands.cli import run

if __name__ == "__main__":
    run("convert")
