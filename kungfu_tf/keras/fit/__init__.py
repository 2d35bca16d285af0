"""What Keras' `fit` does for a model that several processes train.

A program wraps its optimizer, and `fit` does the rest. Begin with `run.py`:

1. A call becomes a `Fit` (`call.py`), and the peers compare their arguments (`agreement.py`).
2. Our callbacks come before and after the program's (`callbacks.py`).
3. Then Keras' `fit` runs. Its iterators get data of one length on all peers
   (`epoch_iterators.py`, `even_data.py`), and the model gets a train step that counts samples
   (`counted_step.py`).

A training in which peers come and go is an `ElasticRun` (`elastic_run.py`).
"""
