"""Sessions and Estimators of TF1, for a graph that several processes train.

A graph in which a wrapped optimizer exchanges gradients has gates (`_gate`), and by them it is
known: `replaced` is the door, through which other graphs pass as if nothing were there.
"""
