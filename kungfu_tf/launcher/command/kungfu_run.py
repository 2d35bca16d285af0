"""`kungfu-run`: the command."""

import errno
import os
import resource
import signal
import sys
from collections.abc import Sequence

from kungfu_tf._version import __version__
from kungfu_tf.launcher.command import job_run, resizing
from kungfu_tf.launcher.options import command_line, flags
from kungfu_tf.launcher.options.launch_error import LaunchError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a job to its end.

    Args:
        arguments: the command line without the launcher's name; by default the one of this process.

    Returns:
        The exit code, as `kungfu-run --help` explains it.
    """
    _open_standard_descriptors()
    try:
        options = command_line.parse(sys.argv[1:] if arguments is None else arguments)
        if options.resize is not None:
            print(resizing.run(options, os.environ))
            return 0
        return job_run.run(options, os.environ).code
    except command_line.HelpRequested:
        print(flags.help_text(), end="")
        return 0
    except command_line.VersionRequested:
        print(f"kungfu-run {__version__}")
        return 0
    except LaunchError as error:
        print(f"kungfu-run: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        print(
            f"kungfu-run: {most} open files, this process' limit, are too few for this job; raise "
            "it by `ulimit -n`",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _open_standard_descriptors() -> None:
    """Opens those that the caller has closed, so that no other file takes their numbers."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
