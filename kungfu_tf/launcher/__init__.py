"""kungfu-run: starts, watches and ends the peers of one host.

Standard library only, no TensorFlow.
"""
