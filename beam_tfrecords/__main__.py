"""`python -m beam_tfrecords` is the command `beam-tfrecords`."""

from beam_tfrecords.beam_pipelines.commands.cli import run

run()
