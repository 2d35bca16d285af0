"""What Keras' `fit` does for a model that several processes train.

The optimizer is wrapped, and `fit` does the rest. `keras/patches.py` puts what is here around
Keras' own functions. A model without a wrapped optimizer is trained as if nothing were there.
"""
