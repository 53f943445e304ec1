"""Serializes the fields of a sample as a `tf.train.Example`, without TensorFlow."""

# Increase REVISION with every change of an example's bytes, or of a sample's hash in its index row, like
# `transforms.images.REVISION`. `transforms.blocks.convert_sample` makes both from a sample.
REVISION = 1
