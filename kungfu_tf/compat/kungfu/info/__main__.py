"""Prints it."""

from kungfu.info import show

show()
