"""What Keras' `fit` does for a model that several processes train.

The optimizer is wrapped, and `fit` does the rest: `replaced` is the door, through which a model
without a wrapped optimizer passes as if nothing were there.
"""
