"""Reads datasets back for training: `tf_data` with TensorFlow, `records` with random access and without TensorFlow."""
