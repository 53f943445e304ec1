"""From fields of a sample to a serialized `tf.train.Example`, without TensorFlow."""
