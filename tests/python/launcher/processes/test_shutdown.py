"""How a job is stopped step by step."""

import signal

from kungfu_tf.launcher.processes.shutdown import Shutdown


def test_requests_grow_stronger() -> None:
    sent: list[int] = []
    shutdown = Shutdown(signal.SIGINT, 0.0, sent.append)
    while not shutdown.exhausted:
        shutdown.advance()
    assert sent == [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]


def test_there_is_time_before_the_first_signal_and_none_after_kill() -> None:
    sent: list[int] = []
    shutdown = Shutdown(None, 3600.0, sent.append)
    shutdown.advance()
    assert sent == []
    shutdown.kill()
    assert sent == [signal.SIGKILL]
    assert not shutdown.exhausted
