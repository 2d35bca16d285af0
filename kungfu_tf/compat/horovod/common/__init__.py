"""What does not depend on TensorFlow."""
