"""What Keras' `fit` does for a model that several processes train.

The optimizer is wrapped, and `fit` does the rest. Begin with `run.py`:

1. A call becomes a `Fit` (`call.py`), and the peers compare their arguments (`agreement.py`).
2. Our callbacks come before and after the program's (`callbacks.py`).
3. Keras' `fit` runs within. Its iterators get the data that all train on (`epoch_iterators.py`,
   `even_data.py`), and the model gets a step that counts samples (`counted_step.py`).

A training in which peers come and go is an `ElasticRun` (`elastic_run.py`).
"""
