"""From fields of a sample to a serialized `tf.train.Example`, without TensorFlow."""

# Whoever changes the bytes of an example adds one, as for `transforms.images.REVISION`.
REVISION = 1
