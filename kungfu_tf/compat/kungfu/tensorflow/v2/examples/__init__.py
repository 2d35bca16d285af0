"""`python -m kungfu.tensorflow.v2.examples`: a first try of a gradient tape."""
