"""kungfu-run."""

from kungfu.cmd import run

run()
