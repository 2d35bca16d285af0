"""kungfu-run: starts, watches and ends the peers of one host.

No TensorFlow; of the core it only asks what may be set (`native/environment.py`).
"""
