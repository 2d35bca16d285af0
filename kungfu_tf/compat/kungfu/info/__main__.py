"""Prints it."""

import sys

from kungfu.info import show

sys.exit(show())
