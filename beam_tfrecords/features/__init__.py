"""The features of an example: fields, layouts and bytes; without I/O and TensorFlow."""

# Increase REVISION with every change of an example's bytes, or of a sample's hash in its index row, like
# `transforms.images.REVISION`. `transforms.blocks.convert_sample` makes both from a sample.
REVISION = 1
