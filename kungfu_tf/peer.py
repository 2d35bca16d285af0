"""This process as a peer: who it is, who the others are, and meeting them.

The first exchange starts the peer. Without the launcher the process is one of one. To ask for ranks
and sizes starts nothing: a data worker that the peer has started may ask, too.

Every function here that starts or asks the peer raises

    LibraryError                the core is missing, or of another version than the package
    InvalidArgumentError        a variable of the environment cannot be understood
    FailedPreconditionError     after `shutdown`

What starts the peer raises, too

    FailedPreconditionError     in a process that was started by a peer, and is none; if there are
                                several peers and no secret
    KungfuError                 another reason why the peer cannot start: its port is taken, the
                                launcher cannot be reached; the message says which

In a job whose peers change (`kungfu-run -w`) a new process that a peer has started (spawn) hears
nothing of that: there ranks and sizes raise FailedPreconditionError.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kungfu_tf import config, errors
from kungfu_tf.native import libraries

__all__ = [
    "all_reduce_int_max",
    "barrier",
    "detached",
    "elastic",
    "epoch",
    "host_count",
    "init",
    "is_root",
    "is_single_process",
    "joining",
    "launched",
    "local_rank",
    "local_size",
    "name_of",
    "names_of",
    "outdated",
    "propose_from_url",
    "propose_new_size",
    "rank",
    "resize",
    "run_on_root",
    "shutdown",
    "size",
    "uid",
]

_SHOWN = 5  # ranks in a message

T = TypeVar("T")


def launched() -> bool:
    """Whether a launcher started this process. If not, it is one of one for ever."""
    return config.identity().peer != ""


def is_single_process() -> bool:
    """Whether this process is one of one for ever, so that programs can leave out all exchange."""
    return not launched() or (size() == 1 and not elastic())


def init() -> None:
    """Starts the peer. Optional: whatever needs the peer starts it.

    Does not wait for the others: each is connected when something is sent to it.

    Raises:
        InvalidArgumentError: If a variable of the environment cannot be understood.
        FailedPreconditionError: After `shutdown`, in a process that was started by a peer, or if
            there are several peers and no secret.
        KungfuError: If the peer cannot start for another reason, such as a port that is taken.
    """
    libraries.check(libraries.core().kungfu_init())


def shutdown() -> None:
    """Ends the peer, which cannot start again. Happens by itself at exit.

    What is pending fails with CancelledError, what comes later with FailedPreconditionError. Waits
    up to 3 seconds for the other peers to take leave.
    """
    libraries.check(libraries.core().kungfu_shutdown())


def elastic() -> bool:
    """Whether peers may come and go: `kungfu-run -w`."""
    return bool(_number("kungfu_elastic"))


def joining() -> bool:
    """Whether this is a newcomer that was not taken in yet: until it is, a peer of one, of rank 0.

    What is there for all, files for instance, belongs to the job that it has come to.
    """
    return bool(_number("kungfu_joining"))


def outdated() -> bool:
    """Whether this peer has been told of a newer list of peers than the one that it is in."""
    return bool(_number("kungfu_outdated"))


def detached() -> bool:
    """Whether this peer takes no part any more: the job has become smaller without it.

    Its rank is -1, its size 0, and collectives raise AbortedError. It should end, with code 0.
    """
    return size() == 0


def propose_new_size(n: int) -> None:
    """Asks the launcher for another number of peers, and goes on.

    Newcomers are started, and boot while the others train. When they are ready, all peers go over
    at their next `resize`. What was proposed last counts. To make the job smaller those with the
    highest ranks leave.

    Args:
        n: How many, from 1 to the slots of `kungfu-run -H`.

    Raises:
        FailedPreconditionError: If there are not as many slots, or the job was not started with
            `kungfu-run -w`.
        UnavailableError: If the launcher is gone.
        DeadlineExceededError: If it does not answer.
    """
    start = libraries.core().kungfu_propose_size
    _Call().run(lambda done, number: start(n, done, number))


def propose_from_url() -> None:
    """Asks the launcher for as many peers as its config server has workers, and goes on.

    As `propose_new_size`. The launcher follows its config server by itself: this asks it to look
    at once, and says what came of it.

    Raises:
        FailedPreconditionError: If the job was started without `kungfu-run -config-server`, the
            server does not answer, or there are not as many slots.
        UnavailableError: If the launcher is gone.
        DeadlineExceededError: If it does not answer.
    """
    start = libraries.core().kungfu_propose_from_url
    _Call().run(lambda done, number: start(done, number))


def resize(*, n: int | None = None) -> bool:
    """Goes over to the newest list of peers, if there is a newer one than this peer's.

    All peers call it at the same point of their work, such as the end of a step: they go over
    together, or none does. A newcomer calls it once before it takes part, and waits until it is
    taken in. Operations of before are over; ranks and sizes may be others. Whoever has come knows
    nothing of the training yet: broadcast the variables and the step from rank 0, which always is a
    peer that was there before.

    Args:
        n: How many peers there should be; rank 0 proposes it (`propose_new_size`). They have come
            at a later call: nobody waits for them. Today's number takes back what was proposed,
            unless the call before had it, too.

    Returns:
        Whether the peers are others now.

    Raises:
        FailedPreconditionError: As from `propose_new_size`, on rank 0, once all have met: if they
            have gone over to what was proposed before, `epoch` is another one then.
        AbortedError: If this peer is detached.
        UnavailableError: If a peer or the launcher is gone.
        DeadlineExceededError: If one has not come within KUNGFU_COLLECTIVE_TIMEOUT seconds.
    """
    refusal = None
    if n is not None:
        try:
            _Call().run(lambda done, number: libraries.core().kungfu_want_size(n, done, number))
        except errors.KungfuError as error:  # the others are on their way
            refusal = error
    before = epoch()
    _Call().run(lambda done, number: libraries.core().kungfu_advance(done, number))
    if refusal is not None:
        raise refusal
    return epoch() != before


def rank() -> int:
    """This peer's position among all peers, from 0."""
    return _number("kungfu_rank")


