"""What we know of Keras and TensorFlow: their versions and generations, and how to patch them."""
