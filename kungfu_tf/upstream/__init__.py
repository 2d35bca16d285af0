"""What we know of Keras and TensorFlow: the versions that work, and what of theirs we patch."""
