"""The frontend of TensorFlow 1: Sessions and Estimators on several peers."""
