"""`python -m kungfu_tf.launcher`, the same as `kungfu-run`."""

import sys

from kungfu_tf.launcher.command.kungfu_run import main

if __name__ == "__main__":
    sys.exit(main())
