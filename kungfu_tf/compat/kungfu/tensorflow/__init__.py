"""KungFu's modules for TensorFlow."""
