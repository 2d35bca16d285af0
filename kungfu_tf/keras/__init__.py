"""The frontend of Keras: `fit` on several peers."""
