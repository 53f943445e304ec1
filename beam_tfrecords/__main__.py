"""`python -m beam_tfrecords` is the command `beam-tfrecords`."""

from beam_tfrecords.beam_pipelines.cli import run

run()