def size() -> int:
    """The number of peers."""
    return _number("kungfu_size")


def local_rank() -> int:
    """This peer's position among the peers of its host, from 0."""
    return _number("kungfu_local_rank")


def local_size() -> int:
    """The number of peers on this host."""
    return _number("kungfu_local_size")


def host_count() -> int:
    """The number of hosts that have peers."""
    return _number("kungfu_host_count")


def epoch() -> int:
    """The number of the session, from 0: one higher with each change of who takes part."""
    return _number("kungfu_epoch")


def name_of(rank: int) -> str:
    """Where the peer of a rank is, "10.0.0.1:10000"; empty if there is no such rank."""
    return libraries.core().kungfu_peer_name(rank).decode()


def names_of(ranks: Sequence[int]) -> str:
    """The same of several, for messages: "rank 0 (10.0.0.1:10000) and rank 2 (10.0.0.2:10000)"."""
    shown = [f"rank {rank} ({name_of(rank)})" for rank in ranks[:_SHOWN]]
    if len(ranks) > len(shown):
        shown.append(f"{len(ranks) - len(shown)} more ranks")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)


def uid() -> int:
    """A number of 63 bits that no other peer of the job has, the same as long as the peer lives."""
    me = config.identity()
    data = f"{me.job}/{me.epoch}/{me.peer or f'pid {os.getpid()}'}".encode()
    return libraries.core().kungfu_digest(data, len(data)) >> 1


def is_root() -> bool:
    """Whether this peer has rank 0, and is no newcomer that was not taken in yet (`joining`)."""
    return rank() == 0 and not joining()


def run_on_root(fn: Callable[[], T]) -> T | None:
    """Calls `fn` on the peer with rank 0 only. The others do not wait: `barrier` does that.

    Args:
        fn: A function without arguments.

    Returns:
        What `fn` returned on rank 0, None elsewhere.

    Raises:
        Exception: What `fn` raises, on rank 0.
    """
    return fn() if is_root() else None


