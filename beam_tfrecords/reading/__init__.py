"""Reads datasets back for training: `tf_data` with TensorFlow, `records` at random without it."""
