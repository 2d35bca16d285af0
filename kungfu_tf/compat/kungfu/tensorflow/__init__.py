"""What KungFu has for TensorFlow."""
