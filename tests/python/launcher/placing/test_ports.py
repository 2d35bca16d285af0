"""The ports that a launcher holds for its peers."""

import ipaddress

import pytest

from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.placing.ports import Reservation
from tests import ports

HERE = ipaddress.ip_address("127.0.0.1")


@pytest.fixture
def reservations():
    """Those of two launchers."""
    both = Reservation(HERE), Reservation(HERE)
    yield both
    for one in both:
        one.close()


def test_a_port_belongs_to_one_launcher(reservations) -> None:
    mine, other = reservations
    first, second = ports.take(2)
    assert mine.take_another((first, second)) == first
    assert other.take_another((first, second)) == second
    with pytest.raises(LaunchError, match=f"port {first} .* belongs to another kungfu-run"):
        other.take([first])


def test_a_port_that_is_given_back_is_for_others(reservations) -> None:
    mine, other = reservations
    (port,) = ports.take(1)
    assert mine.take_another((port, port)) == port
    mine.give_back(port)
    with pytest.raises(LaunchError, match="no port is left"):
        mine.take_another((port, port))
    assert other.take_another((port, port)) == port
