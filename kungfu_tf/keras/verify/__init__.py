"""`kungfu-run -verify` of a `fit`.

`steps.py` verifies its first steps (`verification/step.py`), and compares what all models predict
afterwards. `trial.py` tries a step.
"""
