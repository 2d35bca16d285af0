"""The process between the caller and its children: a `kungfu-run` that a program starts.

It ends with its caller, and so do all processes that it has started.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from kungfu_tf.function_launch import channel, programs
from kungfu_tf.function_launch.report import Report
from kungfu_tf.launcher.command import job_run
from kungfu_tf.launcher.options.command_line import Options
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.output.outcome import first_failure
from kungfu_tf.launcher.processes import peer_process


def main(arguments: Sequence[str]) -> int:
    """Arguments: the caller's pid; the seconds it waits; the descriptors of a channel."""
    peer_process.end_with(int(arguments[0]))
    timeout = float(arguments[1])
    report, *inherited = map(int, arguments[2:])
    options = Options(
        command=tuple(programs.command("kungfu_tf.function_launch.child", inherited)),
        np=len(inherited) - 1,
        timeout=timeout,
    )
    channel.write(report, _run(options, inherited).to_json())
    return 0


def _run(options: Options, inherited: Sequence[int]) -> Report:
    try:
        end = job_run.run(options, os.environ, inherited=inherited)
    except LaunchError as error:
        return Report(error=str(error))
    first = first_failure(end.outcomes)
    return Report(
        code=end.code,
        outcomes=tuple(sorted(end.outcomes, key=lambda outcome: outcome.rank)),
        first=None if first is None else first.rank,
    )
