"""`python -m kungfu.tensorflow.v1.examples`: a first try of TensorFlow 1's graphs."""
