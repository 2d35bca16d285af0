"""What Keras' `fit` does for a model that several processes train.

The optimizer is wrapped, and `fit` does the rest. Begin with `run.py`: a call becomes a `Fit`
(`call.py`), the peers compare their arguments (`agreement.py`), our callbacks come before and after
the program's (`callbacks.py`), and Keras' `fit` runs within. Keras' iterators get the data that all
train on (`epoch_iterators.py`, `even_data.py`), and the model a step that counts samples
(`counted_step.py`).
"""
