"""From fields of a sample to a serialized `tf.train.Example`, without TensorFlow."""

# Whoever changes the bytes of an example, or the hash of a sample in its index row, adds one, as for
# `transforms.images.REVISION`. Both are made of a sample by `transforms.blocks.convert_sample`.
REVISION = 1
