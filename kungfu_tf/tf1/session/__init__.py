"""Sessions and Estimators of TF1, for a graph that several processes train.

A graph in which a wrapped optimizer exchanges gradients has gates (`replicas/gates.py`), by which
it is recognised. `tf1/patches.py` wraps TensorFlow's own functions in those of this package. Other
graphs run as before.
"""
