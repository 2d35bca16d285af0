"""Waits for the document of a config server that a job begins with (-init-version -1)."""

import math
import selectors
import time
from collections.abc import Callable, Sequence

from kungfu_tf.launcher.channels import event_turn
from kungfu_tf.launcher.channels.signals import ENDING, SignalPipe
from kungfu_tf.launcher.document.config_source import HAS_ENDED, OtherServer
from kungfu_tf.launcher.document.memory_store import MemoryStore
from kungfu_tf.launcher.options.command_line import Options
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.output.output_wait import TIMED_OUT


def wait(
    options: Options,
    secret: str,
    signals: SignalPipe,
    say: Callable[[str], None],
) -> Sequence[str]:
    """Returns the workers of the document.

    Args:
        options: The options of the command line, which name a config server.
        secret: The secret for the server.
        signals: The signals that end the wait.
        say: Prints a line for the user.

    Raises:
        LaunchError: If the process that follows the server has ended; or after a signal or the
            timeout, with its exit code.
    """
    assert options.config_server is not None, "as command_line.py checks"
    documents: list[Sequence[str]] = []
    ended: list[int] = []

    def begin(workers: Sequence[str], *, found: bool = False) -> None:
        del found
        documents.append(workers)

    def end(_events: int) -> None:
        ended.extend(number for number in signals.take() if number in ENDING)

    with selectors.PollSelector() as selector:
        selector.register(signals, selectors.EVENT_READ, end)
        say(f"waiting for the document of {options.config_server}")
        store, url = MemoryStore(), options.config_server
        source = OtherServer(store, url, secret, selector, begin, say)
        deadline = time.monotonic() + (options.timeout or math.inf)
        try:
            while not documents or ended:
                left = deadline - time.monotonic()
                if ended or left <= 0:
                    code = 128 + ended[0] if ended else TIMED_OUT
                    raise LaunchError("there was no document to begin with", exit_code=code)
                if source.has_ended:
                    raise LaunchError(f"{HAS_ENDED}: there was no document to begin with")
                event_turn.take(selector, selector.select(None if left == math.inf else left))
        finally:
            source.close()
    return documents[0]
