"""`kungfu-run -verify`: does a step on several peers do what one process does with their samples?

`steps.py` verifies the first steps of a `fit`. For each, before it is taken:

- `batches.py` puts the batches of all peers together, on rank 0;
- `trial.py` takes the step with that, on rank 0 alone, and then with all peers;
- `comparison.py` compares the gradients and the metrics, and words what it finds.

A trial leaves nothing changed. What is random, or mixes the samples of a batch by
design, is left out (`quiet.py`).
"""
