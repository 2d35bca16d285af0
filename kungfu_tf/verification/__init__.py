"""`kungfu-run -verify`: does a step on several peers do what one process does with their samples?

For each of the first steps of a training, before it is taken:

- `batches.py` puts the batches of all peers together, on rank 0;
- `step.py` has the step taken with that, on rank 0 alone, and then by all peers;
- `comparison.py` compares what they have computed, and words what it finds;
- `account.py` says what was verified in the end.

What is random, or mixes the samples of a batch by design, is left out (`quiet.py`). Each surface
says how a step is tried: `keras/verify` for `fit`, `loop.py` for loops of a program's own, which
leave nothing changed (`process_state.py`), and `tf1/verify` for sessions. What trains otherwise is
known to `unverified.py`.
"""