def barrier(*, name: str = "barrier") -> None:
    """Returns when all peers have called it.

    Args:
        name: The same on every peer. Calls of one name are matched in their order.

    Raises:
        InvalidArgumentError: If the name is empty, longer than 1024 bytes, or begins with kungfu/.
        DeadlineExceededError: If a peer has not come within KUNGFU_COLLECTIVE_TIMEOUT seconds.
        UnavailableError: If a peer is gone.
        CancelledError: If the peer is shut down in the middle.
        FailedPreconditionError: As from `init`.
    """
    options = libraries.Options(name=name.encode())
    start = libraries.core().kungfu_barrier
    _Call().run(lambda done, number: start(ctypes.byref(options), done, number))


def all_reduce_int_max(x: int) -> int:
    """Returns the largest that a peer has given. All call it, in the same order.

    Args:
        x: A number of 64 bits.

    Raises:
        DeadlineExceededError: If a peer has not come within KUNGFU_COLLECTIVE_TIMEOUT seconds.
        UnavailableError: If a peer is gone.
        AbortedError: If this peer is detached.
        FailedPreconditionError: As from `init`.
    """
    value = ctypes.c_int64(x)
    here = ctypes.addressof(value)
    spans = libraries.Span(here, here, 1)
    options = libraries.Options(name=b"all_reduce_int_max", dtype=libraries.INT64, op=libraries.MAX)
    start = libraries.core().kungfu_all_reduce
    refs = ctypes.byref(spans), 1, ctypes.byref(options)
    _Call(memory=value).run(lambda done, number: start(*refs, done, number))
    return value.value


def interrupt(code: int, reason: str) -> None:
    """Tells the other peers that this one leaves the middle of what all do together.

    What they have pending fails, and what they start until they begin a new epoch.

    Args:
        code: With which status code.
        reason: What they are told; they learn the rank by themselves.
    """
    libraries.core().kungfu_interrupt(code, reason.encode())


def interrupted() -> bool:
    """Whether the epoch was interrupted, by this peer or another."""
    return bool(_number("kungfu_interrupted"))


def begin_epoch() -> None:
    """Goes over to a new epoch, in which the operations of all peers are in step, whatever was.

    All peers call it and wait for each other; out of an epoch that was interrupted, or is while
    they wait, each goes for itself. What is pending fails with CancelledError.

    Raises:
        UnavailableError: If a peer is gone.
        DeadlineExceededError: If one has not come within KUNGFU_COLLECTIVE_TIMEOUT seconds.
    """
    start = libraries.core().kungfu_begin_epoch
    try:
        _Call().run(lambda done, number: start(None, done, number))
    except errors.KungfuError:
        if not interrupted():
            raise
        _Call().run(lambda done, number: start(None, done, number))  # it was, meanwhile


class _Call:
    """One call into the core that ends later. The core holds a pointer to it until it has.

    Args:
        memory: What the core reads and writes, also after a signal's handler has left `run`.
    """

    _numbers = itertools.count(1)
    _pending: dict[int, _Call] = {}

    def __init__(self, memory: object = None) -> None:
        self._memory = memory
        self._done = threading.Event()
        self._code = 0
        self._message = ""

    def run(self, start: Callable[[Any, int], int | None]) -> None:
        """Calls `start` with the function and the argument that the core wants, and waits."""
        number = next(self._numbers)
        self._pending[number] = self
        operation = start(self._on_done, number)
        try:
            self._done.wait()  # the core has the deadline
        except BaseException:  # of a signal's handler
            if operation is not None:
                libraries.core().kungfu_cancel(operation, 0, b"")
            raise
        if self._code != 0:
            raise errors.from_code(self._code, self._message)

    @staticmethod
    @libraries.Done
    def _on_done(number: int, code: int, message: bytes | None) -> None:
        call = _Call._pending.pop(number)
        call._code, call._message = code, (message or b"").decode(errors="replace")
        call._done.set()


def _number(function: str) -> int:
    value: int = getattr(libraries.core(), function)()
    if value < 0:
        libraries.check(libraries.core().kungfu_init())  # says why there is no peer
    return value
