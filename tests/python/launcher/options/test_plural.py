"""One, and more than one."""

from kungfu_tf.launcher.options.plural import plural, there_are


def test_one_is_singular_and_all_else_plural() -> None:
    assert [plural(number, "peer") for number in range(3)] == ["0 peers", "1 peer", "2 peers"]
    assert [there_are(number, "slot") for number in (1, 2)] == [
        "there is 1 slot",
        "there are 2 slots",
    ]
