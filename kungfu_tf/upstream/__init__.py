"""Knowledge of Keras and TensorFlow: the versions that work, and the functions that we patch."""
