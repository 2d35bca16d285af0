"""The frontend of Keras: what `fit` does on several peers."""
