"""Sessions and Estimators of TF1, for a graph that several processes train.

A graph in which a wrapped optimizer exchanges gradients has gates (`replicas/gates.py`), and is
known by them. `tf1/patches.py` puts what is here around TensorFlow's own functions. Other graphs
run as if nothing were there.
"""
