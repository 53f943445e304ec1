"""Reads datasets back for training."""

from transforms.reading.tf_data import load

__all__ = ["load"]
