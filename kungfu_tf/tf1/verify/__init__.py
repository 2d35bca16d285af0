"""`kungfu-run -verify` of sessions.

`steps.py` verifies the first runs that train (`verification/step.py`), if their batches are fed.
`trial.py` tries one: in the same graph, with the gradients of one process in place of those that
all peers exchange.
"""
