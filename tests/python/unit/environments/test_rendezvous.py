"""Processes of a job learn each other's addresses, or who is missing."""

from __future__ import annotations

import concurrent.futures
import socket

import pytest

from kungfu_tf import errors
from kungfu_tf.environments import rendezvous
from kungfu_tf.environments.placement import Placement
from kungfu_tf.environments.rendezvous import Meeting, Patience
from kungfu_tf.links.credentials import Credentials
from kungfu_tf.links.handshake import Asking
from tests import ports

SECRET = "a secret of this test"
LONG, SHORT = Patience(60.0, 100.0), Patience(0.0, 1.0)


@pytest.fixture
def port() -> int:
    return ports.take()[0]


def come(
    rank: int, size: int, port: int, *, secret: str = SECRET, patience: Patience = LONG
) -> Meeting:
    """One process comes; its own port is 7000 more than its rank."""
    place = Placement("a test", (), rank, size, "job", "127.0.0.1", port)
    return rendezvous.meet(place, Credentials(place.job_id, secret), 7000 + rank, patience)


def test_all_get_the_same_addresses_in_rank_order(port: int) -> None:
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        coming = [pool.submit(come, rank, 5, port) for rank in (3, 0, 4, 1, 2)]
        met = {one.result() for one in coming}
    assert len(met) == 1
    assert met.pop().peers == tuple(f"127.0.0.1:{7000 + rank}" for rank in range(5))


def test_strangers_do_not_take_part(port: int) -> None:
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        leader = pool.submit(come, 0, 2, port)
        with pytest.raises(errors.PermissionDeniedError, match=r"another secret .* than rank 1"):
            come(1, 2, port, secret="another secret of this test")
        with socket.create_connection(("127.0.0.1", port)) as silent:
            silent.recv(1)
            with socket.create_connection(("127.0.0.1", port)) as loud:
                loud.sendall(b"GET / HTTP/1.1\r\n" + b"x" * 9999)
            assert come(1, 2, port) == leader.result()


def test_whoever_is_missing_is_named(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        first = pool.submit(come, 0, 4, port, patience=SHORT)
        second = pool.submit(come, 2, 4, port)
        with pytest.raises(errors.DeadlineExceededError, match=r"for rank 1, (2, )?3 of 4"):
            first.result()
        with pytest.raises(errors.KungfuError, match=r"rank 0 at 127.0.0.1"):
            second.result()
    assert f"kungfu_tf: rank 0 waits at 127.0.0.1:{port} for rank 1, 2, 3" in capfd.readouterr().err


def test_a_rank_0_that_does_not_come_is_named(port: int) -> None:
    with pytest.raises(
        errors.DeadlineExceededError, match=rf"waits for rank 0 at .*:{port}: .*ref"
    ):
        come(1, 2, port, patience=SHORT)


def test_a_rank_0_that_listens_at_a_port_of_others_says_so(port: int) -> None:
    with (
        socket.create_server(("", port)),
        pytest.raises(errors.UnavailableError, match=rf"port {port}: .* set KUNGFU_LEADER"),
    ):
        come(0, 2, port)


def hello(port: int, rank: int, size: int) -> socket.socket:
    """A process that has said who it is."""
    while True:
        try:
            connected = socket.create_connection(("127.0.0.1", port), timeout=60)
            break
        except ConnectionRefusedError:
            continue
    job = Placement("a test", (), rank, size, "job").job_id
    asking = Asking(Credentials(job, SECRET), f"{rank},{size},127.0.0.1,{7000 + rank}")
    with connected.makefile("r") as lines:
        connected.sendall(f"{asking.hello(lines.readline().strip())}\n".encode())
        assert asking.welcomed(lines.readline().strip())
    return connected


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ([(1, 4), (1, 4)], "two processes are rank 1"),
        ([(1, 5)], "rank 1 of 5, and rank 0 one of 4"),
        ([(7, 4)], "rank 7 of 4"),
    ],
)
def test_processes_that_do_not_fit_together_end_all(
    others: list[tuple[int, int]], message: str, port: int
) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        leader = pool.submit(come, 0, 4, port)
        with hello(port, 2, 4) as honest, honest.makefile("r") as told:
            strange = [hello(port, rank, size) for rank, size in others]
            with pytest.raises(errors.FailedPreconditionError, match=message):
                leader.result()
            assert told.readline().startswith("refused ")
        for one in strange:
            one.close()


def test_a_process_that_ends_meanwhile_ends_all(port: int) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        leader = pool.submit(come, 0, 3, port)
        hello(port, 1, 3).close()
        with pytest.raises(errors.UnavailableError, match=r"rank 1 .* has ended before all"):
            leader.result()


def test_a_port_is_held_until_the_core_listens() -> None:
    port, held = rendezvous.reserve(0)
    assert held is not None
    with held:
        with pytest.raises(OSError, match=r"in use"), socket.socket() as other:
            other.bind(("127.0.0.1", port))
        socket.create_server(("127.0.0.1", port)).close()  # with SO_REUSEADDR, as the core
    assert rendezvous.reserve(7001) == (7001, None)
