"""What the end of a process is called."""

from kungfu_tf.launcher.processes import peer_process


def test_codes_are_those_of_shells() -> None:
    assert (peer_process.exit_code(3), peer_process.exit_code(-9)) == (3, 137)
    assert peer_process.describe(3) == "exit code 3"
    assert peer_process.describe(-11) == "killed by SIGSEGV"
    assert peer_process.describe(-63) == "killed by signal 63"
