"""`python -m beam_tfrecords` is the command `beam-tfrecords`."""

import importlib

# Above this package; nothing else of it imports the programs.
importlib.import_module("beam_pipelines.cli").run()
