"""Reads datasets back for training."""

from beam_tfrecords.reading.tf_data import load

__all__ = ["load"]
